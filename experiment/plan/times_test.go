package plan

import (
	"math"
	"testing"

	"ceiling/internal/hist"
	"ceiling/record"
)

// hung is a run of 10,000 fast responses, and requests that still wait for theirs.
func hung(waiting uint64) *record.Measured {
	m := &record.Measured{Outcome: record.Valid, Completed: 10_000, Histogram: new(hist.Hist)}
	m.Histogram.RecordN(1e6, m.Completed)
	left := new(record.Unanswered)
	left.Waiting.RecordN(1.17e9, waiting)
	m.Response, m.Waiting = record.Bounded(m.Histogram, left), &record.Waiting{Response: record.WaitedOf(left)}
	return m
}

// gaveUp is a run of 10,000 fast responses and of requests that were given up after 100 ms.
func gaveUp(n uint64) *record.Measured {
	m := hung(0)
	m.Histogram.RecordN(100e6, n)
	m.Failed, m.BadShare = n, float64(n)/float64(10_000+n)
	u := &record.Unanswered{TimedOut: n}
	m.Response, m.Waiting = record.Bounded(m.Histogram, u), &record.Waiting{Response: record.WaitedOf(u)}
	return m
}

// TestTimeoutsCountInASearch: a request that was given up before the limit has not met it.
func TestTimeoutsCountInASearch(t *testing.T) {
	e := searching(t, "p99.9<200ms,errors<1%", "")
	for n, want := range map[uint64]classification{0: classMet, 5: classMet, 16: classMissed} {
		m, pooled := gaveUp(n), mergedRuns([]*record.Measured{gaveUp(n), gaveUp(n)})
		for _, one := range []*record.Measured{m, &pooled} {
			class, broken := surveyOf(e, nil).judge(one)
			if class != want || want == classMissed && (len(broken) != 1 || !broken[0].AtLeast || math.Abs(broken[0].Value-100e6) > 1e6) {
				t.Errorf("%d timed out: %v, %+v", n, class, broken)
			}
			if late, allowed, _ := lateOf(e.SLO[0], one); (late > allowed) != (want == classMissed) {
				t.Errorf("%d timed out: %v over the limit, %v allowed", n, late, allowed)
			}
		}
	}
}

// TestWaitingRequestsCountInASearch: they break a term of a run, and of runs that are judged
// together.
func TestWaitingRequestsCountInASearch(t *testing.T) {
	e := searching(t, "p99.9<200ms,errors<1%", "")
	for waiting, want := range map[uint64]classification{0: classMet, 5: classMet, 16: classMissed, 300: classMissed} {
		m := hung(waiting)
		pooled := mergedRuns([]*record.Measured{hung(waiting), hung(waiting)})
		for _, one := range []*record.Measured{m, &pooled} {
			class, broken := surveyOf(e, nil).judge(one)
			if class != want || want == classMissed && (len(broken) != 1 || !broken[0].AtLeast || math.Abs(broken[0].Value-1.17e9) > 1e7) {
				t.Errorf("%d waiting: %v, %+v", waiting, class, broken)
			}
		}
		if p := curvePoint(1, []*record.Measured{m, m}); p.Response.IsBound(.999) != (want == classMissed) {
			t.Errorf("%d waiting: a point of %+v", waiting, p.Response)
		}
	}
}

// TestWaitingRequestsCountInAComparison: in blocks as between saved runs.
func TestWaitingRequestsCountInAComparison(t *testing.T) {
	runs := []*record.Measured{hung(0), hung(300)}
	if ns, why := quantileOf(.99)(runs); !why.IsZero() || math.Abs(ns-1.17e9) > 1e7 {
		t.Errorf("p99 %v %v", ns, why)
	}
	var list []Figures
	for _, m := range runs {
		run := &record.Run{Latency: record.Latency{Response: m.Response, Waiting: m.Waiting}}
		list = append(list, figuresOf(&Kept{Run: run, Response: m.Histogram}))
	}
	m, _ := gateMetric("p99")
	if ns := together(m, list); math.Abs(ns-1.17e9) > 1e7 {
		t.Errorf("p99 %v", ns)
	}
}

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
