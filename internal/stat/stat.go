package stat

import (
	"cmp"
	"fmt"
	"math"
	"slices"

	"ceiling/internal/unit"
)

// Interval is a confidence interval: over many repetitions of the measurement, a share of
// Confidence of such intervals contain the true value. Confidence is the achieved one, not the
// requested one; 0 means that there is no interval, and then Low and High are the estimate
// itself.
type Interval struct {
	Low        float64 `json:"low"`
	High       float64 `json:"high"`
	Confidence float64 `json:"confidence"` // 0..1
}

// Contains reports whether x lies in the interval, including its ends.
func (i Interval) Contains(x float64) bool { return i.Low <= x && x <= i.High }

// Estimate is a value with its interval, in the unit of the sample. Every
// field is finite.
type Estimate struct {
	Value float64 `json:"value"`
	Interval
	N        int       `json:"n"` // number of values or blocks
	Warnings []Warning `json:"warnings,omitempty"`
}

// Warning is a limitation of a figure: a code, and its values. Shares are 0 to 1. The sentences
// are with the output.
type Warning struct {
	Code string         `json:"code"`
	With map[string]any `json:"with,omitempty"`
}

// with is the values of a warning.
type with = map[string]any

func warn(code string, values with) Warning { return Warning{code, values} }

// Point is the measurement at one concurrency: each repeat's throughput.
type Point struct {
	N float64   `json:"n"` // concurrency: slots, connections, threads
	X []float64 `json:"x"` // throughput of each repeat, one unit for all points
}

// Relative converts a log ratio to a relative change: Relative(ln 1.05) = 0.05.
func Relative(lnRatio float64) float64 { return math.Expm1(lnRatio) }

// maxMagnitude limits inputs, so that sums of squares stay finite.
const maxMagnitude = 1e100

// checkValues rejects an empty sample and non-finite numbers.
func checkValues(what string, values []float64) error {
	if len(values) == 0 {
		return fmt.Errorf("%s: no values", what)
	}
	for i, v := range values {
		if !(math.Abs(v) <= maxMagnitude) { // also NaN
			return fmt.Errorf("%s: value %d of %d is %v, not a finite number below 1e100", what, i+1, len(values), v)
		}
	}
	return nil
}

// checkConfidence rejects a confidence outside 0.5..0.9999: lower is not confidence, higher needs
// tails that no run of this size has.
func checkConfidence(what string, confidence float64) error {
	if !(confidence >= 0.5 && confidence <= 0.9999) {
		return fmt.Errorf("%s: confidence %v must lie between 0.5 and 0.9999, as 0.95", what, confidence)
	}
	return nil
}

// maxComparisons limits the correction; a larger family is a mistake.
const maxComparisons = 1000

func checkComparisons(what string, comparisons int) error {
	if comparisons < 1 || comparisons > maxComparisons {
		return fmt.Errorf("%s: %d comparisons must be 1 to %d", what, comparisons, maxComparisons)
	}
	return nil
}

// checkPoints rejects a throughput without a logarithm and merges the repeats of equal
// concurrencies. It returns points in ascending order of N.
func checkPoints(what string, points []Point) ([]Point, error) {
	if len(points) == 0 {
		return nil, fmt.Errorf("%s: no points", what)
	}
	var joined []Point
	for i, p := range points {
		if !(p.N > 0 && p.N <= 1e9) {
			return nil, fmt.Errorf("%s: point %d: concurrency %v must lie above 0 and at most 1e9", what, i+1, p.N)
		}
		if len(p.X) == 0 {
			return nil, fmt.Errorf("%s: no throughput at concurrency %v", what, p.N)
		}
		for _, x := range p.X {
			if !(x >= 1/maxMagnitude && x <= maxMagnitude) {
				return nil, fmt.Errorf("%s: throughput %v at concurrency %v: it must be finite and above 0; leave out the runs that sent nothing", what,
					x, p.N)
			}
		}
		at := slices.IndexFunc(joined, func(q Point) bool { return q.N == p.N })
		if at < 0 {
			joined = append(joined, Point{N: p.N, X: slices.Clone(p.X)})
			continue
		}
		joined[at].X = append(joined[at].X, p.X...)
	}
	slices.SortFunc(joined, func(a, b Point) int { return cmp.Compare(a.N, b.N) })
	return joined, nil
}

// percent formats a confidence: 95%, 98.75%.
func percent(share float64) string { return unit.PercentDigits(share, 4) }

// leastFor returns the smallest n with 2^(1−n) <= alpha: the fewest values from which an order
// statistic or a sign flip can exclude anything at that level.
func leastFor(alpha float64) int {
	n := 1
	for math.Ldexp(1, 1-n) > alpha {
		n++
	}
	return n
}

// sortedQuantile returns the value of nearest rank of an ascending list.
func sortedQuantile(sorted []float64, q float64) float64 {
	i := int(math.Ceil(q*float64(len(sorted)))) - 1
	return sorted[min(max(i, 0), len(sorted)-1)]
}

// Middle returns the median of at least one value, in any order; for an even number, the mean of
// the middle two. Median also has the interval.
func Middle(values []float64) float64 { return median(slices.Sorted(slices.Values(values))) }

// median returns the median of an ascending list.
func median(sorted []float64) float64 {
	n := len(sorted)
	return sorted[(n-1)/2]/2 + sorted[n/2]/2
}

// BinomialAtMost returns the probability that at most k of n independent trials succeed, each
// with probability p.
func BinomialAtMost(k, n uint64, p float64) float64 {
	switch {
	case k >= n || p <= 0:
		return 1
	case p >= 1:
		return 0
	}
	return belowQuantile(n, p)(k)
}

// PoissonAtLeast returns the probability of k or more independent events, with the given mean.
func PoissonAtLeast(k uint64, mean float64) float64 {
	switch {
	case k == 0:
		return 1
	case !(mean > 0):
		return 0
	}
	return 1 - poissonCDF(k-1, mean)
}
