package main

import (
	"math"
	"testing"

	"ceiling/internal/needs"
)

// TestQueueRate: one place is the M/D/1 queue, whose mean wait is known, and
// eight nearly idle ones serve as fast as they can.
func TestQueueRate(t *testing.T) {
	needs.Time(t)
	if p99 := queueP99(8, 0.01, 1, 1); math.Abs(p99-0.01) > 1e-9 {
		t.Errorf("p99 of an idle queue is %v s, want its service of 0.01", p99)
	}
	rate := queueRate(8, 0.01, 0.017, 1)
	if rate < 300 || rate > 790 {
		t.Errorf("17 ms hold up to %v/s of 800", rate)
	}
	if below, above := queueP99(8, 0.01, rate*0.99, 1), queueP99(8, 0.01, rate*1.01, 1); below > 0.017 || above < 0.017 {
		t.Errorf("around %v/s p99 is %v and %v s", rate, below, above)
	}
	if again := queueRate(8, 0.01, 0.017, 2); math.Abs(again/rate-1) > 0.02 {
		t.Errorf("another seed says %v/s, not %v", again, rate)
	}
}
