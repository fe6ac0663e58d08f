package importer

import (
	"errors"
	"fmt"
	"strconv"
	"strings"

	"ceiling/internal/lazy"
)

var (
	h2loadTotal   = lazy.Regexp(`(?m)^requests: (\d+) total, \d+ started, (\d+) done, (\d+) succeeded, (\d+) failed, (\d+) errored, (\d+) timeout\r?$`)
	h2loadRate    = lazy.Regexp(`(?m)^finished in ([\d.]+(?:us|ms|s|m|h)), ([\d.]+) req/s, `)
	h2loadStatus  = lazy.Regexp(`(?m)^status codes: (\d+) 2xx, (\d+) 3xx, (\d+) 4xx, (\d+) 5xx\r?$`)
	h2loadBytes   = lazy.Regexp(`(?m)^traffic: [^(]+\((\d+)\) total`)
	h2loadThread  = lazy.Regexp(`(?m)^spawning thread #\d+: (\d+) total client\(s\)`)
	h2loadColumns = lazy.Regexp(`(?m)^ +(min +max .*)\r?$`)
	h2loadTimes   = lazy.Regexp(`(?m)^(?:time for )?request *: +(.+?)\r?$`)
)

// h2loadCut is the number of responses that may have a status but be incomplete: those that
// h2load was reading when its time ran out. Observed: 1 or 2 with HTTP/1.1, and 1.5% of all with
// 64 connections of 100 streams, a number that h2load does not print.
func h2loadCut(succeeded uint64) uint64 { return 16 + succeeded/20 }

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
		return r, fmt.Errorf("%s is no time of a run", rate[0])
	}
	r.DurationS = float64(elapsed) / 1e9
	perS, err := strconv.ParseFloat(rate[1], 64)
	if err != nil {
		return r, err
	}
	r.Caveats = append(r.Caveats,
		"closed loop: a stalled server is sent less, so its latencies leave the stall out (coordinated omission)",
		"it repeats neither the URL nor how many requests are in flight on a connection (-m)")
	done, err := r.h2loadCounts(sum, status)
	if err != nil {
		return r, err
	}
	r.holdRate(done, perS)
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
	return r, r.h2loadLatency(text)
}

// h2loadCounts parses the request outcomes; "failed" includes bad statuses, errors and timeouts.
func (r *Result) h2loadCounts(sum, status []string) (done uint64, err error) {
	var n [10]uint64
	for i, digits := range append(append([]string{}, sum...), status...) {
		if n[i], err = countOf(digits); err != nil {
			return 0, err
		}
	}
	done, succeeded, failed, timeouts := n[1], n[2], n[3], n[5]
	r.Statuses = map[string]uint64{}
	for i, class := range []string{"2xx", "3xx", "4xx", "5xx"} {
		if n[6+i] > 0 {
			r.Statuses[class] = n[6+i]
		}
	}
	if r.Requests, err = total(r.Statuses); err != nil {
		return 0, err
	}
	good := r.Statuses["2xx"] + r.Statuses["3xx"]
	if done != succeeded+failed || good < succeeded || good > succeeded+h2loadCut(succeeded) {
		return 0, fmt.Errorf("%d done are not %d succeeded and %d failed with %d of status 2xx and 3xx", done, succeeded, failed, good)
	}
	if cut := good - succeeded; cut > 0 && r.Statuses["2xx"] >= cut {
		// Their status had been read, their end had not.
		r.Statuses["2xx"] -= cut
		r.Requests -= cut
	}
	lost := done - min(r.Requests, done)
	r.fail("timeout", min(timeouts, lost))
	r.fail("error", lost-min(timeouts, lost))
	return done, nil
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
