package plan

import (
	"testing"

	"ceiling/internal/hist"
)

// TestAtLeast: whatever the rest of a run would have been, its p99 is not below the
// bound; and with the fastest rest it is the bound.
func TestAtLeast(t *testing.T) {
	partial := &hist.Hist{}
	partial.RecordN(1_000_000, 900)
	partial.RecordN(50_000_000, 60)
	partial.RecordN(80_000_000, 40)
	for _, c := range []struct {
		expected float64
		rest     uint64
		want     int64
	}{{1000, 0, 80_000_000}, {5000, 4000, 50_000_000}, {9000, 8000, 50_000_000}, {10_000, 9000, 1_000_000}, {20_000, 19_000, 1_000_000},
		{200_000, 199_000, 0}} {
		got := AtLeast(.99, partial, c.expected)
		if d := got - c.want; d < -c.want/200 || d > c.want/200 {
			t.Errorf("of %v requests: at least %d, want %d", c.expected, got, c.want)
		}
		for _, ns := range []int64{1000, 2_000_000, 100_000_000} {
			whole := &hist.Hist{}
			whole.Merge(partial)
			whole.RecordN(ns, c.rest)
			if is := whole.Quantile(.99); is < got {
				t.Errorf("of %v requests, the rest %d ns: p99 is %d, below the bound %d", c.expected, ns, is, got)
			}
		}
	}
}
