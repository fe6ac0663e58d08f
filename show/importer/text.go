package importer

import (
	"errors"
	"fmt"
	"math"
	"regexp"
	"slices"
	"strconv"
	"strings"
	"time"
)

// format is what a tool prints as text: what holds for every run of it, and its lines.
type format struct {
	tool, from, loop    string
	workers, pipelining int  // 0: the text says, or nobody knows
	bodiesOnly          bool // the bytes lack heads
	caveats             []string
	mark                string // a line in every output of it, and of it only
	not                 string // a line in the output of a similar tool
	lines, table        []line // in this order
	// finish adds what no line says by itself.
	finish func(t *text) error
}

// line is a line of a text. Its named groups are figures: see text.set.
type line struct {
	pattern  string
	once     string // what the line is called where exactly one is wanted
	from, to string // only between these; "" is an end of the text
}

func one(name, pattern string) line        { return line{pattern, name, "", ""} }
func some(pattern string) line             { return line{pattern, "", "", ""} }
func within(from, to, pattern string) line { return line{pattern, "", from, to} }

func matching(pattern string) *regexp.Regexp {
	return regexp.MustCompile("(?m)^ *(?:" + pattern + ") *$")
}

// text is an output as it is read.
type text struct {
	r     *Result
	whole string
	// perS is the printed rate, bad the responses with an error status.
	perS float64
	bad  uint64
	// percent, status and count belong to the group that follows theirs.
	percent float64
	status  string
	count   uint64
	// elapsedDigitNs is the resolution of the duration.
	elapsedDigitNs int64
	// others are the groups that only one tool has.
	others map[string]string
}

// parse reads a tool's text.
func (f *format) parse(data []byte) (Result, error) {
	r := Result{Tool: f.tool, From: f.from, Loop: f.loop, Workers: f.workers, Pipelining: f.pipelining, BodiesOnly: f.bodiesOnly,
		Caveats: slices.Clone(f.caveats)}
	t := &text{r: &r, whole: string(data), others: map[string]string{}}
	for _, l := range slices.Concat(f.lines, f.table) {
		if err := t.read(&l); err != nil {
			return r, err
		}
	}
	if r.DurationS <= 0 {
		return r, fmt.Errorf("invalid duration: %g s", r.DurationS)
	}
	if err := f.finish(t); err != nil {
		return r, err
	}
	if r.Requests == 0 { // tools print zeros then
		r.MeanNs, r.MinNs, r.MaxNs, r.Quantiles, r.MeanDigitNs = nil, nil, nil, nil, 0
	}
	return r, nil
}

// read finds a line, and keeps its groups.
func (t *text) read(l *line) error {
	in := t.whole
	if l.from != "" {
		_, in, _ = strings.Cut(in, l.from)
	}
	if l.to != "" {
		in, _, _ = strings.Cut(in, l.to)
	}
	pattern := matching(l.pattern)
	all := pattern.FindAllStringSubmatch(in, -1)
	if l.once != "" && len(all) != 1 {
		return fmt.Errorf("%d lines of %s in it, want 1", len(all), l.once)
	}
	for _, groups := range all {
		for i, name := range pattern.SubexpNames() {
			if name == "" || groups[i] == "" {
				continue
			}
			if err := t.set(name, groups[i]); err != nil {
				return err
			}
		}
	}
	return nil
}

// set keeps a group. What follows an underscore in its name is the unit of a time, or the power that
// makes a prefix of a size; p97d5 is the 97.5th percentile.
func (t *text) set(name, value string) (err error) {
	r := t.r
	name, unit, _ := strings.Cut(name, "_")
	switch name {
	case "target":
		r.Target = value
	case "connections":
		r.Connections, err = strconv.Atoi(value)
	case "workers":
		r.Workers, err = strconv.Atoi(value)
	case "pipelining":
		r.Pipelining, err = strconv.Atoi(value)
	case "clients": // of one thread
		var n uint64
		if n, err = countOf(value); n > loadMax {
			err = fmt.Errorf("%d clients cannot be", n)
		}
		r.Connections, r.Workers = r.Connections+int(n), r.Workers+1
	case "requests":
		r.Requests, err = countOf(value)
	case "bad":
		t.bad, err = countOf(value)
	case "rate":
		t.perS, err = strconv.ParseFloat(value, 64)
	case "read":
		var n uint64
		n, _, err = size(value, unit)
		r.BytesRead = &n
	case "transfer":
		var n uint64
		n, _, err = size(value, unit)
		r.transferPerS = float64(n)
	case "status":
		t.status = value
	case "responses":
		if r.Statuses == nil {
			r.Statuses = map[string]uint64{}
		}
		r.Statuses[t.status], err = countOf(value)
	case "count":
		t.count, err = countOf(value)
	case "cause":
		r.fail(value, t.count)
	case "percent":
		if t.percent, err = strconv.ParseFloat(value, 64); err != nil || t.percent > 100 {
			err = fmt.Errorf("invalid quantile %s%%", value)
		}
	case "elapsed", "mean", "min", "max", "quantile", "p2d5", "p50", "p95", "p97d5", "p99":
		if !strings.HasSuffix(value, "nan") { // the mean of no request
			err = t.setTime(name, value+unit)
		}
	default:
		t.others[name] = value
	}
	return err
}

func (t *text) setTime(name, value string) error {
	ns, digit, err := printed(value)
	if err != nil {
		return err
	}
	switch r := t.r; name {
	case "elapsed":
		r.DurationS, t.elapsedDigitNs = float64(ns)/1e9, digit
	case "mean":
		r.MeanNs, r.MeanDigitNs = &ns, digit
	case "min":
		r.MinNs = &ns
	case "max":
		r.MaxNs = &ns
	case "quantile":
		r.Quantiles = append(r.Quantiles, Quantile{share(t.percent), ns, digit})
	default:
		percent, err := strconv.ParseFloat(strings.ReplaceAll(name[1:], "d", "."), 64)
		if err != nil {
			return err
		}
		r.Quantiles = append(r.Quantiles, Quantile{share(percent), ns, digit})
	}
	return nil
}

// n is a count of one tool; 0 if it is not printed.
func (t *text) n(name string) (uint64, error) {
	if t.others[name] == "" {
		return 0, nil
	}
	n, _, err := size(t.others[name], "1000")
	return n, err
}

// counts are several of them.
func (t *text) counts(names ...string) ([]uint64, error) {
	var list []uint64
	for _, name := range names {
		n, err := t.n(name)
		if err != nil {
			return nil, err
		}
		list = append(list, n)
	}
	return list, nil
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
	digits := strings.TrimRight(text, "nuµshm")
	unit, failed := time.ParseDuration("1" + text[len(digits):])
	if err = errors.Join(err, failed); err != nil || d < 0 || d > countMax {
		return 0, 0, fmt.Errorf("invalid time %.40q", text)
	}
	_, decimals, _ := strings.Cut(digits, ".")
	return int64(d), max(int64(float64(unit)/math.Pow10(len(decimals))), 1), nil
}

// size parses a number with a prefix, "12.98M", and returns its resolution. k is 1024 unless power is
// "1000".
func size(text, power string) (n uint64, step float64, err error) {
	number := strings.TrimRight(text, "kKMGTP [")
	k := 1024.0
	if power != "" {
		k = 1000
	}
	factor := math.Pow(k, float64(max(strings.IndexByte("KMGTP", strings.ToUpper(text)[len(text)-1])+1, 0)))
	v, err := strconv.ParseFloat(number, 64)
	if err != nil || !(v*factor <= countMax) {
		return 0, 0, fmt.Errorf("invalid number %.40s", text)
	}
	_, decimals, _ := strings.Cut(number, ".")
	return uint64(v*factor + 1e-6), factor / math.Pow10(min(len(decimals), 20)), nil
}
