package hist

import (
	"math"
	"math/big"
	"math/rand/v2"
	"slices"
	"testing"

	"pgregory.net/rapid"
)

// latency draws values as they occur: every power of two is as likely as
// another, with the edges of the buckets and of the range among them.
func latency() *rapid.Generator[int64] {
	return rapid.Custom(func(t *rapid.T) int64 {
		shift := rapid.IntRange(0, 62).Draw(t, "shift")
		v := int64(1)<<shift + rapid.Int64Range(0, int64(1)<<shift-1).Draw(t, "rest")
		return v + rapid.Int64Range(-1, 0).Draw(t, "step")
	})
}

func histOf(values []int64) *Hist {
	h := new(Hist)
	for _, v := range values {
		h.Record(v)
	}
	return h
}

// within reports whether got is a fair answer for the recorded value want.
func within(got, want int64) bool {
	diff := max(got, want) - min(got, want)
	return diff <= want/512
}

func TestBucketsTileTheRange(t *testing.T) {
	next := uint64(0)
	for i := uint(0); i < buckets; i++ {
		low, high := bounds(i)
		if low != next || high < low {
			t.Fatalf("bucket %d is %d..%d, want it to start at %d", i, low, high, next)
		}
		if index(low) != i || index(high) != i {
			t.Fatalf("bucket %d is %d..%d but they go to %d and %d", i, low, high, index(low), index(high))
		}
		if width := high - low + 1; width > 1 && width > low/256 {
			t.Fatalf("bucket %d: width %d is more than 1/256 of %d", i, width, low)
		}
		next = high + 1
	}
	if next != 1<<topBits {
		t.Fatalf("buckets end at %d, want 2^%d", next, topBits)
	}
	if got := index(math.MaxInt64); got != last {
		t.Fatalf("the largest value goes to bucket %d, want %d", got, last)
	}
}

func TestAgainstSortedSlice(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		values := rapid.SliceOfN(latency(), 1, 300).Draw(t, "values")
		h := histOf(values)
		slices.Sort(values)
		n := len(values)

		if h.Count() != uint64(n) || h.Min() != values[0] || h.Max() != values[n-1] {
			t.Fatalf("count %d min %d max %d, want %d %d %d", h.Count(), h.Min(), h.Max(), n, values[0], values[n-1])
		}
		sum := new(big.Int)
		for _, v := range values {
			sum.Add(sum, big.NewInt(v))
		}
		if sum.IsUint64() && h.Sum() != sum.Uint64() || !sum.IsUint64() && h.Sum() != math.MaxUint64 {
			t.Fatalf("sum %d, want %s", h.Sum(), sum)
		}
		mean, _ := new(big.Rat).SetFrac(sum, big.NewInt(int64(n))).Float64()
		if math.Abs(h.Mean()-mean) > mean*1e-12 {
			t.Fatalf("mean %v, want %v", h.Mean(), mean)
		}

		permille := rapid.IntRange(0, 1000).Draw(t, "permille")
		rank := max((permille*n+999)/1000, 1) // the same rank in whole numbers
		want := values[rank-1]
		got := h.Quantile(float64(permille) / 1000)
		if want <= topNs && !within(got, want) {
			t.Fatalf("quantile %d‰ = %d, want %d ± 1/512", permille, got, want)
		}
		if got < h.Min() || got > h.Max() {
			t.Fatalf("quantile %d outside %d..%d", got, h.Min(), h.Max())
		}
		if c := h.CountAtMost(got); c < uint64(rank) {
			t.Fatalf("CountAtMost(Quantile(%d‰) = %d) = %d, below the rank %d", permille, got, c, rank)
		}
	})
}

func TestCountAtMost(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		values := rapid.SliceOfN(rapid.Int64Range(0, topNs), 1, 200).Draw(t, "values")
		limit := rapid.OneOf(rapid.SampledFrom(values), rapid.Int64Range(-1, topNs)).Draw(t, "limit")
		h := histOf(values)
		var sure, possible uint64
		for _, v := range values {
			if v <= limit-limit/256 {
				sure++
			}
			if v <= limit+limit/256 {
				possible++
			}
		}
		if c := h.CountAtMost(limit); c < sure || c > possible {
			t.Fatalf("CountAtMost(%d) = %d, want %d..%d", limit, c, sure, possible)
		}
		if c := h.CountAtMost(h.Max()); c != uint64(len(values)) {
			t.Fatalf("at most Max: %d of %d", c, len(values))
		}
		if c := h.CountAtMost(h.Min() - 1); c != 0 {
			t.Fatalf("below Min: %d", c)
		}
	})
}

func TestCountAtMostInOneBucket(t *testing.T) {
	h := histOf([]int64{1 << 20, 1<<20 + 4000}) // one bucket, 2^12 wide
	check := func(ns int64, want uint64) {
		t.Helper()
		if got := h.CountAtMost(ns); got != want {
			t.Errorf("at most %d: %d, want %d", ns, got, want)
		}
	}
	check(1<<20-1, 0)
	check(1<<20, 1)
	check(1<<20+3999, 1)
	check(1<<20+4000, 2)
}

func TestMergeIsHistogramOfAll(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		a := rapid.SliceOf(latency()).Draw(t, "a")
		b := rapid.SliceOf(latency()).Draw(t, "b")
		merged, other := histOf(a), histOf(b)
		merged.Merge(other)
		if *merged != *histOf(append(slices.Clone(a), b...)) {
			t.Fatalf("merge of %v and %v is not the histogram of both", a, b)
		}
		if *other != *histOf(b) {
			t.Fatalf("merge changed its argument")
		}
		merged.Reset()
		if *merged != (Hist{}) {
			t.Fatalf("reset left something behind")
		}
	})
}

func TestRecordN(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		v := rapid.OneOf(latency(), rapid.Int64Range(-5, 5)).Draw(t, "v")
		n := rapid.Uint64Range(0, 50).Draw(t, "n")
		many, one := new(Hist), new(Hist)
		many.RecordN(v, n)
		for range n {
			one.Record(v)
		}
		if *many != *one {
			t.Fatalf("RecordN(%d, %d) differs from %d times Record", v, n, n)
		}
	})
}

func TestEachAddsUp(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		values := rapid.SliceOf(latency()).Draw(t, "values")
		h := histOf(values)
		var total uint64
		before := int64(-1)
		h.Each(func(low, high int64, count uint64) {
			if low <= before || high < low || count == 0 {
				t.Fatalf("bucket %d..%d × %d after %d", low, high, count, before)
			}
			var want uint64
			for _, v := range values {
				if low <= v && v <= high {
					want++
				}
			}
			if count != want {
				t.Fatalf("bucket %d..%d counts %d, want %d", low, high, count, want)
			}
			before = high
			total += count
		})
		if total != h.Count() {
			t.Fatalf("buckets add up to %d, count is %d", total, h.Count())
		}
	})
}

func TestEmpty(t *testing.T) {
	h := new(Hist)
	h.Merge(new(Hist))
	h.Reset()
	h.Each(func(int64, int64, uint64) { t.Error("an empty histogram has a bucket") })
	if h.Count() != 0 || h.Sum() != 0 || h.Mean() != 0 || h.Min() != 0 || h.Max() != 0 ||
		h.Quantile(0.5) != 0 || h.CountAtMost(math.MaxInt64) != 0 {
		t.Error("an empty histogram answers something other than 0")
	}
}

func TestClamping(t *testing.T) {
	h := new(Hist)
	h.Record(-7)
	if h.Min() != 0 || h.Max() != 0 || h.Count() != 1 {
		t.Errorf("a negative value counts as %d..%d", h.Min(), h.Max())
	}
	h.Record(math.MaxInt64)
	h.Record(math.MaxInt64)
	h.Record(math.MaxInt64)
	if h.Max() != math.MaxInt64 || h.Quantile(1) != math.MaxInt64 || h.Sum() != math.MaxUint64 {
		t.Errorf("beyond the last bucket: max %d, sum %d", h.Max(), h.Sum())
	}
	if want := 0.75 * math.MaxInt64; math.Abs(h.Mean()-want) > want*1e-12 {
		t.Errorf("mean beyond 64 bits of sum: %v, want %v", h.Mean(), want)
	}
}

func TestQuantileRank(t *testing.T) {
	check := func(q float64, n, want uint64) {
		t.Helper()
		if got := rankOf(q, n); got != want {
			t.Errorf("rank of %v in %d = %d, want %d", q, n, got, want)
		}
	}
	check(0, 100, 1)
	check(-1, 100, 1)
	check(math.NaN(), 100, 1)
	check(2, 100, 100)
	check(0.07, 100, 7) // 7.000000000000001 in floating point
	check(0.5, 3, 2)
	check(0.99, 100, 99)
	check(0.99, 101, 100)
	check(0.99999, 1_000_000_000, 999_990_000)
	check(math.Nextafter(1, 0), 10, 10)
}

func TestRecordDoesNotAllocate(t *testing.T) {
	a, b := new(Hist), new(Hist)
	v := int64(1)
	got := testing.AllocsPerRun(100, func() {
		v = v*3 + 7
		a.Record(v & topNs)
		b.Merge(a)
		a.Reset()
	})
	if got != 0 {
		t.Errorf("%v allocations", got)
	}
}

func TestDeviation(t *testing.T) {
	h := new(Hist)
	if ns, within := h.Deviation(); ns != 0 || within != 0 {
		t.Errorf("of nothing: %v, %d", ns, within)
	}
	draw := rand.New(rand.NewPCG(1, 2))
	var values []float64
	for range 10_000 {
		v := int64(math.Exp(draw.NormFloat64()) * 1e6)
		h.Record(v)
		values = append(values, float64(v))
	}
	mean, squares, within := h.Mean(), 0.0, 0
	for _, v := range values {
		squares += (v - mean) * (v - mean)
	}
	want := math.Sqrt(squares / float64(len(values)))
	for _, v := range values {
		if math.Abs(v-mean) <= want {
			within++
		}
	}
	if ns, n := h.Deviation(); math.Abs(ns/want-1) > 1./256 || math.Abs(float64(n)-float64(within)) > 100 {
		t.Errorf("%v and %d, want %v and %d", ns, n, want, within)
	}
}
