package importer

import (
	"errors"
	"fmt"
	"strconv"
	"strings"

	"ceiling/internal/lazy"
)

var (
	heyTotal    = lazy.Regexp(`(?m)^  Total:\t([\d.]+) secs$`)
	heyRate     = lazy.Regexp(`(?m)^  Requests/sec:\t([\d.]+)$`)
	heyFigure   = lazy.Regexp(`(?m)^  (Slowest|Fastest|Average):\t([\d.]+) secs$`)
	heyBytes    = lazy.Regexp(`(?m)^  Total data:\t(\d+) bytes$`)
	heyQuantile = lazy.Regexp(`(?m)^  (\d+)%+ in ([\d.]+) secs$`)
	heyStatus   = lazy.Regexp(`(?m)^  \[(\d{3})\]\t(\d+) responses$`)
	heyError    = lazy.Regexp(`(?m)^  \[(\d+)\]\t(.+?)$`)
)

// heyKeeps is the number of results that hey stores (requester.go, maxRes).
const heyKeeps = 1_000_000

// parseHey parses hey's text.
func parseHey(data []byte) (Result, error) {
	summary, errorList, _ := strings.Cut(string(data), "\nError distribution:")
	r := Result{Tool: Hey, From: FromSent, Loop: Closed, Pipelining: 1, BodiesOnly: true}
	r.Caveats = append(r.Caveats,
		"closed loop: stalls are under-represented (coordinated omission); -q is per worker and does not change that",
		"resolution 0.1 ms: a 0 is anything below 0.05 ms",
		"the output lacks the URL and the number of connections")
	seconds, err := match(heyTotal(), "Total", summary)
	if err != nil {
		return r, err
	}
	rate, err := match(heyRate(), "Requests/sec", summary)
	if err != nil {
		return r, err
	}
	if r.DurationS, err = strconv.ParseFloat(seconds[0], 64); err != nil || r.DurationS <= 0 {
		return r, fmt.Errorf("invalid duration: %s s", seconds[0])
	}
	perS, err := strconv.ParseFloat(rate[0], 64)
	if err != nil {
		return r, err
	}
	if err := errors.Join(r.heyCounts(summary, errorList), r.heyLatency(summary)); err != nil {
		return r, err
	}
	if kept := r.Requests + r.Failed(); kept >= heyKeeps {
		r.RateDiffers = true
		r.caveat("hey keeps one million results: counts and latencies are of the first ones alone, its rate (%.6g/s) of all", perS)
	} else {
		r.holdRate(kept, perS)
	}
	return r, nil
}

func (r *Result) heyCounts(summary, errorList string) error {
	r.Statuses = map[string]uint64{}
	for _, g := range heyStatus().FindAllStringSubmatch(summary, -1) {
		n, err := countOf(g[2])
		if err != nil {
			return err
		}
		r.Statuses[g[1]] = n
	}
	var err error
	if r.Requests, err = total(r.Statuses); err != nil {
		return err
	}
	for _, g := range heyError().FindAllStringSubmatch(errorList, -1) {
		n, err := countOf(g[1])
		if err != nil {
			return err
		}
		r.fail(g[2], n)
	}
	if g := heyBytes().FindStringSubmatch(summary); g != nil {
		n, err := countOf(g[1])
		if err != nil {
			return err
		}
		r.BytesRead = &n
	}
	if r.Requests == 0 && len(r.Errors) == 0 {
		return errors.New("neither a status nor an error in it")
	}
	return nil
}

// heyDigit is the resolution of hey's times: four decimals of a second.
const heyDigit = 100_000

func (r *Result) heyLatency(summary string) error {
	if r.Requests == 0 {
		return nil // it prints zeros then
	}
	for _, g := range heyFigure().FindAllStringSubmatch(summary, -1) {
		ns, err := heyTime(g[2])
		if err != nil {
			return err
		}
		switch g[1] {
		case "Slowest":
			r.MaxNs = &ns
		case "Fastest":
			r.MinNs = &ns
		case "Average":
			r.MeanNs, r.MeanDigitNs = &ns, heyDigit
		}
	}
	for _, g := range heyQuantile().FindAllStringSubmatch(summary, -1) {
		percent, err := strconv.ParseFloat(g[1], 64)
		if err != nil || percent > 100 {
			return fmt.Errorf("invalid quantile %s%%", g[1])
		}
		ns, err := heyTime(g[2])
		if err != nil {
			return err
		}
		r.Quantiles = append(r.Quantiles, Quantile{share(percent), ns, heyDigit})
	}
	return nil
}

func heyTime(text string) (int64, error) {
	s, err := strconv.ParseFloat(text, 64)
	if err != nil {
		return 0, fmt.Errorf("invalid time %.40s", text)
	}
	return nanoseconds("a latency", s, 1e9)
}
