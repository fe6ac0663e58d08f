package record

import (
	"math"
	"testing"
	"time"

	"ceiling/internal/hist"
)

// loadRows makes rows of the given widths in ms, each with n completions per ms.
func loadRows(perMs uint64, widthsMs ...int64) []LoadRow {
	var rows []LoadRow
	now := int64(0)
	for _, ms := range widthsMs {
		now += ms * 1e6
		rows = append(rows, LoadRow{Kind: KindLoad, TNs: now, WidthNs: ms * 1e6, Completed: uint64(ms) * perMs, Late: ms > 150})
	}
	return rows
}

func repeat(n int, ms int64) []int64 {
	widths := make([]int64, n)
	for i := range widths {
		widths[i] = ms
	}
	return widths
}

func TestSpreadOf(t *testing.T) {
	for _, c := range []struct {
		name          string
		widths        []int64
		widthS        float64
		samples, late int
	}{
		{"none", nil, 0, 0, 0},
		{"short: over rows", repeat(20, 100), .1, 20, 0},
		{"short: a late row", append(repeat(10, 100), 300, 100), .1, 11, 1},
		{"short: a rest", append(repeat(10, 100), 7), .1, 10, 0},
		{"long: over seconds", repeat(100, 100), 1, 10, 0},
		{"long: a rest", repeat(107, 100), 1, 10, 0},
		{"long: late by little", append(repeat(25, 100), append([]int64{400}, repeat(21, 100)...)...), 1, 5, 0},
		{"long: late by much", append(repeat(15, 100), append([]int64{3200}, repeat(23, 100)...)...), 1, 3, 1},
		{"long: off the beat", repeat(97, 103), 1, 10, 0},
	} {
		got := SpreadOf(loadRows(20, c.widths...))
		if got.WidthS != c.widthS || got.Samples != c.samples || got.Late != c.late {
			t.Errorf("%s: width %v, %d samples, %d late; want %v, %d, %d", c.name, got.WidthS, got.Samples, got.Late, c.widthS, c.samples, c.late)
		}
		// 20 per ms are 20,000/s whatever the widths: a sample that was taken for
		// a second without being one would show here.
		if c.samples > 0 && (math.Abs(got.MinPerS-20000) > 1e-6 || math.Abs(got.MaxPerS-20000) > 1e-6 || got.StdevPerS > 1e-6) {
			t.Errorf("%s: %+v; want 20000 throughout", c.name, got)
		}
	}
}

func TestSpreadOfFigures(t *testing.T) {
	rows := []LoadRow{{Warmup: true, TNs: 0, WidthNs: 1e9, Completed: 1e6}}
	for i, n := range []uint64{40, 10, 30, 20} {
		rows = append(rows, LoadRow{TNs: int64(i+1) * 1e9, WidthNs: 1e9, Completed: n})
	}
	want := Spread{WidthS: 1, Samples: 4, MinPerS: 10, P25PerS: 17.5, P50PerS: 25, P75PerS: 32.5, MaxPerS: 40, StdevPerS: math.Sqrt(500. / 3),
		WithinStdev: 0.5}
	if got := SpreadOf(rows); got != want {
		t.Errorf("%+v; want %+v", got, want)
	}
	if got := SpreadOf(rows[:2]); got.Samples != 1 || got.StdevPerS != 0 || got.P75PerS != 40 {
		t.Errorf("one sample: %+v", got)
	}
}

func TestQuantilesOf(t *testing.T) {
	var h hist.Hist
	if got := QuantilesOf(&h); got != (Quantiles{}) {
		t.Errorf("empty: %+v", got)
	}
	for ns := int64(1); ns <= 1000; ns++ {
		h.Record(ns * int64(time.Microsecond))
	}
	got := QuantilesOf(&h)
	if got.Count != 1000 || got.MinNs != 1000 || got.MaxNs != 1e6 || got.MeanNs != 500500 {
		t.Errorf("%+v", got)
	}
	for _, c := range []struct{ got, want int64 }{{got.P50Ns, 500e3}, {got.P90Ns, 900e3}, {got.P99Ns, 990e3}, {got.P999Ns, 999e3}} {
		if math.Abs(float64(c.got-c.want)) > float64(c.want)/512 {
			t.Errorf("quantile %d; want %d", c.got, c.want)
		}
	}
}
