package stat

import (
	"math"
	"math/rand/v2"
	"slices"
	"testing"
)

func TestMedian(t *testing.T) {
	check := func(values []float64, want Estimate) {
		t.Helper()
		given := slices.Clone(values)
		got, err := Median(values, 0.95)
		if err != nil {
			t.Fatal(err)
		}
		if got.Value != want.Value || got.Low != want.Low || got.High != want.High || math.Abs(got.Confidence-want.Confidence) > 1e-9 {
			t.Errorf("%v: %+v, want %+v", values, got, want)
		}
		if few := len(values) < 6; few != (len(got.Warnings) == 1) {
			t.Errorf("%d values: warned %q", len(values), got.Warnings)
		}
		if !slices.Equal(given, values) {
			t.Errorf("%v was reordered to %v", given, values)
		}
	}
	check([]float64{7}, Estimate{Value: 7, Interval: Interval{7, 7, 0}})
	check([]float64{3, 1, 2}, Estimate{Value: 2, Interval: Interval{1, 3, 0.75}})
	check([]float64{6, 5, 4, 3, 2, 1}, Estimate{Value: 3.5, Interval: Interval{1, 6, 1 - 2.0/64}})
	check([]float64{2, 2, 2, 2, 2, 2, 2}, Estimate{Value: 2, Interval: Interval{2, 2, 1 - 2.0/128}})
}

func TestMedianWarns(t *testing.T) {
	e, err := Median([]float64{1, 2, 3}, 0.95)
	if err != nil || len(e.Warnings) != 1 || warned(e.Warnings) != "stat.few-values map[confidence:0.95 has_confidence:0.75 needed:6 values:3]" {
		t.Errorf("%q, %v", e.Warnings, err)
	}
}

func TestMean(t *testing.T) {
	e, err := Mean([]float64{4, 2, 3}, 0.95)
	// t(0.975, 2) = 4.303, standard error 1/√3.
	if err != nil || e.Value != 3 || math.Abs(e.High-3-4.3027/math.Sqrt(3)) > 1e-3 || math.Abs(3-e.Low-4.3027/math.Sqrt(3)) > 1e-3 {
		t.Errorf("%+v, %v", e, err)
	}
	e, err = Mean([]float64{5}, 0.95)
	if err != nil || e.Value != 5 || e.Confidence != 0 || len(e.Warnings) != 1 {
		t.Errorf("one value: %+v, %v", e, err)
	}
}

func TestMiddle(t *testing.T) {
	for want, values := range map[float64][]float64{7: {7}, 2: {3, 1, 2}, 2.5: {4, 1, 3, 2}} {
		if got := Middle(values); got != want {
			t.Errorf("%v: %v, want %v", values, got, want)
		}
	}
}

// TestMedianCovers and not too well: the interval must be worth its words.
func TestMedianCovers(t *testing.T) {
	r := rand.New(rand.NewPCG(4, 1))
	hits := 0
	const trials = 2000
	for range trials {
		values := make([]float64, 11)
		for i := range values {
			values[i] = r.ExpFloat64()
		}
		e, err := Median(values, 0.95)
		if err != nil {
			t.Fatal(err)
		}
		if e.Contains(math.Ln2) {
			hits++
		}
	}
	// 11 values: ranks 2 to 10, 98.8 %.
	if share := float64(hits) / trials; share < 0.94 || share > 0.995 {
		t.Errorf("holds the median in %.1f%%", 100*share)
	}
}

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
