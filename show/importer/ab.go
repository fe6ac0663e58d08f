package importer

import (
	"errors"
	"fmt"
	"strconv"
	"strings"

	"ceiling/internal/lazy"
)

var (
	abHead       = lazy.Regexp(`(?m)^This is ApacheBench`)
	abHost       = lazy.Regexp(`(?m)^Server Hostname: +(\S+)\r?$`)
	abPort       = lazy.Regexp(`(?m)^Server Port: +(\d+)\r?$`)
	abPath       = lazy.Regexp(`(?m)^Document Path: +(\S+)\r?$`)
	abConcurrent = lazy.Regexp(`(?m)^Concurrency Level: +(\d+)\r?$`)
	abTime       = lazy.Regexp(`(?m)^Time taken for tests: +([\d.]+) seconds\r?$`)
	abComplete   = lazy.Regexp(`(?m)^Complete requests: +(\d+)\r?$`)
	abFailed     = lazy.Regexp(`(?m)^Failed requests: +(\d+)\r?$`)
	abCauses     = lazy.Regexp(`(?m)^ +\(Connect: (\d+), Receive: (\d+), Length: (\d+), Exceptions: (\d+)\)\r?$`)
	abStatus     = lazy.Regexp(`(?m)^Non-2xx responses: +(\d+)\r?$`)
	abKept       = lazy.Regexp(`(?m)^Keep-Alive requests: +(\d+)\r?$`)
	abBytes      = lazy.Regexp(`(?m)^Total transferred: +(\d+) bytes\r?$`)
	abRate       = lazy.Regexp(`(?m)^Requests per second: +([\d.]+) \[#/sec\] \(mean\)\r?$`)
	abTotal      = lazy.Regexp(`(?m)^Total: +(\d+) +(\d+) +[\d.]+ +(\d+) +(\d+)\r?$`)
	abQuantile   = lazy.Regexp(`(?m)^ +(\d+)% +(\d+)(?: \(longest request\))?\r?$`)
)

// abDigit is the resolution of ab's latencies: a millisecond.
const abDigit = 1_000_000

// parseAb parses ab's text.
func parseAb(data []byte) (Result, error) {
	text := string(data)
	r := Result{Tool: Ab, From: FromSent, Loop: Closed, Workers: 1, Pipelining: 1}
	r.Caveats = append(r.Caveats,
		"closed loop: a stalled server is sent less, so its quantiles leave the stall out (coordinated omission)",
		"its latencies are whole milliseconds: a 0 is anything below one; its finer \"Time per request\" is connections × time ÷ requests and no measurement of one",
		"ab is one thread: with that thread full the rate is ab's own")
	fields, err := abFields(text)
	if err != nil {
		return r, err
	}
	if r.Connections, err = strconv.Atoi(fields[0]); err != nil {
		return r, fmt.Errorf("%s connections cannot be", fields[0])
	}
	if r.DurationS, err = strconv.ParseFloat(fields[1], 64); err != nil || r.DurationS <= 0 {
		return r, fmt.Errorf("%s s is no time of a run", fields[1])
	}
	complete, err := countOf(fields[2])
	if err != nil {
		return r, err
	}
	perS, err := strconv.ParseFloat(fields[3], 64)
	if err != nil {
		return r, err
	}
	host, port, path := abHost().FindStringSubmatch(text), abPort().FindStringSubmatch(text), abPath().FindStringSubmatch(text)
	if host != nil && port != nil && path != nil {
		r.Target = "http://" + host[1] + ":" + port[1] + path[1]
	}
	if err := errors.Join(r.abCounts(text, complete), r.abLatency(text)); err != nil {
		return r, err
	}
	r.holdRate(complete, perS)
	return r, nil
}

// abFields extracts the four figures that every report has.
func abFields(text string) ([]string, error) {
	var out []string
	for _, found := range [][][]string{
		abConcurrent().FindAllStringSubmatch(text, 2), abTime().FindAllStringSubmatch(text, 2),
		abComplete().FindAllStringSubmatch(text, 2), abRate().FindAllStringSubmatch(text, 2),
	} {
		if len(found) != 1 {
			return nil, errors.New("want one line each of Concurrency Level, Time taken for tests, Complete requests and Requests per second: it is cut off, or holds several runs")
		}
		out = append(out, found[0][1])
	}
	return out, nil
}

// abCounts parses the request outcomes. ab counts bodies that differ in length from the first one
// as failures; every other tool counts them as responses.
func (r *Result) abCounts(text string, complete uint64) error {
	counts := map[string]uint64{}
	for name, g := range map[string][]string{
		"failed": abFailed().FindStringSubmatch(text), "status": abStatus().FindStringSubmatch(text),
		"kept": abKept().FindStringSubmatch(text), "bytes": abBytes().FindStringSubmatch(text),
	} {
		if g == nil {
			continue
		}
		n, err := countOf(g[1])
		if err != nil {
			return err
		}
		counts[name] = n
	}
	if counts["status"] > complete || counts["failed"] > 4*complete || counts["kept"] > complete {
		return fmt.Errorf("%d failed, %d of another status and %d kept alive of %d requests cannot be", counts["failed"], counts["status"],
			counts["kept"], complete)
	}
	lost := counts["failed"]
	if g := abCauses().FindStringSubmatch(text); g != nil {
		lost = 0
		for i, what := range []string{"connect", "receive", "length", "exception"} {
			n, err := countOf(g[i+1])
			if err != nil {
				return err
			}
			if what == "length" {
				if n > 0 {
					r.caveat("%d responses had another length than the first: ab calls them failed, which a page of varying length is not (ab -l)", n)
				}
				continue
			}
			lost += n
			r.fail(what, n)
		}
	} else {
		r.fail("failed", lost)
	}
	r.Requests = complete - min(lost, complete)
	bad := min(counts["status"], r.Requests)
	r.Statuses = map[string]uint64{"2xx": r.Requests - bad}
	if bad > 0 {
		r.Statuses["not 2xx"] = bad
	}
	kept := counts["kept"]
	r.KeptAlive = &kept
	if kept < complete {
		r.caveat("%d of %d requests opened a connection of their own (ab without -k): the rate is that of connections as much as of requests",
			complete-kept, complete)
	}
	if abBytes().MatchString(text) {
		n := counts["bytes"]
		r.BytesRead = &n
	}
	return nil
}

func (r *Result) abLatency(text string) error {
	if r.Requests == 0 {
		return nil
	}
	milliseconds := func(digits string) (int64, error) {
		n, err := countOf(digits)
		if err != nil {
			return 0, err
		}
		return nanoseconds("a latency", float64(n), abDigit)
	}
	if g := abTotal().FindStringSubmatch(text); g != nil {
		for _, f := range []struct {
			digits string
			into   **int64
		}{{g[1], &r.MinNs}, {g[2], &r.MeanNs}, {g[4], &r.MaxNs}} {
			ns, err := milliseconds(f.digits)
			if err != nil {
				return err
			}
			*f.into = &ns
		}
		r.MeanDigitNs = abDigit
	}
	_, table, _ := strings.Cut(text, "Percentage of the requests served")
	for _, g := range abQuantile().FindAllStringSubmatch(table, -1) {
		percent, err := strconv.ParseFloat(g[1], 64)
		if err != nil || percent > 100 {
			return fmt.Errorf("%s%% is no quantile", g[1])
		}
		ns, err := milliseconds(g[2])
		if err != nil {
			return err
		}
		if percent < 100 {
			r.Quantiles = append(r.Quantiles, Quantile{share(percent), ns, abDigit})
		}
	}
	return nil
}
