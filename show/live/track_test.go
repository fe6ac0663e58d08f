package live

import (
	"testing"

	"pgregory.net/rapid"
)

// However long a run is and wherever its warm-up ends, the points cover it from
// its beginning to its end without a gap, and lose no request.
func TestTrackLosesNothing(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		n := rapid.IntRange(1, 5*PointsMost).Draw(t, "intervals")
		warm := rapid.IntRange(0, min(n, 500)).Draw(t, "warm-up")
		var tr track
		tr.reset()
		var completed, failed uint64
		at := int64(0)
		for i := range n {
			width := int64(1e8 + i%3)
			at += width
			p := Point{TNs: at, WidthNs: width, Completed: uint64(i % 7), Failed: uint64(i % 2), MaxNs: int64(i), Warmup: i < warm, Intervals: 1,
				Answered: true}
			completed += p.Completed
			failed += p.Failed
			tr.add(p)
			tr.add(p) // the same again is none
			if len(tr.points) > PointsMost {
				t.Fatalf("%d points", len(tr.points))
			}
		}
		tr.finish()
		end, intervals := int64(0), 0
		for i, p := range tr.points {
			if p.TNs-p.WidthNs != end {
				t.Fatalf("point %d begins at %d, the one before ends at %d", i, p.TNs-p.WidthNs, end)
			}
			end = p.TNs
			intervals += p.Intervals
			completed -= p.Completed
			failed -= p.Failed
		}
		if end != at || intervals != n || completed != 0 || failed != 0 {
			t.Fatalf("until %d of %d, %d of %d intervals, %d and %d requests are missing", end, at, intervals, n, completed, failed)
		}
		if last := tr.points[len(tr.points)-1]; last.MaxNs != int64(n-1) {
			t.Fatalf("the worst of the last point is %d, want %d", last.MaxNs, n-1)
		}
		for i := range tr.points {
			if i > 0 && tr.points[i].Warmup && !tr.points[i-1].Warmup {
				t.Fatal("warm-up after the window's beginning")
			}
		}
	})
}

// Who has seen some points gets the rest, or all of another generation.
func TestPointsFromAPlace(t *testing.T) {
	b := NewBoard()
	b.mu.Lock()
	b.track.reset()
	for i := range int64(10) {
		b.track.add(Point{TNs: i + 1, WidthNs: 1, Intervals: 1})
	}
	b.mu.Unlock()
	points, generation := b.Points(-1, 0)
	if len(points) != 10 {
		t.Errorf("%d points", len(points))
	}
	if points, _ = b.Points(generation, 7); len(points) != 3 || points[0].TNs != 8 {
		t.Errorf("from 7: %v", points)
	}
	if points, _ = b.Points(generation+1, 7); len(points) != 10 {
		t.Errorf("of another generation: %d", len(points))
	}
	if points, _ = b.Points(generation, 99); len(points) != 10 {
		t.Errorf("from beyond the end: %d", len(points))
	}
}
