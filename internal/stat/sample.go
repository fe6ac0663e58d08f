package stat

import (
	"cmp"
	"fmt"
	"math"
	"slices"

	"golang.org/x/perf/benchmath"
	"gonum.org/v1/gonum/stat/distuv"
)

// Median is the median of repeated measurements with the interval that order
// statistics give (benchmath.AssumeNothing). It assumes independence and
// nothing of the distribution. Too few values give their range at the
// confidence it has, 1 − 2^(1−n), with a warning.
func Median(values []float64, confidence float64) (Estimate, error) {
	if err := checkSample("median", values, confidence); err != nil {
		return Estimate{}, err
	}
	sorted := slices.Clone(values)
	slices.Sort(sorted)
	thresholds := benchmath.DefaultThresholds
	s := benchmath.AssumeNothing.Summary(benchmath.NewSample(sorted, &thresholds), confidence)
	e := Estimate{Value: median(sorted), Interval: Interval{s.Lo, s.Hi, s.Confidence}, N: len(values)}
	if math.IsInf(s.Lo, 0) || math.IsInf(s.Hi, 0) {
		e.Interval = Interval{sorted[0], sorted[len(sorted)-1], 1 - math.Ldexp(1, 1-len(sorted))}
		e.Warnings = append(e.Warnings, fmt.Sprintf("needs %d values for %s, has %d: the interval is their range, at %s",
			leastFor(1-confidence), percent(confidence), len(values), percent(e.Confidence)))
	}
	return e, nil
}

// Mean is the arithmetic mean with Student's interval (benchmath.AssumeNormal):
// for totals and rates of repeats that are about normal. Percentiles have no
// mean that means anything: merge their histograms.
func Mean(values []float64, confidence float64) (Estimate, error) {
	if err := checkSample("mean", values, confidence); err != nil {
		return Estimate{}, err
	}
	if len(values) == 1 {
		return Estimate{Value: values[0], Interval: Interval{Low: values[0], High: values[0]}, N: 1,
			Warnings: []string{"needs 2 values for an interval, has 1"}}, nil
	}
	thresholds := benchmath.DefaultThresholds
	s := benchmath.AssumeNormal.Summary(benchmath.NewSample(slices.Clone(values), &thresholds), confidence)
	return Estimate{Value: s.Center, Interval: Interval{s.Lo, s.Hi, s.Confidence}, N: len(values)}, nil
}

func checkSample(what string, values []float64, confidence float64) error {
	if err := checkValues(what, values); err != nil {
		return err
	}
	return checkConfidence(what, confidence)
}

// maxCount is what a float64 still counts exactly.
const maxCount = 1 << 53

// QuantileRanks are the ranks (1..n) of the values that bound the q-quantile of
// n independent values: how many values lie below it is binomial(n, q). Use it
// with any histogram that finds a value by its rank. A bound that n is too
// small for is rank 1 or n, and reached says what confidence is left.
//
// Responses of one run are not independent (they queue behind each other): the
// interval is then a lower bound of the doubt, and repeats tell the rest.
func QuantileRanks(n uint64, q, confidence float64) (low, high uint64, reached float64, err error) {
	if n == 0 || n > maxCount {
		return 0, 0, 0, fmt.Errorf("quantile: %d values must be 1 to 2^53", n)
	}
	if !(q > 0 && q < 1) {
		return 0, 0, 0, fmt.Errorf("quantile: %v must lie between 0 and 1", q)
	}
	if err := checkConfidence("quantile", confidence); err != nil {
		return 0, 0, 0, err
	}
	below := belowQuantile(n, q)
	tail := (1 - confidence) / 2
	// The quantile lies between the values of ranks low and high when at least
	// low and at most high−1 values lie below it.
	low = firstCount(n, func(k uint64) bool { return below(k) > tail })
	high = firstCount(n, func(k uint64) bool { return below(k) >= 1-tail }) + 1
	low, high = max(low, 1), min(high, n)
	return low, high, max(below(high-1)-below(low-1), 0), nil
}

// belowQuantile is the probability that at most k of n values lie below the
// q-quantile. Where the binomial has a deviation of 100 or more, the normal
// one, with continuity correction, misses a rank by less than a hundredth of it.
func belowQuantile(n uint64, q float64) func(k uint64) float64 {
	mean, variance := float64(n)*q, float64(n)*q*(1-q)
	if variance > 100*100 {
		normal := distuv.Normal{Mu: mean, Sigma: math.Sqrt(variance)}
		return func(k uint64) float64 { return normal.CDF(float64(k) + 0.5) }
	}
	binomial := distuv.Binomial{N: float64(n), P: q}
	return func(k uint64) float64 { return binomial.CDF(float64(k)) }
}

// firstCount is the smallest k in 0..n for which the rising condition holds, n
// if it never does.
func firstCount(n uint64, holds func(k uint64) bool) uint64 {
	low, high := uint64(0), n
	for low < high {
		if mid := low + (high-low)/2; holds(mid) {
			high = mid
		} else {
			low = mid + 1
		}
	}
	return low
}

// Quantile is the q-quantile (nearest rank) of a sample in which values[i]
// occurred counts[i] times, in any order, with the interval of QuantileRanks.
func Quantile(values []float64, counts []uint64, q, confidence float64) (Estimate, error) {
	if len(values) != len(counts) {
		return Estimate{}, fmt.Errorf("quantile: %d values and %d counts", len(values), len(counts))
	}
	if err := checkValues("quantile", values); err != nil {
		return Estimate{}, err
	}
	order := make([]int, len(values))
	total := uint64(0)
	for i, c := range counts {
		if c > maxCount || total+c > maxCount {
			return Estimate{}, fmt.Errorf("quantile: more than 2^53 values")
		}
		total += c
		order[i] = i
	}
	low, high, reached, err := QuantileRanks(total, q, confidence)
	if err != nil {
		return Estimate{}, err
	}
	slices.SortFunc(order, func(a, b int) int { return cmp.Compare(values[a], values[b]) })
	at := func(rank uint64) float64 {
		seen := uint64(0)
		for _, i := range order {
			if seen += counts[i]; seen >= rank {
				return values[i]
			}
		}
		return values[order[len(order)-1]]
	}
	rank := min(max(uint64(math.Ceil(q*float64(total))), 1), total)
	e := Estimate{Value: at(rank), Interval: Interval{at(low), at(high), reached}, N: int(total)}
	if reached < confidence {
		e.Warnings = append(e.Warnings, fmt.Sprintf("%d values are too few for the %v quantile at %s: the interval ends at the extreme value, at %s",
			total, q, percent(confidence), percent(reached)))
	}
	return e, nil
}
