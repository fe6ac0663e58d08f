package record

import (
	"testing"

	"pgregory.net/rapid"

	"ceiling/internal/hist"
)

// TestBins: nothing is lost in bins, they ascend, none is wider than an eighth,
// and their sum is that of the values.
func TestBins(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		h, sum := new(hist.Hist), 0.0
		for _, v := range rapid.SliceOfN(rapid.OneOf(rapid.Int64Range(0, 1000), rapid.Int64Range(0, 1<<41)), 1, 300).Draw(t, "values") {
			h.Record(v)
			sum += float64(v)
		}
		all, binned, last := uint64(0), 0.0, int64(-1)
		for _, b := range BinsOf(h) {
			if b.Ns <= last || b.Count == 0 {
				t.Fatalf("a bin at %d ns with %d after one at %d ns", b.Ns, b.Count, last)
			}
			all, binned, last = all+b.Count, binned+float64(b.Ns)*float64(b.Count), b.Ns
		}
		if off := binned - sum; all != h.Count() || off > sum/256+float64(all) || off < -sum/256-float64(all) {
			t.Fatalf("%d of %d values, their sum %g of %g", all, h.Count(), binned, sum)
		}
	})
	h := new(hist.Hist)
	for ns := int64(1_000_000); ns < 2_000_000; ns += 100 {
		h.Record(ns)
	}
	if n := len(BinsOf(h)); n < 8 || n > 10 {
		t.Errorf("%d bins from 1 to 2 ms", n)
	}
	if BinsOf(new(hist.Hist)) != nil {
		t.Error("bins of nothing")
	}
}

// TestLoneCold: of many the first on each connection and the first tenth are
// left out, of few less than half.
func TestLoneCold(t *testing.T) {
	for _, k := range []struct{ n, connections, cold int }{
		{0, 4, 0}, {1, 4, 0}, {2, 4, 0}, {3, 4, 1}, {6, 4, 2}, {9, 4, 4}, {20, 4, 4}, {20, 1, 2}, {200, 4, 20},
	} {
		l := LoneOf(make([]int64, k.n), k.connections)
		if l.Cold != k.cold || l.Service.Count != uint64(k.n-k.cold) {
			t.Errorf("%d over %d connections: %d cold, %d left", k.n, k.connections, l.Cold, l.Service.Count)
		}
	}
}
