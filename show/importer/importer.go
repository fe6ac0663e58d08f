// Package importer reads what other load generators have written into one plain
// struct, with what each of them is known not to tell: the texts of wrk, wrk2,
// go-wrk, hey, ab and h2load; oha, autocannon and vegeta as text and JSON;
// vegeta's results; k6's summary as text and in its three forms of JSON.
//
// Nothing is made up: a figure that the tool did not print is missing.
package importer

import (
	"bufio"
	"bytes"
	"errors"
	"fmt"
	"io"
	"math"
	"slices"
	"strings"
	"unicode"

	"ceiling/internal/lazy"
)

// Names of the tools, in Result.Tool.
const (
	Wrk        = "wrk"
	Wrk2       = "wrk2"
	GoWrk      = "go-wrk"
	Ab         = "ab"
	H2load     = "h2load"
	Hey        = "hey"
	Oha        = "oha"
	Autocannon = "autocannon"
	Vegeta     = "vegeta"
	K6         = "k6"
)

// What a latency is counted from, in Result.From.
const (
	FromDue  = "due"  // when the schedule said that the request should leave: a response time
	FromSent = "sent" // when it left: a service time
)

// How the load was made, in Result.Loop.
const (
	Closed = "closed"
	Open   = "open"
)

// inputMax bounds what is read: k6's summary of a thousand thresholds, the
// longest of these, is below 1 MB.
const inputMax = 16 << 20

const (
	// sniffed is how many bytes tell vegeta's results from a text.
	sniffed = 512
	// resultsMax bounds vegeta's results, which hold every body.
	resultsMax = 4 << 30
	// loadMax is more connections, workers or requests in flight on one than any
	// tool opens.
	loadMax = 1 << 28
)

// countMax is the largest count that every JSON reader knows exactly.
const countMax = 1 << 53

// Result is what a tool says of its run.
type Result struct {
	Tool string `json:"tool"`
	// Target is the URL; "" where the tool does not repeat it.
	Target string `json:"target,omitempty"`
	// Connections it was asked for; of k6 the largest number of virtual users.
	// 0: not said.
	Connections int `json:"connections,omitempty"`
	// Workers are the threads or processes that share the connections, and
	// Pipelining the requests in flight on each; 0: not said.
	Workers    int `json:"workers,omitempty"`
	Pipelining int `json:"pipelining,omitempty"`
	// KeptAlive counts the requests on a connection that was there already; nil:
	// not said.
	KeptAlive *uint64 `json:"kept_alive,omitempty"`
	// Loop is Closed or Open; "" where the output does not tell.
	Loop string `json:"loop,omitempty"`
	// DurationS is the time that the requests took, seconds.
	DurationS float64 `json:"duration_s"`
	// Requests counts responses read whole, whatever their status. (k6 counts
	// requests without an answer here as well and says so in Caveats.)
	Requests uint64 `json:"requests"`
	// CompletedPerS is Requests over DurationS: what a tool prints as its rate
	// may have more in it.
	CompletedPerS float64 `json:"completed_per_s"`
	// RateDiffers tells that the rate that it prints is not that quotient.
	RateDiffers bool `json:"rate_differs,omitempty"`

	// From is FromDue or FromSent: what the latencies are counted from.
	From string `json:"from"`
	// Quantiles that it printed, ascending.
	Quantiles []Quantile `json:"quantiles,omitempty"`
	// MeanNs, MinNs and MaxNs of the latency, nanoseconds; nil: not printed.
	MeanNs *int64 `json:"mean_ns,omitempty"`
	MinNs  *int64 `json:"min_ns,omitempty"`
	MaxNs  *int64 `json:"max_ns,omitempty"`
	// MadeUp counts the latencies that were never measured and are in all these
	// figures, where the tool tells how many.
	MadeUp uint64 `json:"made_up,omitempty"`
	// MeanDigitNs is what the last digit of the mean is worth; 0: a nanosecond.
	MeanDigitNs int64 `json:"mean_digit_ns,omitempty"`

	// Errors are the requests without a response, the most frequent first, at
	// most 100 causes.
	Errors []Error `json:"errors,omitempty"`
	// Statuses counts responses by code, or by class ("4xx", "400 or more")
	// where the tool has no more; nil: not printed.
	Statuses map[string]uint64 `json:"statuses,omitempty"`
	// BytesRead is nil where it was not printed. BodiesOnly tells that heads
	// and framing are not in it.
	BytesRead  *uint64 `json:"bytes_read,omitempty"`
	BodiesOnly bool    `json:"bodies_only,omitempty"`

	// Caveats is what this tool's figures are known not to say, and what in
	// this output does not add up, one sentence each.
	Caveats []string `json:"caveats"`
}

// Quantile of the latency.
type Quantile struct {
	Q  float64 `json:"q"` // 0.99
	Ns int64   `json:"ns"`
	// ResolutionNs is the last digit that was printed.
	ResolutionNs int64 `json:"resolution_ns"`
}

// Error counts one cause.
type Error struct {
	What  string `json:"what"`
	Count uint64 `json:"count"`
}

// Quantile answers a quantile in nanoseconds, and false when the tool did not
// print this one.
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

// Read reads one result of at most 16 MiB (vegeta's results of at most 4 GiB) and
// finds out by itself which tool it is of. The error is one line: none of the
// tools, or what in it is wrong.
func Read(in io.Reader) (Result, error) {
	buffered := bufio.NewReaderSize(in, sniffed)
	head, err := buffered.Peek(sniffed)
	if err != nil && !errors.Is(err, io.EOF) {
		return Result{}, fmt.Errorf("read result: %w", err)
	}
	if isVegetaResults(head) {
		r, err := readVegetaResults(io.LimitReader(buffered, resultsMax))
		if err != nil {
			return Result{}, fmt.Errorf("read result of %s: %w", Vegeta, err)
		}
		return checked(r)
	}
	data, err := io.ReadAll(io.LimitReader(buffered, inputMax+1))
	if err != nil {
		return Result{}, fmt.Errorf("read result: %w", err)
	}
	if len(data) > inputMax {
		return Result{}, fmt.Errorf("read result: more than %d bytes; give the summary, not the samples", inputMax)
	}
	return Parse(data)
}

// Parse is Read of bytes.
func Parse(data []byte) (Result, error) {
	if isVegetaResults(data[:min(len(data), sniffed)]) {
		return Read(bytes.NewReader(data))
	}
	text := bytes.TrimSpace(bytes.TrimPrefix(data, []byte("\xef\xbb\xbf")))
	text = colours().ReplaceAll(text, nil)
	tool, parse, err := sniff(text)
	if err != nil {
		return Result{}, fmt.Errorf("read result: %w", err)
	}
	r, err := parse(text)
	if err != nil {
		return Result{}, fmt.Errorf("read result of %s: %w", tool, err)
	}
	return checked(r)
}

// colours are what a terminal is told of colours and the cursor.
var colours = lazy.Regexp("\x1b\\[[0-9;?]*[A-Za-z]")

// checked bounds what every result has.
func checked(r Result) (Result, error) {
	if !(r.DurationS >= 1e-9 && r.DurationS <= 1e9) {
		return Result{}, fmt.Errorf("read result of %s: a run of %g s cannot be", r.Tool, r.DurationS)
	}
	for _, n := range []int{r.Connections, r.Workers, r.Pipelining} {
		if n < 0 || n > loadMax {
			return Result{}, fmt.Errorf("read result of %s: %d connections, workers or requests in flight cannot be", r.Tool, n)
		}
	}
	r.finish()
	return r, nil
}

// finish computes the rate, and brings lists into order and bounds.
func (r *Result) finish() {
	r.CompletedPerS = float64(r.Requests) / r.DurationS
	slices.SortStableFunc(r.Quantiles, func(a, b Quantile) int {
		switch {
		case a.Q < b.Q:
			return -1
		case a.Q > b.Q:
			return 1
		}
		return 0
	})
	for i := 1; i < len(r.Quantiles); i++ {
		if a, b := r.Quantiles[i-1], r.Quantiles[i]; b.Ns+b.ResolutionNs < a.Ns {
			r.caveat("its quantile %g is below its quantile %g: one of them is wrong", b.Q, a.Q)
			break
		}
	}
	slices.SortStableFunc(r.Errors, func(a, b Error) int {
		switch {
		case a.Count > b.Count:
			return -1
		case a.Count < b.Count:
			return 1
		}
		return strings.Compare(a.What, b.What)
	})
	if len(r.Errors) > causesMax {
		var rest uint64
		for _, e := range r.Errors[causesMax-1:] {
			rest += e.Count
		}
		r.Errors = append(r.Errors[:causesMax-1:causesMax-1], Error{"other causes", rest})
	}
	r.Target = clean(r.Target)
	if loopback().MatchString(r.Target) {
		r.caveat("the target is on loopback: generator and server shared the CPUs of one host, so the rate is that of both")
	}
}

// loopback is a URL of the generator's own host.
var loopback = lazy.Regexp(`^https?://(?:localhost|127\.[0-9.]+|\[::1\])(?:[:/]|$)`)

const (
	causesMax = 100
	// textMax bounds a text taken over from the input.
	textMax = 500
)

func (r *Result) caveat(format string, args ...any) {
	r.Caveats = append(r.Caveats, fmt.Sprintf(format, args...))
}

// fail counts requests without a response; 0 of them is nothing.
func (r *Result) fail(what string, n uint64) {
	if n > 0 {
		r.Errors = append(r.Errors, Error{clean(what), n})
	}
}

// clean makes a text of the input fit to be shown: valid, of one line, without
// what moves a terminal's cursor, and short.
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

// rateTolerance is how far a printed rate may be from count over time: times
// are printed with as few as three digits.
const rateTolerance = 0.05

// holdRate compares a printed rate with the count that is said to be in it.
func (r *Result) holdRate(counted uint64, perS float64) {
	if r.DurationS <= 0 {
		return
	}
	if want := float64(counted) / r.DurationS; math.Abs(perS-want) > rateTolerance*max(want, perS) {
		r.RateDiffers = true
		r.caveat("it prints %.6g requests/s, but its count over its time is %.6g", perS, want)
	}
}

// figure checks a number that was measured: finite and not negative.
func figure(what string, v float64) error {
	if v < 0 || math.IsInf(v, 0) || math.IsNaN(v) {
		return fmt.Errorf("%s is %g, which cannot be", what, v)
	}
	return nil
}

// nanoseconds rounds a time in units of the given nanoseconds.
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

// total adds up counts, none of which can be more than countMax.
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
