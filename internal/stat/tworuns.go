package stat

import (
	"math"
)

// TwoRuns estimates the log ratio of the mean of b to that of a, each one run's values of equal
// intervals, in time order. Neighbouring values are correlated, so each run is divided into
// segments that are about independent (independent); the interval is Welch's over their means,
// with the deviation of a ratio (delta method). It accounts for the variation within each run,
// not between two runs of the same thing, which is larger on most machines: a reported difference
// may be due to chance. For runs of 10 s with a neighbour correlation of 0, 0.5 and 0.8 the 95 %
// intervals contain the true ratio in 95, 93 and 88 of 100 cases. N is the number of segments of
// the run with fewer. If a run is too short for segments there is no interval, and a warning.
func TwoRuns(a, b []float64, confidence float64) (Estimate, error) {
	for _, values := range [][]float64{a, b} {
		if err := checkSample("compare runs", values, confidence); err != nil {
			return Estimate{}, err
		}
	}
	x, y := stretched(a), stretched(b)
	ratio := math.Log(meanOf(b) / meanOf(a))
	if math.IsNaN(ratio) || math.IsInf(ratio, 0) {
		ratio = 0
	}
	e := Estimate{Value: ratio, Interval: Interval{Low: ratio, High: ratio}, N: min(x.n, y.n)}
	if x.short || y.short || e.N < leastStretches || !(meanOf(a) > 0 && meanOf(b) > 0) {
		e.Warnings = append(e.Warnings, warn("stat.few-stretches", with{"needed": leastStretches, "stretches": e.N}))
		return e, nil
	}
	reach := 0.0
	if sum := x.square + y.square; sum > 0 {
		degrees := sum * sum / (x.square*x.square/float64(x.n-1) + y.square*y.square/float64(y.n-1))
		reach = studentQuantile((1+confidence)/2, int(math.Floor(degrees))) * math.Sqrt(sum)
	}
	e.Interval = Interval{Low: ratio - reach, High: ratio + reach, Confidence: confidence}
	return e, nil
}

// stretchedRun summarises the segments of a run.
type stretchedRun struct {
	n      int
	square float64 // squared relative standard error of their mean
	short  bool
}

func stretched(values []float64) stretchedRun {
	length, short := independent(values)
	_, means := stretches(make([]float64, len(values)), values, length)
	mean, variance := meanOf(means), 0.0
	for _, m := range means {
		variance += (m - mean) * (m - mean)
	}
	r := stretchedRun{n: len(means), short: short}
	if n := float64(r.n); n > 1 && mean != 0 {
		r.square = variance / (n - 1) / n / (mean * mean)
	}
	return r
}
