package importer

import (
	"errors"
	"fmt"
	"math"
	"strconv"
	"strings"

	"ceiling/internal/lazy"
)

var (
	ohaSuccess  = lazy.Regexp(`(?m)^  Success rate:\t[\d.NaN]+%$`)
	ohaFigure   = lazy.Regexp(`(?m)^  (Total|Slowest|Fastest|Average):\t([\d.]+) (\w+)$`)
	ohaRate     = lazy.Regexp(`(?m)^  Requests/sec:\t([\d.]+)$`)
	ohaData     = lazy.Regexp(`(?m)^  Total data:\t([\d.]+) ([KMGT]i)?B$`)
	ohaQuantile = lazy.Regexp(`(?m)^  ([\d.]+)%+ in ([\d.]+) (\w+)$`)
	ohaStatus   = lazy.Regexp(`(?m)^  \[(\d{3})\] (\d+) responses$`)
	ohaError    = lazy.Regexp(`(?m)^  \[(\d+)\] (.+?)$`)
)

// parseOhaText parses the summary that oha prints as text.
func parseOhaText(data []byte) (Result, error) {
	if n := len(ohaSuccess().FindAll(data, 2)); n != 1 {
		return Result{}, fmt.Errorf("%d lines of Success rate in it, want 1: it holds several runs", n)
	}
	summary, errorList, _ := strings.Cut(string(data), "\nError distribution:")
	r := Result{Tool: Oha, From: FromSent, BodiesOnly: true}
	r.Caveats = append(r.Caveats, ohaCaveats()...)
	rate, err := match(ohaRate(), "Requests/sec", summary)
	if err != nil {
		return r, err
	}
	perS, err := strconv.ParseFloat(rate[0], 64)
	if err != nil {
		return r, err
	}
	totals := 0
	for _, g := range ohaFigure().FindAllStringSubmatch(summary, -1) {
		ns, digit, err := ohaTime(g[2], g[3])
		if err != nil {
			return r, err
		}
		switch g[1] {
		case "Total":
			totals++
			r.DurationS = float64(ns) / 1e9
		case "Slowest":
			r.MaxNs = &ns
		case "Fastest":
			r.MinNs = &ns
		case "Average":
			r.MeanNs, r.MeanDigitNs = &ns, digit
		}
	}
	if totals != 1 {
		return r, fmt.Errorf("%d lines of Total in it, want 1", totals)
	}
	cutOff, err := r.ohaCounts(summary, errorList)
	if err != nil {
		return r, err
	}
	if r.Requests == 0 {
		r.MeanNs, r.MinNs, r.MaxNs = nil, nil, nil // the printed values are not measurements then
	}
	r.holdRate(r.Requests+r.Failed()+cutOff, perS)
	return r, r.ohaQuantiles(summary)
}

// ohaCounts parses statuses, errors and the size of the bodies.
func (r *Result) ohaCounts(summary, errorList string) (cutOff uint64, err error) {
	r.Statuses = map[string]uint64{}
	for _, g := range ohaStatus().FindAllStringSubmatch(summary, -1) {
		if r.Statuses[g[1]], err = countOf(g[2]); err != nil {
			return 0, err
		}
	}
	if r.Requests, err = total(r.Statuses); err != nil {
		return 0, err
	}
	for _, g := range ohaError().FindAllStringSubmatch(errorList, -1) {
		n, err := countOf(g[1])
		if err != nil {
			return 0, err
		}
		if g[2] == ohaCutOff {
			cutOff = n
			r.caveat("%d requests in flight at the end were cut off; its rate counts them, this count does not", n)
			continue
		}
		r.fail(g[2], n)
	}
	if g := ohaData().FindStringSubmatch(summary); g != nil {
		if r.BytesRead, err = binaryBytes(g[1], strings.TrimSuffix(g[2], "i")); err != nil {
			return 0, err
		}
	}
	if r.Requests+cutOff == 0 && len(r.Errors) == 0 {
		return 0, errors.New("neither a status nor an error in it")
	}
	return cutOff, nil
}

// ohaQuantiles parses the distribution of all responses; --stats-success-breakdown adds two more.
func (r *Result) ohaQuantiles(summary string) error {
	summary, _, _ = strings.Cut(summary, "(2xx only)")
	for _, g := range ohaQuantile().FindAllStringSubmatch(summary, -1) {
		percent, err := strconv.ParseFloat(g[1], 64)
		if err != nil || percent > 100 {
			return fmt.Errorf("invalid quantile %.40s%%", g[1])
		}
		ns, digit, err := ohaTime(g[2], g[3])
		if err != nil {
			return err
		}
		if r.Requests > 0 {
			r.Quantiles = append(r.Quantiles, Quantile{share(percent), ns, digit})
		}
	}
	return nil
}

// ohaTime parses a time in the unit that oha chose for the whole summary.
func ohaTime(number, unit string) (ns, digit int64, err error) {
	scale := map[string]float64{"ns": 1, "us": 1e3, "ms": 1e6, "sec": 1e9, "secs": 1e9, "s": 1e9, "m": 60e9, "h": 3600e9}[unit]
	v, err := strconv.ParseFloat(number, 64)
	if err != nil || scale == 0 {
		return 0, 0, fmt.Errorf("invalid time %.40s %.20s", number, unit)
	}
	if ns, err = nanoseconds("a time", v, scale); err != nil {
		return 0, 0, err
	}
	_, decimals, _ := strings.Cut(number, ".")
	return ns, max(int64(scale/math.Pow10(min(len(decimals), 20))), 1), nil
}
