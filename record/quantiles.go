package record

import (
	"cmp"
	"math"
	"math/bits"

	"ceiling/internal/hist"
	"ceiling/internal/unit"
)

// QuantilesOf returns a histogram's figures as a Run stores them, in nanoseconds; all 0 for an
// empty one. It leaves HDR empty: see Hist.EncodeV2.
func QuantilesOf(h *hist.Hist) Quantiles {
	q := Quantiles{
		Count:  h.Count(),
		MeanNs: h.Mean(),
		P50Ns:  h.Quantile(.5),
		P75Ns:  h.Quantile(.75),
		P90Ns:  h.Quantile(.9),
		P95Ns:  h.Quantile(.95),
		P99Ns:  h.Quantile(.99),
		P999Ns: h.Quantile(.999),
		MinNs:  h.Min(),
		MaxNs:  h.Max(),
	}
	deviation, within := h.Deviation()
	if q.StdevNs = deviation; q.Count > 0 {
		q.WithinStdev = float64(within) / float64(q.Count)
	}
	return q
}

// boundMatters is how much the waiting requests must raise a quantile for it to be given as a lower
// bound. Those in flight at any moment are more often long ones than short ones: a few among many
// always move a quantile a little.
const boundMatters = 1.05

// Unanswered is what is known of the requests without a response.
type Unanswered struct {
	// Waiting is how long those had waited that were in flight at the end, nanoseconds.
	Waiting hist.Hist
	// TimedOut counts those that were given up. They are among those that ended, with the time until
	// then.
	TimedOut uint64
}

// Reach reports whether the quantile q falls on a request that timed out, if these would have taken
// longer than all others. Whatever its figure, no objective for that quantile is met.
func (u *Unanswered) Reach(ended *hist.Hist, q float64) bool {
	return (&Waited{Count: u.Waiting.Count(), TimedOut: u.TimedOut}).Reach(ended.Count(), q)
}

// AtLeast returns the quantile q of the times of ended requests, counting those that still waited
// with the time they had waited so far if that raises it. bound reports that it did, or that the
// quantile falls on a request that timed out: the true quantile is at least that.
func AtLeast(ended *hist.Hist, u *Unanswered, q float64) (ns int64, bound bool) {
	if u.Waiting.Count() == 0 {
		return u.atLeast(ended, ended, q)
	}
	return u.atLeast(ended, merged(ended, &u.Waiting), q)
}

func merged(ended, waiting *hist.Hist) *hist.Hist {
	all := *ended
	all.Merge(waiting)
	return &all
}

func (u *Unanswered) atLeast(ended, all *hist.Hist, q float64) (ns int64, bound bool) {
	ns, raised := ended.Quantile(q), all.Quantile(q)
	if q < 1 && float64(raised) < boundMatters*float64(ns) || raised <= ns {
		return ns, u.Reach(ended, q)
	}
	return raised, true
}

// Bounded returns the quantiles of ended requests, with those raised that the waiting ones raise; see
// AtLeast.
func Bounded(ended *hist.Hist, u *Unanswered) Quantiles {
	l := QuantilesOf(ended)
	if u.Waiting.Count() == 0 && u.TimedOut == 0 {
		return l
	}
	all := merged(ended, &u.Waiting)
	for _, one := range l.figures() {
		ns, bound := u.atLeast(ended, all, one.q)
		if bound && l.BoundFrom == 0 {
			l.BoundFrom = one.q
		}
		if l.BoundFrom > 0 {
			*one.ns = max(ns, all.Quantile(one.q))
		}
	}
	return l
}

// figures returns the stored quantiles, the highest last.
func (l *Quantiles) figures() []quantile {
	return []quantile{{.5, &l.P50Ns}, {.75, &l.P75Ns}, {.9, &l.P90Ns}, {.95, &l.P95Ns}, {.99, &l.P99Ns}, {.999, &l.P999Ns}, {1, &l.MaxNs}}
}

type quantile struct {
	q  float64
	ns *int64
}

// Quantile returns a stored quantile; ok is false if q is not one of them. Records made before
// 2026-11-27 lack p75 and p95.
func (l *Quantiles) Quantile(q float64) (ns int64, ok bool) {
	for _, one := range l.figures() {
		if one.q == q {
			return *one.ns, l.Known() && (*one.ns > 0 || l.P50Ns == 0)
		}
	}
	return 0, false
}

// Text returns the quantile q as it is printed, "≥ 1.17 s" if it is a lower bound.
func (l *Quantiles) Text(q float64) string {
	ns, _ := l.Quantile(q)
	return FormatBound(ns, l.IsBound(q))
}

// MeanText does the same for the mean.
func (l *Quantiles) MeanText(w *Waited) string {
	ns, bound := l.MeanWith(w)
	return FormatBound(int64(ns+.5), bound)
}

// FormatBound formats a time that may be a lower bound.
func FormatBound(ns int64, bound bool) string {
	if bound {
		return "≥ " + unit.FormatNs(ns)
	}
	return unit.FormatNs(ns)
}

// MeanWith returns the mean, counting the waiting requests with the time they had waited if that
// raises it; see AtLeast.
func (l *Quantiles) MeanWith(w *Waited) (ns float64, bound bool) {
	if w == nil {
		return l.MeanNs, false
	}
	n, m := float64(l.Count), float64(w.Count)
	if raised := (l.MeanNs*n + w.MeanNs*m) / (n + m); raised >= boundMatters*l.MeanNs && !math.IsInf(raised, 0) {
		return raised, true
	}
	return l.MeanNs, w.TimedOut > 0
}

// Known reports whether there are figures: of ended requests, or bounds from the waiting ones.
func (l *Quantiles) Known() bool { return l.Count > 0 || l.BoundFrom > 0 }

// IsBound reports whether the quantile q, with 1 for the maximum, is a lower bound.
func (l *Quantiles) IsBound(q float64) bool { return l.BoundFrom > 0 && q >= l.BoundFrom }

// WaitedOf summarises the requests without a response. A histogram that has no HdrHistogram form is
// left out, and reading it fails.
func WaitedOf(u *Unanswered) Waited {
	h := &u.Waiting
	w := Waited{Count: h.Count(), MeanNs: h.Mean(), OldestNs: h.Max(), TimedOut: u.TimedOut}
	if w.Count > 0 {
		w.HDR, _ = h.EncodeV2()
	}
	return w
}

// Waited returns the requests without a response by one time, of a name as in JSON; none if that was
// not measured.
func (l *Latency) Waited(of string) *Waited {
	switch {
	case l.Waiting == nil:
	case of == "response":
		return &l.Waiting.Response
	case of == "service":
		return &l.Waiting.Service
	case of == "first_byte" && l.Waiting.FirstByte != nil:
		return l.Waiting.FirstByte
	case of == "first_event" && l.Waiting.FirstEvent != nil:
		return l.Waiting.FirstEvent
	}
	return new(Waited)
}

// Times returns the response's part; that of nil is empty.
func (w *Waiting) Times() (*Unanswered, error) {
	if w == nil {
		return new(Unanswered), nil
	}
	return w.Response.Unanswered()
}

// Reach is that of Unanswered, with the number of requests that ended. A mean reaches none.
func (w *Waited) Reach(ended uint64, q float64) bool {
	all := float64(ended + w.Count)
	return w.TimedOut > 0 && q > 0 && max(1, math.Ceil(q*all)) > all-float64(w.TimedOut)
}

// Unanswered decodes the times.
func (w *Waited) Unanswered() (*Unanswered, error) {
	u := &Unanswered{TimedOut: w.TimedOut}
	if w.Count == 0 {
		return u, nil
	}
	h, err := hist.DecodeV2(w.HDR)
	if err != nil {
		return nil, err
	}
	u.Waiting.Merge(hist.FromHDR(h))
	return u, nil
}

// StepsOf returns a histogram in steps; nil for an empty one.
func StepsOf(h *hist.Hist) *Steps {
	first, counts := h.Steps()
	if counts == nil {
		return nil
	}
	return &Steps{First: first, Counts: counts}
}

// Possible reports whether the steps are valid: a file may contain anything.
func (s *Steps) Possible() bool {
	return s.First >= 0 && len(s.Counts) > 0 && s.First <= hist.StepsMost-len(s.Counts)
}

// With returns the sum of s and other, without modifying them. nil counts as empty.
func (s *Steps) With(other *Steps) *Steps {
	if s == nil || other == nil {
		return cmp.Or(s, other)
	}
	first := min(s.First, other.First)
	both := &Steps{First: first, Counts: make([]uint64, max(s.First+len(s.Counts), other.First+len(other.Counts))-first)}
	for _, one := range []*Steps{s, other} {
		for i, n := range one.Counts {
			both.Counts[one.First-first+i] += n
		}
	}
	return both
}

// String returns a stall with its length, as charts label it.
func (s Stall) String() string {
	name := "stall "
	if s.Outage {
		name = "outage "
	}
	return name + unit.FormatNs(s.ToNs-s.FromNs)
}

// BinsOf returns a histogram's non-empty bins of an eighth of each power of two; the mean of
// each, in ns, is accurate to 0.2 %.
func BinsOf(h *hist.Hist) []Bin {
	var bins []Bin
	var sum float64
	at := uint64(0)
	h.Each(func(low, high int64, n uint64) {
		shift := max(bits.Len64(uint64(low))-4, 0)
		if key := uint64(low) >> shift << shift; len(bins) == 0 || key != at {
			bins, sum, at = append(bins, Bin{}), 0, key
		}
		last := &bins[len(bins)-1]
		sum += (float64(low) + float64(high)) / 2 * float64(n)
		last.Count += n
		last.Ns = int64(sum / float64(last.Count))
	})
	return bins
}

// LoneOf summarises unloaded requests: times in sending order, round-robin over the connections. The
// first on each connection and the first tenth count as cold; if there are few, fewer than half
// of them.
func LoneOf(serviceNs []int64, connections int) *Unloaded {
	n := len(serviceNs)
	l := &Unloaded{Connections: connections, ServiceNs: serviceNs, Cold: max(min(max(connections, n/10), (n-1)/2), 0)}
	warm := new(hist.Hist)
	for _, ns := range serviceNs[l.Cold:] {
		warm.Record(ns)
	}
	l.Service = QuantilesOf(warm)
	return l
}

// Near reports whether the median, the p90 and the p99 are within a tenth of another's.
func (q *Quantiles) Near(o *Quantiles) bool {
	for _, pair := range [][2]int64{{q.P50Ns, o.P50Ns}, {q.P90Ns, o.P90Ns}, {q.P99Ns, o.P99Ns}} {
		if d := pair[0] - pair[1]; 10*max(d, -d) > pair[1] {
			return false
		}
	}
	return true
}
