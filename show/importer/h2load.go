package importer

import (
	"errors"
	"fmt"
	"maps"
	"slices"
	"strconv"
	"strings"

	"ceiling/internal/lazy"
)

var (
	h2loadTotal   = lazy.Regexp(`(?m)^requests: (\d+) total, (\d+) started, (\d+) done, (\d+) succeeded, (\d+) failed, (\d+) errored, (\d+) timeout$`)
	h2loadRate    = lazy.Regexp(`(?m)^finished in ([\d.]+(?:us|ms|s|m|h)), ([\d.]+) req/s, `)
	h2loadSpeed   = lazy.Regexp(`(?m)^finished in \S+ [\d.]+ req/s, ([\d.]+)([KMGT]?)B/s$`)
	h2loadStatus  = lazy.Regexp(`(?m)^status codes: (\d+) 2xx, (\d+) 3xx, (\d+) 4xx, (\d+) 5xx$`)
	h2loadBytes   = lazy.Regexp(`(?m)^traffic: [^(]+\((\d+)\) total`)
	h2loadThread  = lazy.Regexp(`(?m)^spawning thread #\d+: (\d+) total client\(s\)`)
	h2loadColumns = lazy.Regexp(`(?m)^ +(min +max .*)$`)
	h2loadTimes   = lazy.Regexp(`(?m)^(?:time for )?request *: +(.+?)$`)
)

// parseH2load parses h2load's text.
func parseH2load(data []byte) (Result, error) {
	text := string(data)
	r := Result{Tool: H2load, From: FromSent, Loop: Closed}
	sum, err := match(h2loadTotal(), "requests: … done", text)
	if err != nil {
		return r, err
	}
	rate, err := match(h2loadRate(), "finished in …", text)
	if err != nil {
		return r, err
	}
	status, err := match(h2loadStatus(), "status codes", text)
	if err != nil {
		return r, err
	}
	elapsed, _, err := printed(rate[0])
	if err != nil || elapsed == 0 {
		return r, fmt.Errorf("invalid duration %s", rate[0])
	}
	r.DurationS = float64(elapsed) / 1e9
	perS, err := strconv.ParseFloat(rate[1], 64)
	if err != nil {
		return r, err
	}
	r.Caveats = append(r.Caveats,
		"closed loop: stalls are under-represented (coordinated omission)",
		"the output lacks the URL and the requests in flight on a connection (-m)")
	warm := strings.Contains(text, " warm-up time") && !strings.Contains(text, " 0s of warm-up time")
	if err := r.h2loadCounts(sum, status, warm); err != nil {
		return r, err
	}
	r.holdRate(r.Requests, perS)
	for _, g := range h2loadThread().FindAllStringSubmatch(text, -1) {
		n, err := strconv.Atoi(g[1])
		if err != nil || n > countMax>>20 {
			return r, fmt.Errorf("%.40s clients cannot be", g[1])
		}
		r.Connections, r.Workers = r.Connections+n, r.Workers+1
	}
	if g := h2loadBytes().FindStringSubmatch(text); g != nil {
		n, err := countOf(g[1])
		if err != nil {
			return r, err
		}
		r.BytesRead = &n
	}
	return r, errors.Join(r.transfer(h2loadSpeed(), text), r.h2loadLatency(text))
}

// h2loadCounts parses the request outcomes. By src/h2load.cc (nghttp2 1.52 to 1.65)
//
//   - total is succeeded + failed, by construction;
//   - failed are errored, those without a response, and the complete responses with a bad status;
//   - timeout is a part of errored, as are requests that were never sent: done has neither;
//   - a status counts when it is read, for requests started in the measured time.
func (r *Result) h2loadCounts(sum, status []string, warm bool) error {
	var n [11]uint64
	for i, digits := range slices.Concat(sum, status) {
		var err error
		if n[i], err = countOf(digits); err != nil {
			return err
		}
	}
	all, started, succeeded, failed, errored, timeouts := n[0], n[1], n[3], n[4], n[5], n[6]
	statuses := n[7:]
	heads := statuses[0] + statuses[1] + statuses[2] + statuses[3]
	switch {
	case all != succeeded+failed:
		return fmt.Errorf("%d requests in total are not %d succeeded and %d failed", all, succeeded, failed)
	case errored > failed:
		return fmt.Errorf("%d errored of %d failed cannot be", errored, failed)
	case warm: // requests of the warm-up end in the measured time: some have no status, some are not started
	case heads > started:
		return fmt.Errorf("%d statuses of %d requests cannot be", heads, started)
	case statuses[0]+statuses[1] < succeeded:
		return fmt.Errorf("%d succeeded with %d statuses of 2xx and 3xx cannot be", succeeded, statuses[0]+statuses[1])
	}
	r.Statuses = map[string]uint64{}
	r.h2loadStatuses(succeeded, map[string]uint64{"2xx": statuses[0], "3xx": statuses[1]}, "below 400")
	r.h2loadStatuses(failed-errored, map[string]uint64{"4xx": statuses[2], "5xx": statuses[3]}, "400 or more")
	r.Requests = succeeded + failed - errored
	r.fail("timeout", min(timeouts, errored))
	r.fail("error", errored-min(timeouts, errored))
	return nil
}

// h2loadStatuses divides complete responses by their status: of some more the status was read and
// the end was not; of a few, begun in the warm-up or of no class that h2load prints, it was not
// counted.
func (r *Result) h2loadStatuses(complete uint64, counts map[string]uint64, others string) {
	for _, class := range slices.Backward(slices.Sorted(maps.Keys(counts))) {
		if n := min(counts[class], complete); n > 0 {
			r.Statuses[class] = n
			complete -= n
		}
	}
	if complete > 0 {
		r.Statuses[others] = complete
	}
}

// h2loadLatency parses the row of the requests by column name, because 1.62 and later add a
// median and two percentiles.
func (r *Result) h2loadLatency(text string) error {
	columns, row := h2loadColumns().FindStringSubmatch(text), h2loadTimes().FindStringSubmatch(text)
	if r.Requests == 0 || columns == nil || row == nil {
		return nil
	}
	names, values := strings.Fields(strings.Replace(columns[1], "+/- sd", "within", 1)), strings.Fields(row[1])
	if len(names) != len(values) {
		return errors.New("its row of request times has other columns than its head")
	}
	quantiles := map[string]float64{"median": .5, "p95": .95, "p99": .99}
	for i, name := range names {
		if name == "sd" || name == "within" {
			continue
		}
		ns, digit, err := printed(values[i])
		if err != nil {
			return err
		}
		switch q, is := quantiles[name]; {
		case is:
			r.Quantiles = append(r.Quantiles, Quantile{q, ns, digit})
		case name == "min":
			r.MinNs = &ns
		case name == "max":
			r.MaxNs = &ns
		case name == "mean":
			r.MeanNs, r.MeanDigitNs = &ns, digit
		}
	}
	return nil
}
