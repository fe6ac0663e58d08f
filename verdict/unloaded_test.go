package verdict

import (
	"container/heap"
	"maps"
	"math"
	"math/rand/v2"
	"slices"
	"testing"

	"ceiling/internal/hist"
	"ceiling/internal/needs"
	"ceiling/record"
)

// TestLoneOfTailsIsNoQueue: where no request waits for another, whatever the
// service times, a few unloaded requests do not make a queue.
func TestLoneOfTailsIsNoQueue(t *testing.T) {
	needs.Time(t)
	r := rand.New(rand.NewPCG(3, 11))
	all := tails(r)
	for _, name := range slices.Sorted(maps.Keys(all)) {
		draw := all[name]
		claims, alones, runs := 0, 0, 0
		for _, n := range []int{1, 3, 6, 25, 100, 200} {
			for range 40 {
				run := loop(64, 4e9, draw)
				var first hist.Hist
				for range 64 {
					first.Record(draw())
				}
				run.FirstAnswers = record.BinsOf(&first)
				run.Unloaded = loneSample(n, draw)
				l := newFacts(run, nil).lone
				runs++
				switch l.is {
				case queued:
					claims++
				case alone:
					alones++
				}
			}
		}
		t.Logf("%s: %d queues and %d of none in %d", name, claims, alones, runs)
		if claims > runs/100 {
			t.Errorf("%s: a queue was claimed in %d of %d runs without one", name, claims, runs)
		}
		if alones < runs/3 {
			t.Errorf("%s: no queue was seen in %d of %d runs alone", name, alones, runs)
		}
	}
}

// TestLoneBesideGathering: a generator that batches completions sees the loop's responses later than the
// unloaded ones. The verdict must not read that wait as queueing at the server.
func TestLoneBesideGathering(t *testing.T) {
	r := rand.New(rand.NewPCG(7, 5))
	const gather, runs = 1_000_000, 200
	draw := func() int64 {
		if r.IntN(20) == 0 {
			return 300e6
		}
		return 3e6 + r.Int64N(1e5)
	}
	alones := func(recorded int64) (n int) {
		for range runs {
			run := loop(64, 4e9, func() int64 { return draw() + gather + r.Int64N(gather/4) })
			run.Generator.CoalesceNs = recorded
			var first hist.Hist
			for range 64 {
				first.Record(draw())
			}
			run.FirstAnswers, run.Unloaded = record.BinsOf(&first), loneSample(24, draw)
			if newFacts(run, nil).lone.is == alone {
				n++
			}
		}
		return n
	}
	if with, without := alones(gather), alones(0); with < runs*3/4 || without > with/2 {
		t.Errorf("alone in %d of %d runs, and in %d if the record does not have the wait", with, runs, without)
	}
}

// TestLoneOfQueues: before so many places, of times that vary moderately, the
// number is found whatever the order in which they are given.
func TestLoneOfQueues(t *testing.T) {
	r := rand.New(rand.NewPCG(5, 8))
	orders := map[string]func(n int) int{
		"first come": func(int) int { return 0 },
		"last come":  func(n int) int { return n - 1 },
		"any":        func(n int) int { return r.IntN(n) },
	}
	for _, name := range slices.Sorted(maps.Keys(orders)) {
		pick := orders[name]
		for _, places := range []int{1, 5, 40} {
			wrong := 0
			const runs = 20
			for range runs {
				draw := func() int64 { return int64(10e6 * (0.7 + 0.6*r.Float64())) }
				run := queueLoop(128, places, 4e9, draw, pick)
				run.Unloaded = loneSample(24, draw)
				l := newFacts(run, nil).lone
				if l.is != queued || math.Abs(l.at-float64(places)) > 0.2*float64(places) || l.low > l.at || l.high < l.at {
					wrong++
				}
			}
			if wrong > 0 {
				t.Errorf("%s, %d places: wrong in %d of %d", name, places, wrong, runs)
			}
		}
	}
}

func loneSample(n int, draw func() int64) *record.Unloaded {
	times := make([]int64, n)
	for i := range times {
		times[i] = draw()
	}
	l := record.LoneOf(times, 4)
	l.Sent = n
	return l
}

// inPlaces are requests that have a place, by when they are done.
type inPlaces []struct{ done, begun int64 }

func (s inPlaces) Len() int           { return len(s) }
func (s inPlaces) Less(i, j int) bool { return s[i].done < s[j].done }
func (s inPlaces) Swap(i, j int)      { s[i], s[j] = s[j], s[i] }
func (s *inPlaces) Push(x any)        { *s = append(*s, x.(struct{ done, begun int64 })) }
func (s *inPlaces) Pop() any {
	last := (*s)[len(*s)-1]
	*s = (*s)[:len(*s)-1]
	return last
}

// queueLoop is a closed loop before places that requests wait for; pick says which
// of those that wait is next, in the order they came.
func queueLoop(slots, places int, windowNs int64, draw func() int64, pick func(n int) int) *record.Run {
	var busy inPlaces
	var response, first hist.Hist
	waiting := make([]int64, 0, slots)
	give := func(now int64) {
		for len(waiting) > 0 && len(busy) < places {
			i := pick(len(waiting))
			heap.Push(&busy, struct{ done, begun int64 }{now + draw(), waiting[i]})
			waiting = append(waiting[:i], waiting[i+1:]...)
		}
	}
	for range slots {
		waiting = append(waiting, 0)
	}
	warmup := windowNs / 4
	give(0)
	for busy[0].done < warmup+windowNs {
		one := heap.Pop(&busy).(struct{ done, begun int64 })
		if one.begun == 0 && one.done < warmup {
			first.Record(one.done)
		}
		if one.done >= warmup {
			response.Record(one.done - one.begun)
		}
		waiting = append(waiting, one.done)
		give(one.done)
	}
	run := closedRun()
	run.Load.Connections, run.Load.Opened, run.Load.Established = slots, slots, slots
	run.ElapsedS = float64(windowNs) / 1e9
	done := response.Count()
	run.Requests = record.Requests{Sent: done + uint64(slots), InFlightAtStart: uint64(slots), Completed: done, InFlight: uint64(slots)}
	run.Rate = record.Rate{CompletedPerS: float64(done) / run.ElapsedS}
	q := record.QuantilesOf(&response)
	run.Latency = record.Latency{Response: q, Service: q, ResponseBins: record.BinsOf(&response), ServiceBins: record.BinsOf(&response)}
	run.FirstAnswers = record.BinsOf(&first)
	return run
}

// TestLoneThatSettles: times that fall clearly drop their first part, and
// what still falls is said to.
func TestLoneThatSettles(t *testing.T) {
	check := func(times []float64, left int, warming bool) {
		t.Helper()
		if rest, is := settled(times); len(rest) != left || is != warming {
			t.Errorf("%v: %d left, warming %v", times, len(rest), is)
		}
	}
	check([]float64{1, 1, 1}, 3, false)
	check([]float64{10, 9, 9, 9, 1, 1, 1, 1}, 4, false)
	check([]float64{64, 64, 64, 64, 64, 64, 64, 64, 64, 64, 64, 64, 64, 64, 64, 64, 9, 9, 9, 9, 9, 9, 9, 9, 3, 3, 3, 3, 1, 1, 1, 1}, 8, true)
	check([]float64{9, 9, 9, 9, 9, 9, 9, 9, 1, 1, 1, 1, 1, 1, 1, 1}, 8, false)
	check([]float64{1, 1, 1, 1, 1, 1, 1, 1}, 8, false)
}

// TestLongRequestsAreNoStandstill: a few slots that are all in a long request at
// once stand still by chance; many do not, nor do times without long requests.
func TestLongRequestsAreNoStandstill(t *testing.T) {
	run := closedRun()
	run.Latency.ResponseBins = []record.Bin{{Ns: 10e6, Count: 950}, {Ns: 1e9, Count: 50}} // 84 % of the time are long
	f := newFacts(run, nil)
	check := func(count int, stretchNs, inFlight float64, want bool) {
		t.Helper()
		if got := f.base.byLongRequests(count, stretchNs, inFlight, 10e9); got != want {
			t.Errorf("%d of %.0f ms with %.0f in flight: by long requests %v", count, stretchNs/1e6, inFlight, got)
		}
	}
	check(3, 200e6, 8, true)
	check(3, 200e6, 64, false)
	check(1, 3e9, 8, false) // longer than any request takes
	run.Latency.ResponseBins = nil
	check(3, 200e6, 8, false)
}
