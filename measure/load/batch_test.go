//go:build linux

package load

import "testing"

// Each response waits for the batch it came with: of one batch of 1 µs with a response and one of
// 63 µs with 63, the mean over the batches is 32 µs and over the responses 62.
func TestBatchOfEachResponse(t *testing.T) {
	var y Tally
	before := y.Completed
	y.Completed++
	y.batch(1_000, before)
	before = y.Completed
	y.Completed += 63
	y.batch(63_000, before)
	y.Completed = 10 // another tally than at its beginning
	y.batch(5_000, 64)
	if y.Batches != 3 || y.BatchNs != 69_000 || y.BatchMaxNs != 63_000 || y.HandledNs != 1_000+63*63_000 {
		t.Errorf("%+v", y.Batching)
	}
	var sum Tally
	sum.add(&y)
	if sum.HandledNs != y.HandledNs {
		t.Errorf("the sum has %d", sum.HandledNs)
	}
	y.clear()
	if y.HandledNs != 0 {
		t.Error("a cleared tally has handled responses")
	}
}
