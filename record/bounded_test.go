package record

import (
	"testing"

	"pgregory.net/rapid"

	"ceiling/internal/hist"
)

func histogram(n uint64, ns int64) *hist.Hist {
	h := new(hist.Hist)
	h.RecordN(ns, n)
	return h
}

// TestBounded: requests without a response raise the quantiles that they decide, and no others.
func TestBounded(t *testing.T) {
	const ms = 1_000_000
	for name, k := range map[string]struct {
		ended, waiting *hist.Hist
		from           float64
		text           string // p50, p99.9, max
	}{
		"none":          {histogram(10000, 2*ms), histogram(0, 0), 0, "2.00 ms 2.00 ms 2.00 ms"},
		"young":         {histogram(10000, 2*ms), histogram(64, ms), 0, "2.00 ms 2.00 ms 2.00 ms"},
		"one hangs":     {histogram(10000, 2*ms), histogram(1, 1170*ms), 1, "2.00 ms 2.00 ms ≥ 1.17 s"},
		"sixteen":       {histogram(10000, 2*ms), histogram(16, 1170*ms), .999, "2.00 ms ≥ 1.17 s ≥ 1.17 s"},
		"all":           {histogram(10, 2*ms), histogram(16, 1170*ms), .5, "≥ 1.17 s ≥ 1.17 s ≥ 1.17 s"},
		"nothing ended": {histogram(0, 0), histogram(16, 1170*ms), .5, "≥ 1.17 s ≥ 1.17 s ≥ 1.17 s"},
	} {
		q := Bounded(k.ended, &Unanswered{Waiting: *k.waiting})
		if text := q.Text(.5) + " " + q.Text(.999) + " " + q.Text(1); q.BoundFrom != k.from || text != k.text || q.Count != k.ended.Count() {
			t.Errorf("%s: bounds from %v: %s", name, q.BoundFrom, text)
		}
	}
	w := WaitedOf(&Unanswered{Waiting: *histogram(16, 1000*ms)})
	q := QuantilesOf(histogram(16, 1000))
	if text := q.MeanText(&w); text != "≥ 500 ms" || q.MeanText(nil) != "1.00 µs" {
		t.Errorf("a mean of %s", text)
	}
}

// TestBoundsHold: a figure is never below that of the ended requests, never above the true one, and
// rises with the quantile.
func TestBoundsHold(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		ended, waiting, truth := new(hist.Hist), new(hist.Hist), new(hist.Hist)
		for _, ns := range rapid.SliceOfN(rapid.Int64Range(1, 1e9), 1, 100).Draw(t, "ended") {
			ended.Record(ns)
			truth.Record(ns)
		}
		for _, ns := range rapid.SliceOfN(rapid.Int64Range(1, 1e9), 0, 50).Draw(t, "waiting") {
			waiting.Record(ns)
			truth.Record(ns + rapid.Int64Range(0, 1e9).Draw(t, "left"))
		}
		q, before, plain := Bounded(ended, &Unanswered{Waiting: *waiting}), int64(0), QuantilesOf(ended)
		for _, one := range q.figures() {
			if was, _ := plain.Quantile(one.q); *one.ns < was || *one.ns < before {
				t.Fatalf("quantile %v is %d, of the ended ones %d, the one below %d", one.q, *one.ns, was, before)
			}
			if q.IsBound(one.q) && float64(*one.ns) > 1.01*float64(max(truth.Quantile(one.q), ended.Quantile(one.q))) {
				t.Fatalf("quantile %v is at least %d, and %d", one.q, *one.ns, truth.Quantile(one.q))
			}
			before = *one.ns
		}
		w := WaitedOf(&Unanswered{Waiting: *waiting})
		if back, err := w.Unanswered(); err != nil || back.Waiting.Count() != waiting.Count() {
			t.Fatalf("%+v came back, %v", back, err)
		}
	})
}
