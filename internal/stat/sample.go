package stat

import (
	"math"
	"slices"

	"golang.org/x/perf/benchmath"
)

// Median returns the median of repeated measurements with the interval of order statistics
// (benchmath.AssumeNothing). It assumes independence and no distribution. Too few values give
// their range at the confidence it has, 1 − 2^(1−n), with a warning.
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
		e.Warnings = append(e.Warnings, warn("stat.few-values", with{"needed": leastFor(1 - confidence), "confidence": confidence,
			"values": len(values), "has_confidence": e.Confidence}))
	}
	return e, nil
}

// Mean returns the arithmetic mean with Student's interval (benchmath.AssumeNormal): for totals
// and rates of repeats that are about normal. A mean of percentiles is meaningless: merge their
// histograms.
func Mean(values []float64, confidence float64) (Estimate, error) {
	if err := checkSample("mean", values, confidence); err != nil {
		return Estimate{}, err
	}
	if len(values) == 1 {
		return Estimate{Value: values[0], Interval: Interval{Low: values[0], High: values[0]}, N: 1,
			Warnings: []Warning{warn("stat.one-value", nil)}}, nil
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

// belowQuantile returns the probability that at most k of n values lie below the q-quantile. If
// the binomial has a deviation of 100 or more, the normal approximation, with continuity
// correction, misses a rank by less than a hundredth of it.
func belowQuantile(n uint64, q float64) func(k uint64) float64 {
	mean, variance := float64(n)*q, float64(n)*q*(1-q)
	if variance > 100*100 {
		return func(k uint64) float64 { return normalCDF(float64(k)+0.5, mean, math.Sqrt(variance)) }
	}
	return func(k uint64) float64 { return binomialCDF(k, n, q) }
}
