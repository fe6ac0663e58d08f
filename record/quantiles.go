package record

import (
	"cmp"
	"math/bits"

	"ceiling/internal/hist"
	"ceiling/internal/unit"
)

// QuantilesOf returns a histogram's figures as a Run stores them, in nanoseconds; all 0 for an
// empty one. It leaves HDR empty: see Hist.EncodeV2.
func QuantilesOf(h *hist.Hist) Quantiles {
	return Quantiles{
		Count:  h.Count(),
		MeanNs: h.Mean(),
		P50Ns:  h.Quantile(.5),
		P90Ns:  h.Quantile(.9),
		P99Ns:  h.Quantile(.99),
		P999Ns: h.Quantile(.999),
		MinNs:  h.Min(),
		MaxNs:  h.Max(),
	}
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

// LoneOf summarises lone requests: times in sending order, round-robin over the connections. The
// first on each connection and the first tenth count as cold; if there are few, fewer than half
// of them.
func LoneOf(serviceNs []int64, connections int) *Lone {
	n := len(serviceNs)
	l := &Lone{Connections: connections, ServiceNs: serviceNs, Cold: max(min(max(connections, n/10), (n-1)/2), 0)}
	warm := new(hist.Hist)
	for _, ns := range serviceNs[l.Cold:] {
		warm.Record(ns)
	}
	l.Service = QuantilesOf(warm)
	return l
}
