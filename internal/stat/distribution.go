package stat

import (
	"math"

	"gonum.org/v1/gonum/mathext"
)

// The distributions in use, over gonum's special functions: package distuv has them too, and brings
// a linear algebra library with it.

// normalCDF is the probability of at most x.
func normalCDF(x, mean, deviation float64) float64 {
	return 0.5 * math.Erfc(-(x-mean)/(deviation*math.Sqrt2))
}

// normalQuantile is that of mean 0 and deviation 1.
func normalQuantile(p float64) float64 { return mathext.NormalQuantile(p) }

// studentQuantile is that of Student's t.
func studentQuantile(p float64, degrees int) float64 {
	if p == 0.5 {
		return 0
	}
	nu := float64(degrees)
	tail := mathext.InvRegIncBeta(nu/2, 0.5, 2*min(p, 1-p))
	return math.Copysign(math.Sqrt(nu*(1-tail)/tail), p-0.5)
}

// binomialCDF is the probability of at most k of n successes, each of probability p.
func binomialCDF(k, n uint64, p float64) float64 {
	if k >= n {
		return 1
	}
	return mathext.RegIncBeta(float64(n-k), float64(k)+1, 1-p)
}

// poissonCDF is the probability of at most k.
func poissonCDF(k uint64, mean float64) float64 {
	return mathext.GammaIncRegComp(float64(k)+1, mean)
}

// chiSquaredQuantile is that of the sum of so many squares of normal values.
func chiSquaredQuantile(p float64, degrees int) float64 {
	return 2 * mathext.GammaIncRegInv(0.5*float64(degrees), p)
}

// fSurvival is the probability that the ratio of two mean squares exceeds f.
func fSurvival(f float64, above, below int) float64 {
	d1, d2 := float64(above), float64(below)
	return 1 - mathext.RegIncBeta(d1/2, d2/2, d1*f/(d1*f+d2))
}
