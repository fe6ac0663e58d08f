package live

import (
	"fmt"
	"math"
	"testing"

	"ceiling/record"
)

// BenchmarkForm is what a verdict takes, by how much it stands on.
func BenchmarkForm(b *testing.B) {
	for _, seconds := range []int{3, 9, 21} {
		b.Run(fmt.Sprint(seconds, "s"), func(b *testing.B) {
			r, s := fixture(b, 2999e6)
			board := NewBoard()
			board.Began(record.Start{ID: r.ID, Spec: r.Spec})
			board.Rows(repeated(s, seconds/3))
			b.ReportAllocs()
			for b.Loop() {
				board.Form()
			}
		})
	}
}

// BenchmarkStretch is what the path over time adds to a verdict that is formed again after
// four seconds, as over 20 s.
func BenchmarkStretch(b *testing.B) {
	r, s := fixture(b, 2999e6)
	board := NewBoard()
	board.Began(record.Start{ID: r.ID, Spec: r.Spec})
	board.Rows(repeated(s, 7))
	e, ok := board.evidence()
	if !ok {
		b.Fatal("nothing to judge")
	}
	b.ReportAllocs()
	for b.Loop() {
		if list, _ := e.stretches(17e9, record.BySocketSamples, false); len(list) == 0 {
			b.Fatal("no stretch")
		}
	}
}

func BenchmarkSnapshot(b *testing.B) {
	board, _, _ := boardAt(b, math.MaxInt64)
	b.ReportAllocs()
	for b.Loop() {
		board.Snapshot()
	}
}

// BenchmarkObserved is what feeding takes a row.
func BenchmarkObserved(b *testing.B) {
	r, s := fixture(b, 2999e6)
	board := NewBoard()
	board.Began(record.Start{ID: r.ID, Spec: r.Spec})
	rows := s.Observed.All()
	b.ReportAllocs()
	for i := 0; b.Loop(); i++ {
		board.Observed(rows[i%len(rows)])
	}
}
