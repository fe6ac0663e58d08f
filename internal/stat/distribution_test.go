package stat

import (
	"math"
	"testing"

	"gonum.org/v1/gonum/stat/distuv"
)

// TestDistributions: every bit is that of gonum's distributions.
func TestDistributions(t *testing.T) {
	check := func(what string, got, want float64) {
		t.Helper()
		if got != want && !(math.IsNaN(got) && math.IsNaN(want)) {
			t.Errorf("%s: %v, want %v", what, got, want)
		}
	}
	for i := range 999 {
		p := float64(i+1) / 1000
		check("normal quantile", normalQuantile(p), distuv.UnitNormal.Quantile(p))
		x := 40*p - 20
		check("normal", normalCDF(x, 3, 5), distuv.Normal{Mu: 3, Sigma: 5}.CDF(x))
		for _, n := range []int{1, 2, 3, 7, 30, 1000} {
			check("Student's t", studentQuantile(p, n), distuv.StudentsT{Sigma: 1, Nu: float64(n)}.Quantile(p))
			check("chi-squared", chiSquaredQuantile(p, n), distuv.ChiSquared{K: float64(n)}.Quantile(p))
			check("F", fSurvival(10*p, n, 5), distuv.F{D1: float64(n), D2: 5}.Survival(10*p))
			for k := range 9 {
				check("binomial", binomialCDF(uint64(k), uint64(n), p), distuv.Binomial{N: float64(n), P: p}.CDF(float64(k)))
				check("Poisson", poissonCDF(uint64(k), 10*p), distuv.Poisson{Lambda: 10 * p}.CDF(float64(k)))
			}
		}
	}
}
