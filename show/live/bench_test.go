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
		board.Observed(record.Clone(rows[i%len(rows)]))
	}
}
