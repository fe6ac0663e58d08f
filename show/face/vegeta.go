package face

import (
	"bufio"
	"bytes"
	"encoding/base64"
	"encoding/csv"
	"encoding/gob"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"maps"
	"net/http"
	"slices"
	"strconv"
	"time"

	"ceiling/internal/hist"
	"ceiling/record"
)

// Result is one of vegeta's, with its name and those of its fields, by which its binary format (gob)
// is read and recognised.
type Result struct {
	Attack    string        `json:"attack"`
	Seq       uint64        `json:"seq"`
	Code      uint16        `json:"code"`
	Timestamp time.Time     `json:"timestamp"`
	Latency   time.Duration `json:"latency"`
	BytesOut  uint64        `json:"bytes_out"`
	BytesIn   uint64        `json:"bytes_in"`
	Error     string        `json:"error"`
	Body      []byte        `json:"body"`
	Method    string        `json:"method"`
	URL       string        `json:"url"`
	Headers   http.Header   `json:"headers"`
}

// Hits are a run's responses by interval. ceiling keeps histograms and no single request: the
// results that it writes for vegeta have the latencies of their interval (within 0.2 %), spread
// evenly over it.
type Hits struct{ intervals []interval }

type interval struct {
	endNs, widthNs int64
	bad, failed    uint64
	times          []record.Bin
}

// Add keeps an interval of the window.
func (h *Hits) Add(row *record.LoadRow, response *hist.Hist) {
	i := interval{endNs: row.TNs, widthNs: row.WidthNs, bad: row.Bad, failed: row.Failed}
	response.Each(func(low, high int64, count uint64) {
		i.times = append(i.times, record.Bin{Ns: (low + high) / 2, Count: count})
	})
	h.intervals = append(h.intervals, i)
}

// Each calls f for every response, in the order in which they came.
func (h *Hits) Each(r *Run, attack string, f func(*Result) error) error {
	good, bad, failed := r.kinds()
	hit := Result{Attack: attack, Method: r.Done.Spec.Targets[0].Method, URL: r.Done.Spec.Targets[0].URL}
	n := max(r.Done.Requests.Completed, 1)
	hit.BytesIn, hit.BytesOut = r.Done.Bytes.Read/n, r.Done.Bytes.Written/n
	for _, i := range h.intervals {
		times := shuffled(i.times)
		n := uint64(len(times))
		for at, ns := range times {
			done := i.endNs - i.widthNs + int64((float64(at)+0.5)/float64(n)*float64(i.widthNs))
			hit.Latency = time.Duration(ns)
			hit.Timestamp = r.Done.Started.Add(time.Duration(done) - hit.Latency)
			kind := good
			switch k := uint64(at); {
			case spread(k, i.failed, n):
				kind = failed
			case spread(k, i.bad, n-min(i.failed, n-1)):
				kind = bad
			}
			hit.Code, hit.Error = kind.next()
			if err := f(&hit); err != nil {
				return err
			}
			hit.Seq++
		}
	}
	return nil
}

// spread reports whether the one at k is among some of n that are spread evenly.
func spread(k, some, n uint64) bool { return n > 0 && (k+1)*some/n > k*some/n }

// shuffled lists the times of an interval, which its histogram has in ascending order, in one that
// repeats from run to run and has no trend: steps of the golden ratio.
func shuffled(bins []record.Bin) []int64 {
	var all []int64
	for _, b := range bins {
		for range b.Count {
			all = append(all, b.Ns)
		}
	}
	step, n := int(float64(len(all))*0.6180339887), len(all)
	for step > 1 && common(step, n) != 1 {
		step++
	}
	out := make([]int64, n)
	for i := range out {
		out[i] = all[i*max(step, 1)%n]
	}
	return out
}

func common(a, b int) int {
	for b != 0 {
		a, b = b, a%b
	}
	return a
}

// kind is a set of outcomes, taken in their proportion.
type kind struct {
	codes  []uint16
	errors []string
	shares []float64
	owed   []float64
}

// kinds divides a run's outcomes: as expected, with another status, without a response.
func (r *Run) kinds() (good, bad, failed *kind) {
	good, bad, failed = &kind{}, &kind{}, &kind{}
	isBad := map[string]bool{}
	for _, e := range r.Done.Errors {
		switch {
		case e.Phase == record.PhaseStatus:
			isBad[e.Cause] = true
		case e.OfRequest() && !e.BeforeWindow:
			failed.add(0, e.Phase+": "+e.Cause, e.Count)
		}
	}
	for _, code := range slices.Sorted(maps.Keys(r.Done.Statuses)) {
		n, err := strconv.ParseUint(code, 10, 16)
		switch {
		case err != nil: // not of HTTP
		case isBad[code]:
			bad.add(uint16(n), code+" "+http.StatusText(int(n)), r.Done.Statuses[code])
		default:
			good.add(uint16(n), "", r.Done.Statuses[code])
		}
	}
	return good, bad, failed
}

func (k *kind) add(code uint16, err string, n uint64) {
	k.codes, k.errors, k.shares, k.owed = append(k.codes, code), append(k.errors, err), append(k.shares, float64(n)), append(k.owed, 0)
}

// next returns the outcome that is furthest behind its share.
func (k *kind) next() (uint16, string) {
	if len(k.codes) == 0 {
		return 0, "unknown"
	}
	sum, best := 0.0, 0
	for _, s := range k.shares {
		sum += s
	}
	for i := range k.owed {
		k.owed[i] += k.shares[i] / sum
		if k.owed[i] > k.owed[best] {
			best = i
		}
	}
	k.owed[best]--
	return k.codes[best], k.errors[best]
}

// Encoder returns a function that writes results: "gob", vegeta's own, "json" or "csv". The writer is
// the caller's to flush.
func Encoder(w io.Writer, as string) (func(*Result) error, error) {
	switch as {
	case "gob":
		enc := gob.NewEncoder(w)
		return func(h *Result) error { return enc.Encode(h) }, nil
	case "json":
		enc := json.NewEncoder(w)
		return func(h *Result) error { return enc.Encode(h) }, nil
	case "csv":
		enc := csv.NewWriter(w)
		return func(h *Result) error {
			if err := enc.Write(h.row()); err != nil {
				return err
			}
			enc.Flush()
			return enc.Error()
		}, nil
	}
	return nil, fmt.Errorf("invalid format: %s (use gob, json or csv)", as)
}

func (h *Result) row() []string {
	var head bytes.Buffer
	if h.Headers != nil {
		_ = h.Headers.Write(&head) // to memory
	}
	return []string{strconv.FormatInt(h.Timestamp.UnixNano(), 10), strconv.Itoa(int(h.Code)), strconv.FormatInt(int64(h.Latency), 10),
		strconv.FormatUint(h.BytesOut, 10), strconv.FormatUint(h.BytesIn, 10), h.Error, base64.StdEncoding.EncodeToString(h.Body), h.Attack,
		strconv.FormatUint(h.Seq, 10), h.Method, h.URL, base64.StdEncoding.EncodeToString(head.Bytes())}
}

// ReadResults calls f for every result of a stream, in whichever of the three formats it is.
func ReadResults(r io.Reader, f func(*Result) error) error {
	in := bufio.NewReaderSize(r, 1<<20)
	head, _ := in.Peek(64) // less at the end of a short one
	first := bytes.TrimSpace(head)
	if len(first) == 0 {
		return errors.New("no results; pipe vegeta attack's results into this, or name files of them")
	}
	var next func(*Result) error
	switch {
	case first[0] == '{':
		dec := json.NewDecoder(in)
		next = func(h *Result) error { return dec.Decode(h) }
	case isLine(first):
		dec := csv.NewReader(in)
		next = func(h *Result) error {
			row, err := dec.Read()
			if err != nil {
				return err
			}
			return h.parse(row)
		}
	default:
		dec := gob.NewDecoder(in)
		next = func(h *Result) error { return dec.Decode(h) }
	}
	for n := 1; ; n++ {
		var h Result
		switch err := next(&h); {
		case errors.Is(err, io.EOF) && !errors.Is(err, io.ErrUnexpectedEOF):
			return nil
		case err != nil:
			return fmt.Errorf("result %d is damaged, or the file is cut off (results of vegeta are gob, JSON or CSV): %w", n, err)
		case h.Latency < 0:
			return fmt.Errorf("result %d: a latency of %s cannot be", n, h.Latency)
		}
		if err := f(&h); err != nil {
			return err
		}
	}
}

// isLine reports whether a stream begins as a line of CSV does: digits and a comma. A gob begins
// with a length.
func isLine(head []byte) bool {
	digits, _, found := bytes.Cut(head, []byte{','})
	return found && len(digits) > 0 && len(bytes.Trim(digits, "0123456789")) == 0
}

func (h *Result) parse(row []string) error {
	if len(row) < 9 {
		return fmt.Errorf("%d columns; vegeta has 9 or 12", len(row))
	}
	var numbers [6]uint64
	for i, at := range []int{0, 1, 2, 3, 4, 8} {
		n, err := strconv.ParseUint(row[at], 10, 64)
		if err != nil {
			return fmt.Errorf("column %d: %w", at+1, err)
		}
		numbers[i] = n
	}
	h.Timestamp, h.Code, h.Latency = time.Unix(0, int64(numbers[0])), uint16(numbers[1]), time.Duration(numbers[2])
	h.BytesOut, h.BytesIn, h.Error, h.Attack, h.Seq = numbers[3], numbers[4], row[5], row[7], numbers[5]
	if len(row) > 10 {
		h.Method, h.URL = row[9], row[10]
	}
	return nil
}
