package stat

import (
	"fmt"
	"math"
	"slices"
)

// Trend reports whether a series rises or falls, without a threshold.
type Trend struct {
	// Slope is Sen's slope: the median of the slopes between all pairs, in units of the values
	// per unit of the times.
	Slope Estimate `json:"slope"`
	// P is the two-sided p-value of the Mann-Kendall test of "no trend", Rising the one-sided
	// one: small if the series rises.
	P      float64 `json:"p"`
	Rising float64 `json:"rising"`
	// Stretches is the number of means in the test: the series is averaged over segments long
	// enough to be about independent.
	Stretches int       `json:"stretches"`
	Warnings  []Warning `json:"warnings,omitempty"`
}

const (
	// mostStretches: more add no significant power, and Sen's slope examines every pair.
	mostStretches = 50
	// leastStretches: with 6 the rarest order has p = 2/6! = 0.3 %; with fewer a series can
	// hardly contradict chance.
	leastStretches = 6
	// maxSeries limits the search for the correlation time: 20,000 values are half an hour at ten
	// a second, and cost at most 0.2 s.
	maxSeries = 20000
)

// MannKendall tests values taken at ascending times. Neighbouring values of a queue are
// correlated, which would make any series look like a trend, so the series is first averaged over
// segments of three times its correlation time. (Mann 1945; Kendall 1975; Sen 1968; batch means:
// Law and Kelton.)
func MannKendall(times, values []float64, confidence float64) (Trend, error) {
	if len(times) != len(values) {
		return Trend{}, fmt.Errorf("trend: %d times and %d values", len(times), len(values))
	}
	if err := checkSample("trend", values, confidence); err != nil {
		return Trend{}, err
	}
	if err := checkValues("trend: times", times); err != nil {
		return Trend{}, err
	}
	for i := 1; i < len(times); i++ {
		if times[i] <= times[i-1] {
			return Trend{}, fmt.Errorf("trend: time %d is not after the one before", i+1)
		}
	}
	if len(values) > maxSeries {
		return Trend{}, fmt.Errorf("trend: %d values are more than %d", len(values), maxSeries)
	}
	length, short := independent(values)
	at, means := stretches(times, values, length)
	out := kendall(at, means, confidence)
	if len(means) < leastStretches {
		out.Warnings = append(out.Warnings, warn("stat.few-stretches", with{"needed": leastStretches, "stretches": len(means)}))
	} else if short {
		out.Warnings = append(out.Warnings, warn("stat.trend-or-swing", with{"stretches": len(means)}))
	}
	return out, nil
}

// stretchTaus is the length of a segment in integrated autocorrelation times. With 3, series
// without a trend were called rising or falling at the 5 % level: of 400 values of an M/M/1 queue
// at loads of 0.5 to 0.95 4 to 5 %, of 100 values 4 to 9 % (with 2: 4 to 7 and 4 to 10 %; with
// individual values: 40 to 70 %).
const stretchTaus = 3

// independent returns how many values a segment needs for the means of segments to be about
// independent: three times the integrated autocorrelation time (Sokal's window) of the raw
// series. Detrending first would hide slow swings, and call 27 % of the queues at load 0.95 a
// trend; without it, a real trend requires long segments, which do not hide it. The length leaves
// at least leastStretches segments; short reports that this limited it.
func independent(values []float64) (length int, short bool) {
	n := len(values)
	length = (n + mostStretches - 1) / mostStretches
	mean, variance := meanOf(values), 0.0
	for _, v := range values {
		variance += (v - mean) * (v - mean)
	}
	if variance == 0 || n < 2*leastStretches {
		return length, false
	}
	tau := 1.0
	for lag := 1; lag < n/2 && float64(lag) < 5*tau; lag++ {
		sum := 0.0
		for i := lag; i < n; i++ {
			sum += (values[i] - mean) * (values[i-lag] - mean)
		}
		tau = max(tau+2*sum/variance, 1)
	}
	if tau > 1.5 { // less is within the estimate's uncertainty
		length = max(length, int(math.Ceil(stretchTaus*tau)))
	}
	longest := max(n/leastStretches, 1)
	return min(length, longest), length > longest
}

// stretches returns the mean times and values of segments of that length; the remainder is
// dropped at the start, where a run is still settling.
func stretches(times, values []float64, length int) (at, means []float64) {
	for i := len(values) % length; i < len(values); i += length {
		at = append(at, meanOf(times[i:i+length]))
		means = append(means, meanOf(values[i:i+length]))
	}
	return at, means
}

// kendall tests the order of independent values and estimates their slope.
func kendall(at, values []float64, confidence float64) Trend {
	n := len(values)
	out := Trend{P: 1, Rising: 1, Stretches: n, Slope: Estimate{N: n}}
	if n < 2 {
		return out
	}
	var rising, falling, tied int
	slopes := make([]float64, 0, n*(n-1)/2)
	for i := range values {
		for j := i + 1; j < n; j++ {
			slope := (values[j] - values[i]) / (at[j] - at[i])
			slopes = append(slopes, slope)
			switch {
			case slope > 0:
				rising++
			case slope < 0:
				falling++
			default:
				tied++
			}
		}
	}
	slices.Sort(slopes)
	atMost := inversions(n)
	half := (tied + 1) / 2 // a tie counts half either way, rounded conservatively
	out.Rising = atMost(min(falling+half, len(slopes)))
	out.P = min(2*atMost(min(rising, falling)+half), 1)
	k, alpha := 0, 1-confidence
	for k+1 < (len(slopes)+1)/2 && 2*atMost(k+1) <= alpha {
		k++
	}
	out.Slope.Value = median(slopes)
	out.Slope.Interval = Interval{slopes[k], slopes[len(slopes)-1-k], max(1-2*atMost(k), 0)}
	return out
}

// inversions returns the probability that at most k of the n(n−1)/2 pairs of n values in random
// order are out of order, exact without ties, and conservative with them. Value i adds 0..i−1
// inversions, equally likely.
func inversions(n int) func(k int) float64 {
	p := []float64{1}
	for i := 2; i <= n; i++ {
		next := make([]float64, len(p)+i-1)
		sum := 0.0
		for k := range next {
			if k < len(p) {
				sum += p[k]
			}
			if k >= i {
				sum -= p[k-i]
			}
			next[k] = max(sum, 0) / float64(i)
		}
		p = next
	}
	return cumulate(p)
}
