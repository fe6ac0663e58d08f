package stat

import (
	"fmt"
	"math"
	"slices"
)

// Trend says whether a series rises or falls, with no threshold.
type Trend struct {
	// Slope is Sen's: the median of the slopes between all pairs, in units of
	// the values per unit of the times.
	Slope Estimate `json:"slope"`
	// P is the two-sided p-value of Mann and Kendall's test of "no trend",
	// Rising the one-sided one: small when the series rises.
	P      float64 `json:"p"`
	Rising float64 `json:"rising"`
	// Stretches is how many means the test rests on: the series is averaged
	// over stretches long enough to be about independent.
	Stretches int      `json:"stretches"`
	Warnings  []string `json:"warnings,omitempty"`
}

const (
	// mostStretches: more add no power that matters, and Sen's slope looks at
	// every pair.
	mostStretches = 50
	// leastStretches: with 6 the rarest order has p = 2/6! = 0.3 %; with fewer
	// a series can hardly contradict chance.
	leastStretches = 6
)

// MannKendall tests values taken at ascending times. Neighbouring values of a
// queue resemble each other, which would make any series look like a trend, so
// it is first averaged over stretches of twice its correlation time.
// (Mann 1945; Kendall 1975; Sen 1968; batch means: Law and Kelton.)
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
	length, short := independent(times, values)
	at, means := stretches(times, values, length)
	out := kendall(at, means, confidence)
	if len(means) < leastStretches {
		out.Warnings = append(out.Warnings, fmt.Sprintf("needs %d stretches of values, has %d", leastStretches, len(means)))
	} else if short {
		out.Warnings = append(out.Warnings, fmt.Sprintf("neighbouring values resemble each other for so long that %d stretches may still do: p is too small; needs a longer series", len(means)))
	}
	return out, nil
}

// independent is how many values a stretch must have for the means of stretches
// to be about independent: twice the integrated autocorrelation time of what
// the straight line leaves (Sokal's window). It never asks for fewer than
// leastStretches stretches; short says that it would have had to.
func independent(times, values []float64) (length int, short bool) {
	n := len(values)
	length = (n + mostStretches - 1) / mostStretches
	rest := detrended(times, values)
	variance := 0.0
	for _, v := range rest {
		variance += v * v
	}
	if variance == 0 || n < 2*leastStretches {
		return length, false
	}
	tau := 1.0
	for lag := 1; lag < n/2 && float64(lag) < 5*tau; lag++ {
		sum := 0.0
		for i := lag; i < n; i++ {
			sum += rest[i] * rest[i-lag]
		}
		tau = max(tau+2*sum/variance, 1)
	}
	if tau > 1.5 {
		length = max(length, int(math.Ceil(stretchTaus*tau)))
	}
	longest := max(n/leastStretches, 1)
	return min(length, longest), length > longest
}

const stretchTaus = 2

// detrended is what the least-squares line through the series leaves.
func detrended(times, values []float64) []float64 {
	tm, vm := meanOf(times), meanOf(values)
	var tv, tt float64
	for i, t := range times {
		tv += (t - tm) * (values[i] - vm)
		tt += (t - tm) * (t - tm)
	}
	slope := 0.0
	if tt > 0 {
		slope = tv / tt
	}
	rest := make([]float64, len(values))
	for i, t := range times {
		rest[i] = values[i] - vm - slope*(t-tm)
	}
	return rest
}

// stretches are the mean times and values of stretches of so many values; what
// does not fill one is left out at the start, where a run is still settling.
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
	half := (tied + 1) / 2 // a tie counts half either way, rounded to the cautious one
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

// inversions is the probability that at most k of the n(n−1)/2 pairs of n
// values in random order are out of order, exact without ties, and cautious
// with them. Value i adds 0..i−1 inversions, each as likely.
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
