package importer

import (
	"errors"
	"fmt"
	"math"
	"regexp"
	"strconv"
	"strings"
	"time"

	"ceiling/internal/lazy"
)

var (
	wrkHead    = lazy.Regexp(`(?m)^ *Running \S+ test @ (\S+)$`)
	wrkThreads = lazy.Regexp(`(?m)^ *(\d+) threads and (\d+) connections$`)
	wrkLatency = lazy.Regexp(`(?m)^ *Latency +(-?[\d.a-z]+) +(-?[\d.a-z]+) +(-?[\d.a-z]+) +(-?[\d.a-z]+)%$`)
	wrkTotal   = lazy.Regexp(`(?m)^ *(\d+) requests in ([\d.]+(?:us|ms|s|m|h)), ([\d.]+)([KMGTP]?)B read$`)
	wrkRate    = lazy.Regexp(`(?m)^ *Requests/sec: +([\d.]+)$`)
	wrkBytes   = lazy.Regexp(`(?m)^ *Transfer/sec: +([\d.]+)([KMGTP]?)B$`)
	wrkSocket  = lazy.Regexp(`(?m)^ *Socket errors: connect (\d+), read (\d+), write (\d+), timeout (\d+)$`)
	wrkStatus  = lazy.Regexp(`(?m)^ *Non-2xx or 3xx responses: (\d+)$`)
	// A quantile line has only a percentage and a time.
	wrkQuantile = lazy.Regexp(`(?m)^ *([\d.]+)% +([\d.]+(?:us|ms|s|m|h)) *$`)
)

// match finds the one line that a pattern matches and returns its groups.
func match(pattern *regexp.Regexp, what, text string) ([]string, error) {
	all := pattern.FindAllStringSubmatch(text, 2)
	if len(all) != 1 {
		return nil, fmt.Errorf("%d lines of %s in it, want 1", len(all), what)
	}
	return all[0][1:], nil
}

// parseWrk parses wrk 4's text.
func parseWrk(data []byte) (Result, error) {
	text := string(data)
	r, err := wrkCounts(text)
	if err != nil {
		return Result{}, err
	}
	r.Tool, r.Loop, r.From = Wrk, Closed, FromSent
	// wrk.c, main: stats_correct with runtime / responses per connection.
	r.Caveats = append(r.Caveats,
		"closed loop: a stalled server is sent less; wrk adds values for what it would have sent at the mean interval of each connection, which is an estimate and not a schedule: its mean and its percentiles above the median may be far above what it measured",
		"latency counts from sending; the time a request waited for its connection is not in it")
	if strings.Contains(text, "Latency Distribution") {
		if err := r.wrkQuantiles(text); err != nil {
			return Result{}, err
		}
	} else {
		r.caveat("made without --latency: it has no quantiles")
	}
	return r, nil
}

// parseWrk2 parses wrk2's text.
func parseWrk2(data []byte) (Result, error) {
	text := string(data)
	r, err := wrkCounts(text)
	if err != nil {
		return Result{}, err
	}
	r.Tool, r.Loop, r.From = Wrk2, Open, FromDue
	r.Caveats = append(r.Caveats,
		"its timer is 1 ms wide: a latency below that says nothing",
		"the output lacks the target rate: a missed schedule shows in the latency alone")
	if r.DurationS < 20 {
		r.caveat("a run of %.3g s: wrk2 spends the first 10 s on calibration and leaves them out of the latency", r.DurationS)
	}
	_, after, found := strings.Cut(text, "(HdrHistogram - Recorded Latency)")
	if !found {
		r.caveat("made without --latency: it has no quantiles")
		return r, nil
	}
	// The table that --u_latency adds is the service time: ignore it.
	recorded, _, _ := strings.Cut(after, "Latency Distribution")
	return r, r.wrkQuantiles(recorded)
}

// wrkCounts parses what both print.
func wrkCounts(text string) (Result, error) {
	var r Result
	head, err := match(wrkHead(), "Running … test @ URL", text)
	if err != nil {
		return r, err
	}
	threads, err := match(wrkThreads(), "threads and connections", text)
	if err != nil {
		return r, err
	}
	sum, err := match(wrkTotal(), "requests in …", text)
	if err != nil {
		return r, err
	}
	rate, err := match(wrkRate(), "Requests/sec", text)
	if err != nil {
		return r, err
	}
	r.Target = head[0]
	if r.Connections, err = strconv.Atoi(threads[1]); err != nil {
		return r, err
	}
	if r.Workers, err = strconv.Atoi(threads[0]); err != nil {
		return r, err
	}
	if r.Requests, err = countOf(sum[0]); err != nil {
		return r, err
	}
	elapsed, digit, err := printed(sum[1])
	if err != nil || elapsed == 0 {
		return r, fmt.Errorf("invalid duration %s", sum[1])
	}
	r.DurationS = float64(elapsed) / 1e9
	if r.BytesRead, err = binaryBytes(sum[2], sum[3]); err != nil {
		return r, err
	}
	if err := r.transfer(wrkBytes(), text); err != nil {
		return r, err
	}
	perS, err := strconv.ParseFloat(rate[0], 64)
	if err != nil {
		return r, err
	}
	r.holdRate(r.Requests, perS)
	// The rate has more digits than the time: if they agree, derive the time from it.
	if s := float64(r.Requests) / perS; math.Abs(s-r.DurationS)*1e9 <= float64(digit) {
		r.DurationS = s
	}
	return r, errors.Join(r.wrkErrors(text), r.wrkMean(text))
}

// wrkErrors parses the lines that wrk prints only after errors.
func (r *Result) wrkErrors(text string) error {
	var bad uint64
	if g := wrkStatus().FindStringSubmatch(text); g != nil {
		n, err := countOf(g[1])
		if err != nil {
			return err
		}
		bad = n
	}
	if bad > r.Requests {
		return fmt.Errorf("%d responses with a bad status of %d cannot be", bad, r.Requests)
	}
	r.Statuses = map[string]uint64{"below 400": r.Requests - bad}
	if bad > 0 {
		r.Statuses["400 or more"] = bad
	}
	g := wrkSocket().FindStringSubmatch(text)
	if g == nil {
		return nil
	}
	for i, what := range []string{"connect", "read", "write", "timeout"} {
		n, err := countOf(g[i+1])
		if err != nil {
			return err
		}
		r.fail(what, n)
	}
	r.caveat("its socket errors are events, not requests: one that failed may be counted more than once, or with others")
	return nil
}

// wrkMean parses the line with the latency's mean and maximum.
func (r *Result) wrkMean(text string) error {
	g := wrkLatency().FindStringSubmatch(text)
	if g == nil {
		return errors.New("no line of Latency in it")
	}
	if g[1] == "-nan" || g[1] == "nan" || r.Requests == 0 {
		return nil // no response, so no mean
	}
	mean, digit, err := printed(g[1])
	if err != nil {
		return err
	}
	largest, _, err := printed(g[3])
	if err != nil {
		return err
	}
	r.MeanNs, r.MaxNs, r.MeanDigitNs = &mean, &largest, digit
	return nil
}

func (r *Result) wrkQuantiles(text string) error {
	for _, g := range wrkQuantile().FindAllStringSubmatch(text, -1) {
		percent, err := strconv.ParseFloat(g[1], 64)
		if err != nil || percent < 0 || percent > 100 {
			return fmt.Errorf("invalid quantile %s%%", g[1])
		}
		ns, resolution, err := printed(g[2])
		if err != nil {
			return err
		}
		if r.Requests > 0 {
			r.Quantiles = append(r.Quantiles, Quantile{share(percent), ns, resolution})
		}
	}
	if len(r.Quantiles) == 0 && r.Requests > 0 {
		return errors.New("no quantile below Latency Distribution")
	}
	return nil
}

// share converts a percentage to a share, without the rounding error of the division.
func share(percent float64) float64 { return math.Round(percent*1e7) / 1e9 }

// countOf parses a count as the tools print it: digits only.
func countOf(text string) (uint64, error) {
	n, err := strconv.ParseUint(text, 10, 64)
	if err != nil || n > countMax {
		return 0, fmt.Errorf("invalid count %.40s", text)
	}
	return n, nil
}

// printed parses a time with its unit ("340.95us") into nanoseconds, and returns its resolution.
func printed(text string) (ns, resolution int64, err error) {
	d, err := time.ParseDuration(text)
	if err != nil || d < 0 || d > countMax {
		return 0, 0, fmt.Errorf("invalid time %.40q", text)
	}
	digits := strings.TrimRight(text, "nushm")
	unit, err := time.ParseDuration("1" + text[len(digits):])
	if err != nil {
		return 0, 0, fmt.Errorf("invalid time %.40q", text)
	}
	_, decimals, _ := strings.Cut(digits, ".")
	return int64(d), max(int64(float64(unit)/math.Pow10(len(decimals))), 1), nil
}

// transfer reads a printed transfer rate, in powers of 1024.
func (r *Result) transfer(pattern *regexp.Regexp, text string) error {
	g := pattern.FindStringSubmatch(text)
	if g == nil {
		return nil
	}
	n, err := binaryBytes(g[1], g[2])
	if err == nil {
		r.transferPerS = float64(*n)
	}
	return err
}

// binaryBytes parses wrk's sizes, whose units are powers of 1024.
func binaryBytes(number, unit string) (*uint64, error) {
	v, err := strconv.ParseFloat(number, 64)
	if err != nil {
		return nil, fmt.Errorf("invalid size %.40s", number)
	}
	if unit != "" {
		v *= math.Pow(1024, float64(strings.Index("KMGTP", unit)+1))
	}
	if v > countMax {
		return nil, fmt.Errorf("invalid size %.40s%s", number, unit)
	}
	n := uint64(v)
	return &n, nil
}
