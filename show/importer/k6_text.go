package importer

import (
	"errors"
	"fmt"
	"math"
	"strconv"
	"strings"
	"time"

	"ceiling/internal/lazy"
)

var (
	k6Requests = lazy.Regexp(`(?m)^\W*http_reqs\.{3,}: +\d`)
	k6Line     = lazy.Regexp(`(?m)^[^\w{]*(http_reqs|http_req_duration|http_req_failed|vus_max|data_received|dropped_iterations)\.{3,}: +(.*?)\s*$`)
	k6Failed   = lazy.Regexp(`^[\d.]+% +(?:✓ *(\d+) +✗ *(\d+)|(\d+) out of (\d+))`)
	k6Figure   = lazy.Regexp(`(\w+|p\([\d.]+\))=(\S+)`)
	k6Size     = lazy.Regexp(`^([\d.]+) ([kMGT]?)B\b`)
)

// parseK6Text parses the summary that k6 prints at the end of a run, both the format before 1.0
// and the later one.
func parseK6Text(data []byte) (Result, error) {
	m, digits := k6Metrics{}, map[string]int64{}
	for _, g := range k6Line().FindAllStringSubmatch(string(data), -1) {
		if m[g[1]] != nil {
			return Result{}, fmt.Errorf("two lines of %s in it: it holds several runs", g[1])
		}
		figures, err := k6Figures(g[1], g[2], digits)
		if err != nil {
			return Result{}, err
		}
		m[g[1]] = figures
	}
	r, err := fromK6(m, 0)
	if err != nil {
		return r, err
	}
	for i := range r.Quantiles {
		r.Quantiles[i].ResolutionNs = max(digits[strconv.FormatFloat(r.Quantiles[i].Q, 'g', -1, 64)], 1)
	}
	r.MeanDigitNs = digits["avg"]
	return r, nil
}

// k6Figures parses the figures of one line; digits receives the resolution of each latency.
func k6Figures(name, line string, digits map[string]int64) (map[string]float64, error) {
	fields := strings.Fields(line)
	wrong := func() error { return fmt.Errorf("its line of %s reads %.60q", name, line) }
	switch name {
	case "http_reqs", "dropped_iterations":
		if len(fields) < 2 {
			return nil, wrong()
		}
		n, err := countOf(fields[0])
		if err != nil {
			return nil, err
		}
		rate, err := strconv.ParseFloat(strings.TrimSuffix(fields[1], "/s"), 64)
		if err != nil || figure("a rate", rate) != nil {
			return nil, wrong()
		}
		return map[string]float64{"count": float64(n), "rate": rate}, nil
	case "http_req_failed":
		g := k6Failed().FindStringSubmatch(line)
		if g == nil {
			return nil, wrong()
		}
		n, err := countOf(g[1] + g[3])
		return map[string]float64{"passes": float64(n)}, err
	case "data_received":
		g := k6Size().FindStringSubmatch(line)
		if g == nil {
			return nil, wrong()
		}
		v, err := strconv.ParseFloat(g[1], 64)
		v = math.Round(v * map[string]float64{"": 1, "k": 1e3, "M": 1e6, "G": 1e9, "T": 1e12}[g[2]])
		return map[string]float64{"count": v}, err
	}
	out := map[string]float64{}
	for _, g := range k6Figure().FindAllStringSubmatch(line, -1) {
		if name == "vus_max" {
			n, err := countOf(g[2])
			if err != nil {
				return nil, err
			}
			out[g[1]] = float64(n)
			continue
		}
		d, err := time.ParseDuration(g[2])
		if err != nil || d < 0 {
			return nil, wrong()
		}
		out[g[1]] = float64(d) / 1e6
		digits[k6Quantile(g[1])] = k6Digit(g[2])
	}
	if len(out) == 0 {
		return nil, errors.Join(wrong())
	}
	return out, nil
}

// k6Quantile returns the digits of the quantile that a trend's figure is named after.
func k6Quantile(name string) string {
	if name == "med" {
		return "0.5"
	}
	percent, isPercentile := strings.CutPrefix(name, "p(")
	p, err := strconv.ParseFloat(strings.TrimSuffix(percent, ")"), 64)
	if !isPercentile || err != nil {
		return name
	}
	return strconv.FormatFloat(share(p), 'g', -1, 64)
}

// k6Digit returns the resolution of a time; a second for times of a minute and more.
func k6Digit(text string) int64 {
	_, digit, err := printed(strings.ReplaceAll(text, "µ", "u"))
	if err != nil {
		return int64(time.Second)
	}
	return digit
}
