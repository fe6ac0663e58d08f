package importer

import (
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"math"
	"strconv"
	"strings"
	"unicode"
)

// Tool names, in Result.Tool.
const (
	Wrk        = "wrk"
	Wrk2       = "wrk2"
	GoWrk      = "go-wrk"
	Ab         = "ab"
	H2load     = "h2load"
	Hey        = "hey"
	Ghz        = "ghz"
	Oha        = "oha"
	Autocannon = "autocannon"
	Vegeta     = "vegeta"
	K6         = "k6"
)

// Starting points of a latency, in Result.From.
const (
	FromDue  = "due"  // when the schedule says that the request should leave: a response time
	FromSent = "sent" // when it left: a service time
)

// Load models, in Result.Loop.
const (
	Closed = "closed"
	Open   = "open"
)

const (
	// countMax is the largest count that every JSON reader represents exactly.
	countMax = 1 << 53
	// loadMax is more connections, workers, or requests in flight per connection than any tool
	// opens.
	loadMax = 1 << 28
)

// Result is a tool's report of its run.
type Result struct {
	Tool string `json:"tool"`
	// Target is the URL; "" if the tool does not print it.
	Target string `json:"target,omitempty"`
	// Connections is the configured number; for k6, the largest number of virtual users. 0: not
	// printed.
	Connections int `json:"connections,omitempty"`
	// Workers are the threads or processes that share the connections, and Pipelining the
	// requests in flight on each connection; 0: not printed.
	Workers    int `json:"workers,omitempty"`
	Pipelining int `json:"pipelining,omitempty"`
	// KeptAlive counts the requests on a reused connection; nil: not printed.
	KeptAlive *uint64 `json:"kept_alive,omitempty"`
	// Loop is Closed or Open; "" if the output does not say.
	Loop string `json:"loop,omitempty"`
	// DurationS is the duration of the requests, in seconds.
	DurationS float64 `json:"duration_s"`
	// Requests counts complete responses, whatever their status. (For k6 it includes requests
	// without a response; Caveats says so.)
	Requests uint64 `json:"requests"`
	// CompletedPerS is Requests / DurationS; the rate that a tool prints may include more.
	CompletedPerS float64 `json:"completed_per_s"`
	// RateDiffers is set if the printed rate differs from that quotient.
	RateDiffers bool `json:"rate_differs,omitempty"`

	// From is FromDue or FromSent: the starting point of the latencies.
	From string `json:"from"`
	// Quantiles are the printed ones, ascending.
	Quantiles []Quantile `json:"quantiles,omitempty"`
	// MeanNs, MinNs and MaxNs of the latency, nanoseconds; nil: not printed.
	MeanNs *int64 `json:"mean_ns,omitempty"`
	MinNs  *int64 `json:"min_ns,omitempty"`
	MaxNs  *int64 `json:"max_ns,omitempty"`
	// MeanDigitNs is the resolution of the mean; 0: a nanosecond.
	MeanDigitNs int64 `json:"mean_digit_ns,omitempty"`

	// Errors are the requests without a response, most frequent first, at most 100 causes.
	Errors []Error `json:"errors,omitempty"`
	// Statuses counts responses by code, or by class ("4xx", "400 or more") if the tool prints no
	// more; nil: not printed.
	Statuses map[string]uint64 `json:"statuses,omitempty"`
	// BytesRead is nil if not printed. BodiesOnly is set if it excludes heads and framing.
	BytesRead  *uint64 `json:"bytes_read,omitempty"`
	BodiesOnly bool    `json:"bodies_only,omitempty"`
	// transferPerS is the printed transfer rate, in bytes, of a tool that prints it in a larger unit; 0:
	// not printed.
	transferPerS float64

	// Invalid is set if the figures cannot be used: the first caveat says why.
	Invalid bool `json:"invalid,omitempty"`
	// Caveats lists the known gaps of this tool's figures and the inconsistencies in this output,
	// one sentence each.
	Caveats []string `json:"caveats"`
}

// Quantile is one quantile of the latency.
type Quantile struct {
	Q  float64 `json:"q"` // 0.99
	Ns int64   `json:"ns"`
	// ResolutionNs is the value of the last printed digit.
	ResolutionNs int64 `json:"resolution_ns"`
}

// Error is one cause and its count.
type Error struct {
	What  string `json:"what"`
	Count uint64 `json:"count"`
}

// Quantile returns a quantile in nanoseconds; ok is false if the tool did not print it.
func (r *Result) Quantile(q float64) (ns int64, ok bool) {
	for _, have := range r.Quantiles {
		if math.Abs(have.Q-q) < 1e-9 {
			return have.Ns, true
		}
	}
	return 0, false
}

// Failed is the sum of Errors.
func (r *Result) Failed() uint64 {
	var n uint64
	for _, e := range r.Errors {
		n += e.Count
	}
	return n
}

const (
	causesMax = 100
	// textMax limits a text copied from the input.
	textMax = 500
)

func (r *Result) caveat(format string, args ...any) {
	r.Caveats = append(r.Caveats, fmt.Sprintf(format, args...))
}

// fail counts requests without a response; it ignores 0.
func (r *Result) fail(what string, n uint64) {
	if n > 0 {
		r.Errors = append(r.Errors, Error{clean(what), n})
	}
}

// clean makes text from the input safe to print: valid UTF-8, one line, no terminal control
// sequences, and short.
func clean(text string) string {
	text = strings.Map(func(r rune) rune {
		if unicode.IsControl(r) {
			return ' '
		}
		return r
	}, strings.ToValidUTF8(text, "\uFFFD"))
	if len(text) > textMax {
		text = strings.ToValidUTF8(text[:textMax], "") + "…"
	}
	return text
}

// rateTolerance is the allowed deviation of a printed rate from count / time: tools print times
// with as few as three digits.
const rateTolerance = 0.05

// holdRate compares a printed rate with the count behind it.
func (r *Result) holdRate(counted uint64, perS float64) {
	if r.DurationS <= 0 {
		return
	}
	if want := float64(counted) / r.DurationS; math.Abs(perS-want) > rateTolerance*max(want, perS) {
		r.RateDiffers = true
		r.caveat("it prints %.6g requests/s, but its count over its time is %.6g", perS, want)
	}
}

// figure validates a measured number: finite and not negative.
func figure(what string, v float64) error {
	if v < 0 || math.IsInf(v, 0) || math.IsNaN(v) {
		return fmt.Errorf("%s is %g, which cannot be", what, v)
	}
	return nil
}

// nanoseconds converts a time in units of unitNs to nanoseconds, rounded.
func nanoseconds(what string, v, unitNs float64) (int64, error) {
	if err := figure(what, v); err != nil {
		return 0, err
	}
	ns := math.Round(v * unitNs)
	if ns > countMax {
		return 0, fmt.Errorf("%s is %g s, which cannot be", what, v*unitNs/1e9)
	}
	return int64(ns), nil
}

// latencyNames are a document's names of the figures of a latency: mean, minimum and maximum, and what
// is before and after the percentage in the name of a quantile.
type latencyNames struct{ mean, min, max, before, after string }

// set sets the figure of that name in what, given in units of unitNs; it ignores other names.
func (n latencyNames) set(r *Result, what, name string, v, unitNs float64) error {
	ns, err := nanoseconds(what+"."+clean(name), v, unitNs)
	if err != nil {
		return err
	}
	percentage, before := strings.CutPrefix(name, n.before)
	percentage, after := strings.CutSuffix(percentage, n.after)
	switch {
	case name == n.mean:
		r.MeanNs = &ns
	case name == n.min:
		r.MinNs = &ns
	case name == n.max:
		r.MaxNs = &ns
	case before && after:
		percent, err := strconv.ParseFloat(percentage, 64)
		if err != nil || !(percent >= 0 && percent <= 100) {
			return fmt.Errorf("%s: invalid percentile %q", what, clean(name))
		}
		r.Quantiles = append(r.Quantiles, Quantile{share(percent), ns, 1})
	}
	return nil
}

// total adds up counts; a count above countMax is an error.
func total(counts map[string]uint64) (uint64, error) {
	var sum uint64
	for what, n := range counts {
		if n > countMax {
			return 0, fmt.Errorf("%d of %q cannot be", n, clean(what))
		}
		if sum += n; sum > countMax {
			return 0, errors.New("its counts add up to more than 2^53")
		}
	}
	return sum, nil
}

// oneValue decodes text that must be a single JSON value.
func oneValue(text []byte, into any) error {
	d := json.NewDecoder(bytes.NewReader(text))
	if err := d.Decode(into); err != nil {
		return fmt.Errorf("it is damaged: %w", err)
	}
	if _, err := d.Token(); !errors.Is(err, io.EOF) {
		return errors.New("there is more than one JSON value in it; give the summary, not the samples")
	}
	return nil
}
