//go:build linux

package load

import (
	"fmt"
	"math/rand/v2"
	"testing"
)

// BenchmarkRow is what the coordinator does in one interval: every worker's tally, with 10,000
// response times around 100 µs, becomes part of a row and of the total.
func BenchmarkRow(b *testing.B) {
	for _, workers := range []int{1, 16, 128} {
		b.Run(fmt.Sprint(workers, " workers"), func(b *testing.B) {
			random := rand.New(rand.NewPCG(1, 2))
			var result Result
			m := newRowMerger(workers, 2, 1)
			m.taken, m.free, m.closed = func(_ int, t *Tally) { result.include(t) }, func(int, *Tally) {}, func(*Tally) {}
			tallies := make([]*Tally, workers)
			for id := range tallies {
				t := newTally(1)
				t.Completed, t.Statuses[200] = 10_000, 10_000
				for range 10_000 {
					ns := int64(80e3 + random.ExpFloat64()*40e3)
					t.Response.Record(ns)
					t.Service.Record(ns)
					t.Lag.Record(ns / 20)
				}
				tallies[id] = t
			}
			for at := int64(0); b.Loop(); at += 1e8 {
				for id, t := range tallies {
					t.StartNs, t.EndNs = at, at+1e8
					m.add(id, t)
				}
			}
		})
	}
}
