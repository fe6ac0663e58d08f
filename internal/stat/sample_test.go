package stat

import (
	"math"
	"math/rand/v2"
	"slices"
	"strings"
	"testing"

	"gonum.org/v1/gonum/stat/distuv"
	"pgregory.net/rapid"
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
	if err != nil || len(e.Warnings) != 1 || e.Warnings[0] != "needs 6 values for 95%, has 3: the interval is their range, at 75%" {
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

func TestQuantileRanks(t *testing.T) {
	check := func(n uint64, q float64, low, high uint64) {
		t.Helper()
		gotLow, gotHigh, reached, err := QuantileRanks(n, q, 0.95)
		if err != nil || gotLow != low || gotHigh != high {
			t.Errorf("%v of %d: ranks %d to %d at %v, want %d to %d; %v", q, n, gotLow, gotHigh, reached, low, high, err)
		}
	}
	check(6, 0.5, 1, 6)  // 1 − 2/64
	check(10, 0.5, 2, 9) // tables of the sign test: 97.9 %
	check(1, 0.5, 1, 1)
	check(20, 0.5, 6, 15) // 95.9 %
	// A million: 990,000 ± 1.96·√9900 = 195.
	low, high, _, err := QuantileRanks(1e6, 0.99, 0.95)
	if err != nil || math.Abs(float64(low)-989805) > 2 || math.Abs(float64(high)-990196) > 2 {
		t.Errorf("a million: %d to %d, %v", low, high, err)
	}
	if low, high, reached, err := QuantileRanks(maxCount, 0.999, 0.95); err != nil || low >= high || math.Abs(reached-0.95) > 0.001 {
		t.Errorf("2^53: %d to %d at %v, %v", low, high, reached, err)
	}
	for _, bad := range []float64{0, 1, -1, 2, math.NaN()} {
		if _, _, _, err := QuantileRanks(10, bad, 0.95); err == nil {
			t.Errorf("the %v quantile was accepted", bad)
		}
	}
	if _, _, _, err := QuantileRanks(0, 0.5, 0.95); err == nil {
		t.Error("no values were accepted")
	}
}

// TestQuantileRanksReachWhatTheySay compares with sums of the binomial.
func TestQuantileRanksReachWhatTheySay(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		n := rapid.Uint64Range(1, 3000).Draw(t, "n")
		q := rapid.Float64Range(0.001, 0.999).Draw(t, "q")
		low, high, reached, err := QuantileRanks(n, q, 0.95)
		if err != nil {
			t.Fatal(err)
		}
		if low < 1 || high > n || low > high {
			t.Fatalf("ranks %d to %d of %d", low, high, n)
		}
		binomial, sum := distuv.Binomial{N: float64(n), P: q}, 0.0
		for k := low; k < high; k++ {
			sum += binomial.Prob(float64(k))
		}
		if math.Abs(sum-reached) > 1e-6 {
			t.Fatalf("ranks %d to %d of %d at %v: reached %v, says %v", low, high, n, q, sum, reached)
		}
		if low > 1 && high < n && reached < 0.95-1e-9 {
			t.Fatalf("reached %v inside the sample", reached)
		}
	})
}

func TestQuantileCovers(t *testing.T) {
	r := rand.New(rand.NewPCG(9, 1))
	const trials = 1000
	truth, hits := -math.Log(0.01), 0
	for range trials {
		// Rounded to buckets of 0.05, as a histogram does.
		seen := map[float64]uint64{}
		for range 1000 {
			seen[math.Ceil(r.ExpFloat64()*20)/20]++
		}
		var values []float64
		var counts []uint64
		for v, c := range seen {
			values, counts = append(values, v), append(counts, c)
		}
		e, err := Quantile(values, counts, 0.99, 0.95)
		if err != nil {
			t.Fatal(err)
		}
		if e.Low-0.05 <= truth && truth <= e.High {
			hits++
		}
	}
	if hits < 935*trials/1000 {
		t.Errorf("the interval of p99 holds it in %d of %d", hits, trials)
	}
}

func TestQuantile(t *testing.T) {
	e, err := Quantile([]float64{3, 1, 2, 9}, []uint64{1, 50, 49, 0}, 0.5, 0.95)
	if err != nil || e.Value != 1 || e.Low != 1 || e.High != 2 || e.N != 100 || len(e.Warnings) != 0 {
		t.Errorf("%+v, %v", e, err)
	}
	e, err = Quantile([]float64{1, 2}, []uint64{50, 50}, 0.999, 0.95)
	if err != nil || e.Value != 2 || len(e.Warnings) != 1 || !strings.Contains(e.Warnings[0], "100 values are too few for the 0.999 quantile at 95%") {
		t.Errorf("%+v, %v", e, err)
	}
	for _, bad := range [][]uint64{{1}, {0, 0}, {maxCount, 1}, {math.MaxUint64, 1}} {
		if _, err := Quantile([]float64{1, 2}, bad, 0.5, 0.95); err == nil {
			t.Errorf("counts %v were accepted", bad)
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
