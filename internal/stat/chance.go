package stat

import "gonum.org/v1/gonum/stat/distuv"

// BinomialAtMost is the probability that at most k of n independent trials
// succeed, each with the chance p.
func BinomialAtMost(k, n uint64, p float64) float64 {
	switch {
	case k >= n || p <= 0:
		return 1
	case p >= 1:
		return 0
	}
	return belowQuantile(n, p)(k)
}

// PoissonAtLeast is the probability of k or more events that come independently
// of each other, mean of them on average.
func PoissonAtLeast(k uint64, mean float64) float64 {
	switch {
	case k == 0:
		return 1
	case !(mean > 0):
		return 0
	}
	return 1 - distuv.Poisson{Lambda: mean}.CDF(float64(k-1))
}
