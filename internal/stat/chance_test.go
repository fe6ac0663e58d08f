package stat

import (
	"math"
	"testing"
)

// TestChances: both against sums by hand, and where there is no choice.
func TestChances(t *testing.T) {
	check := func(what string, got, want float64) {
		t.Helper()
		if math.Abs(got-want) > 1e-9 {
			t.Errorf("%s: %g, want %g", what, got, want)
		}
	}
	check("0 of 10 at 5%", BinomialAtMost(0, 10, 0.05), math.Pow(0.95, 10))
	check("1 of 3 at a half", BinomialAtMost(1, 3, 0.5), 0.5)
	check("all", BinomialAtMost(3, 3, 0.5), 1)
	check("never", BinomialAtMost(0, 3, 0), 1)
	check("always", BinomialAtMost(2, 3, 1), 0)
	check("0 or more", PoissonAtLeast(0, 2), 1)
	check("1 or more", PoissonAtLeast(1, 2), 1-math.Exp(-2))
	check("3 or more", PoissonAtLeast(3, 0.5), 1-math.Exp(-0.5)*(1+0.5+0.125))
	check("of nothing", PoissonAtLeast(1, 0), 0)
}
