package plan

import (
	"math"

	"ceiling/internal/hist"
)

// AtLeast is what a quantile of a run's response times would have been at the least,
// in nanoseconds, had the run gone on for expected requests in all, from what it had
// measured when it was ended: even if each request still to come had been faster. 0
// where so little was measured that it says nothing.
func AtLeast(q float64, measured *hist.Hist, expected float64) int64 {
	n := float64(measured.Count())
	// So many may be slower than the quantile's value, which is of rank ceil(q·n).
	above := math.Max(expected, n) * (1 - q)
	if above >= n {
		return 0
	}
	return measured.Quantile((n - math.Floor(above)) / n)
}
