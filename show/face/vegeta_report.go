package face

import (
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"maps"
	"math"
	"slices"
	"strconv"
	"strings"
	"text/tabwriter"
	"time"

	"ceiling/internal/hist"
)

// Metrics sums up vegeta's results.
type Metrics struct {
	latencies             hist.Hist
	totalNs               float64
	in, out               uint64
	earliest, latest, end time.Time
	success               uint64
	codes                 map[string]int
	errors                []string
	buckets               []time.Duration // lower bounds, ascending; none: no histogram
	counts                []uint64
}

// NewMetrics returns an empty sum; bounds are the lower bounds of a histogram's buckets, nil for
// none.
func NewMetrics(bounds []time.Duration) *Metrics {
	return &Metrics{codes: map[string]int{}, buckets: bounds, counts: make([]uint64, len(bounds))}
}

// Add counts a result.
func (m *Metrics) Add(h *Result) error {
	m.latencies.Record(int64(h.Latency))
	m.totalNs += float64(h.Latency)
	m.in, m.out = m.in+h.BytesIn, m.out+h.BytesOut
	m.codes[strconv.Itoa(int(h.Code))]++
	if m.earliest.IsZero() || h.Timestamp.Before(m.earliest) {
		m.earliest = h.Timestamp
	}
	if h.Timestamp.After(m.latest) {
		m.latest = h.Timestamp
	}
	if end := h.Timestamp.Add(h.Latency); end.After(m.end) {
		m.end = end
	}
	if h.Code >= 200 && h.Code < 400 {
		m.success++
	}
	if h.Error != "" && !slices.Contains(m.errors, h.Error) {
		m.errors = append(m.errors, h.Error)
	}
	for i := len(m.buckets) - 1; i >= 0; i-- {
		if h.Latency >= m.buckets[i] {
			m.counts[i]++
			break
		}
	}
	return nil
}

// rates are requests, and those that succeeded, per second.
func (m *Metrics) rates() (rate, throughput float64) {
	n := float64(m.latencies.Count())
	rate = n
	if s := m.latest.Sub(m.earliest).Seconds(); s > 0 {
		rate = n / s
	}
	if s := m.end.Sub(m.earliest).Seconds(); s > 0 {
		throughput = float64(m.success) / s
	}
	return rate, throughput
}

// Report writes a report: text, json, hist or hdrplot.
func (m *Metrics) Report(w io.Writer, as string) error {
	if m.latencies.Count() == 0 {
		return errors.New("no results")
	}
	switch as {
	case "text":
		return m.text(w)
	case "json":
		return m.json(w)
	case "hist":
		return m.histogram(w)
	case "hdrplot":
		return m.hdr(w)
	}
	return fmt.Errorf("-type %s: none of text, json, hist[0,10ms,…], hdrplot", as)
}

func (m *Metrics) at(q float64) time.Duration { return time.Duration(m.latencies.Quantile(q)) }

// rounded keeps three digits after the point of the unit in which a duration is written.
func rounded(d time.Duration) time.Duration {
	for _, unit := range []time.Duration{time.Second, time.Millisecond, time.Microsecond} {
		if d >= unit {
			return d.Round(unit / 1000)
		}
	}
	return d
}

func (m *Metrics) text(w io.Writer) error {
	n := m.latencies.Count()
	rate, throughput := m.rates()
	attack := m.latest.Sub(m.earliest)
	t := tabwriter.NewWriter(w, 0, 8, 2, ' ', tabwriter.StripEscape)
	fmt.Fprintf(t, "Requests\t[total, rate, throughput]\t%d, %.2f, %.2f\n", n, rate, throughput)
	fmt.Fprintf(t, "Duration\t[total, attack, wait]\t%s, %s, %s\n", rounded(m.end.Sub(m.earliest)), rounded(attack), rounded(m.end.Sub(m.latest)))
	fmt.Fprintf(t, "Latencies\t[min, mean, 50, 90, 95, 99, max]\t")
	list := []string{}
	for _, d := range []time.Duration{time.Duration(m.latencies.Min()), time.Duration(m.totalNs / float64(n)), m.at(.5), m.at(.9), m.at(.95),
		m.at(.99), time.Duration(m.latencies.Max())} {
		list = append(list, rounded(d).String())
	}
	fmt.Fprintln(t, strings.Join(list, ", "))
	fmt.Fprintf(t, "Bytes In\t[total, mean]\t%d, %.2f\nBytes Out\t[total, mean]\t%d, %.2f\n", m.in, float64(m.in)/float64(n), m.out,
		float64(m.out)/float64(n))
	fmt.Fprintf(t, "Success\t[ratio]\t%.2f%%\nStatus Codes\t[code:count]\t", 100*float64(m.success)/float64(n))
	for _, code := range slices.Sorted(maps.Keys(m.codes)) {
		fmt.Fprintf(t, "%s:%d  ", code, m.codes[code])
	}
	fmt.Fprintln(t, "\nError Set:")
	for _, e := range m.errors {
		fmt.Fprintln(t, e)
	}
	return t.Flush()
}

func (m *Metrics) json(w io.Writer) error {
	n := m.latencies.Count()
	rate, throughput := m.rates()
	bytes := func(total uint64) map[string]any {
		return map[string]any{"total": total, "mean": float64(total) / float64(n)}
	}
	document := map[string]any{
		"latencies": map[string]any{"total": int64(m.totalNs), "mean": int64(m.totalNs / float64(n)), "50th": m.at(.5), "90th": m.at(.9),
			"95th": m.at(.95), "99th": m.at(.99), "max": m.latencies.Max(), "min": m.latencies.Min()},
		"bytes_in": bytes(m.in), "bytes_out": bytes(m.out), "earliest": m.earliest, "latest": m.latest, "end": m.end,
		"duration": m.latest.Sub(m.earliest), "wait": m.end.Sub(m.latest), "requests": n, "rate": rate, "throughput": throughput,
		"success": float64(m.success) / float64(n), "status_codes": m.codes, "errors": append([]string{}, m.errors...),
	}
	if len(m.buckets) > 0 {
		counts := map[string]uint64{}
		for i, b := range m.buckets {
			counts[strconv.FormatInt(int64(b), 10)] = m.counts[i]
		}
		document["buckets"] = counts
	}
	return json.NewEncoder(w).Encode(document)
}

func (m *Metrics) histogram(w io.Writer) error {
	if len(m.buckets) == 0 {
		return errors.New("-type hist: give the bounds, as in hist[0,10ms,100ms]")
	}
	t := tabwriter.NewWriter(w, 0, 8, 2, ' ', 0)
	fmt.Fprintln(t, "Bucket\t\t#\t%\tHistogram")
	for i, low := range m.buckets {
		high := "+Inf"
		if i+1 < len(m.buckets) {
			high = m.buckets[i+1].String()
		}
		share := float64(m.counts[i]) / float64(m.latencies.Count())
		fmt.Fprintf(t, "[%s,\t%s]\t%d\t%.2f%%\t%s\n", low, high, m.counts[i], 100*share, strings.Repeat("#", int(75*share)))
	}
	return t.Flush()
}

func (m *Metrics) hdr(w io.Writer) error {
	t := tabwriter.NewWriter(w, 0, 8, 2, ' ', 0)
	fmt.Fprintln(t, "Value(ms)\tPercentile\tTotalCount\t1/(1-Percentile)")
	n := float64(m.latencies.Count())
	for left := 1.0; left*n >= 1; left /= math.Pow(2, 0.2) { // five steps for each halving of the rest
		fmt.Fprintf(t, "%f\t%f\t%d\t%f\n", float64(m.at(1-left))/1e6, 1-left, int64(math.Round((1-left)*n)), 1/left)
	}
	fmt.Fprintf(t, "%f\t%f\t%d\t%f\n", float64(m.latencies.Max())/1e6, 1.0, int64(n), 10_000_000.0)
	return t.Flush()
}
