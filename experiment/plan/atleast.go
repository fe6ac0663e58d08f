package plan

import (
	"math"

	"ceiling/internal/hist"
)

// AtLeast returns a lower bound of a quantile of a run's response times, in nanoseconds, had the
// run continued to expected requests in total: it holds even if every remaining request had been
// faster than those measured before the run was stopped. It returns 0 if too little was measured.
func AtLeast(q float64, measured *hist.Hist, expected float64) int64 {
	n := float64(measured.Count())
	// At most that many may be slower than the quantile, whose rank is ceil(q·n).
	above := math.Max(expected, n) * (1 - q)
	if above >= n {
		return 0
	}
	return measured.Quantile((n - math.Floor(above)) / n)
}
