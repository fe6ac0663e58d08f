package record

import (
	"cmp"
	"math/bits"

	"ceiling/internal/hist"
	"ceiling/internal/unit"
)

// QuantilesOf is a histogram's figures as a Run keeps them, in nanoseconds;
// all 0 for an empty one. HDR is left empty: Hist.EncodeV2 has it for who asks.
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

// StepsOf is a histogram in steps, nil of an empty one.
func StepsOf(h *hist.Hist) *Steps {
	first, counts := h.Steps()
	if counts == nil {
		return nil
	}
	return &Steps{First: first, Counts: counts}
}

// Possible tells whether there are such steps: what is read may say anything.
func (s *Steps) Possible() bool {
	return s.First >= 0 && len(s.Counts) > 0 && s.First <= hist.StepsMost-len(s.Counts)
}

// With is s and another one together; neither is changed. nil is none.
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

// String is a stall with its length, as a chart names it.
func (s Stall) String() string {
	name := "stall "
	if s.Outage {
		name = "outage "
	}
	return name + unit.FormatNs(s.ToNs-s.FromNs)
}

// BinsOf is a histogram in bins of an eighth of each power of two, those that
// have anything, nanoseconds on average within 0.2 %.
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

// LoneOf is the account of lone requests: times in the order they were sent, in
// turn over so many connections. The first on each connection are cold, and the
// first tenth; where there are few, less than half of them.
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
