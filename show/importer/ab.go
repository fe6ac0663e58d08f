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
	abHost       = lazy.Regexp(`(?m)^Server Hostname: +(\S+)$`)
	abPort       = lazy.Regexp(`(?m)^Server Port: +(\d+)$`)
	abPath       = lazy.Regexp(`(?m)^Document Path: +(\S+)$`)
	abConcurrent = lazy.Regexp(`(?m)^Concurrency Level: +(\d+)$`)
	abTime       = lazy.Regexp(`(?m)^Time taken for tests: +([\d.]+) seconds$`)
	abComplete   = lazy.Regexp(`(?m)^Complete requests: +(\d+)$`)
	abCauses     = lazy.Regexp(`(?m)^ +\(Connect: (\d+), Receive: (\d+), Length: (\d+), Exceptions: (\d+)\)$`)
	abStatus     = lazy.Regexp(`(?m)^Non-2xx responses: +(\d+)$`)
	abKept       = lazy.Regexp(`(?m)^Keep-Alive requests: +(\d+)$`)
	abBytes      = lazy.Regexp(`(?m)^Total transferred: +(\d+) bytes$`)
	abTransfer   = lazy.Regexp(`(?m)^Transfer rate: +([\d.]+) \[(K)bytes/sec\] received$`)
	abRate       = lazy.Regexp(`(?m)^Requests per second: +([\d.]+) \[#/sec\] \(mean\)$`)
	abTotal      = lazy.Regexp(`(?m)^Total: +(\d+) +(\d+) +[\d.]+ +(\d+) +(\d+)$`)
	abQuantile   = lazy.Regexp(`(?m)^ +(\d+)% +(\d+)(?: \(longest request\))?$`)
)

// abDigit is the resolution of ab's latencies: a millisecond.
const abDigit = 1_000_000

// parseAb parses ab's text.
func parseAb(data []byte) (Result, error) {
	text := string(data)
	r := Result{Tool: Ab, From: FromSent, Loop: Closed, Workers: 1, Pipelining: 1}
	r.Caveats = append(r.Caveats,
		"closed loop: stalls are under-represented (coordinated omission)",
		"resolution 1 ms: a 0 is anything below 1 ms; its finer \"Time per request\" is connections × time ÷ requests and no measurement of one",
		"ab is one thread: with that thread full the rate is ab's own")
	fields, err := abFields(text)
	if err != nil {
		return r, err
	}
	if r.Connections, err = strconv.Atoi(fields[0]); err != nil {
		return r, fmt.Errorf("%s connections cannot be", fields[0])
	}
	if r.DurationS, err = strconv.ParseFloat(fields[1], 64); err != nil || r.DurationS <= 0 {
		return r, fmt.Errorf("invalid duration: %s s", fields[1])
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
		scheme := "http://"
		if strings.Contains(text, "\nSSL/TLS Protocol:") {
			scheme = "https://"
		}
		r.Target = scheme + host[1] + ":" + port[1] + path[1]
	}
	if err := errors.Join(r.abCounts(text, complete), r.abLatency(text), r.transfer(abTransfer(), text)); err != nil {
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
		"status": abStatus().FindStringSubmatch(text),
		"kept":   abKept().FindStringSubmatch(text), "bytes": abBytes().FindStringSubmatch(text),
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
	if counts["kept"] > complete {
		return fmt.Errorf("%d kept alive of %d requests cannot be", counts["kept"], complete)
	}
	lost, err := r.abFailures(text)
	if err != nil {
		return err
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

// abFailures parses the causes of failures and returns how many complete requests have no response.
// One request may have several causes: a connection that the server resets is an exception, an
// error of receive, and another length (ab.c). Only those of receive are complete requests; one
// that could not connect is tried again.
func (r *Result) abFailures(text string) (lost uint64, err error) {
	g := abCauses().FindStringSubmatch(text)
	if g == nil {
		return 0, nil
	}
	var n [4]uint64 // connect, receive, length, exceptions
	for i := range n {
		if n[i], err = countOf(g[i+1]); err != nil {
			return 0, err
		}
	}
	receive := n[1]
	r.fail("connect", n[0])
	r.fail("receive", receive)
	r.fail("exception", n[3]-min(receive, n[3]))
	if other := n[2] - min(receive, n[2]); other > 0 {
		r.caveat("%d responses had another length than the first: ab calls them failed, which a page of varying length is not (ab -l)", other)
	}
	return receive, nil
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
			return fmt.Errorf("invalid quantile %s%%", g[1])
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
