package verdict

import (
	"maps"
	"math"
	"math/rand/v2"
	"slices"
	"strings"
	"testing"

	"ceiling/internal/hist"
	"ceiling/record"
	"ceiling/verdict/prose"
)

// loop is a closed loop of slots that never wait, played in numbers: what each
// request takes is drawn, and a window of it is recorded as a run would be.
func loop(slots int, windowNs int64, draw func() int64) *record.Run {
	var response hist.Hist
	var carried, inFlight, warmup int64 = 0, 0, windowNs / 2
	for range slots {
		for at := int64(0); at < warmup+windowNs; {
			begun := at
			at += draw()
			switch {
			case at <= warmup: // over before the window
			case at <= warmup+windowNs:
				response.Record(at - begun)
			default:
				inFlight += warmup + windowNs - max(begun, 0)
			}
			if begun < warmup && at > warmup {
				carried += warmup - begun
			}
		}
	}
	run := closedRun()
	done := response.Count()
	run.Load.Connections, run.Load.Opened, run.Load.Established, run.Spec.Connections = slots, slots, slots, slots
	run.ElapsedS, run.Spec.Duration = float64(windowNs)/1e9, 0
	run.Requests = record.Requests{Sent: done + uint64(slots), InFlightAtStart: uint64(slots), Completed: done, InFlight: uint64(slots)}
	run.Rate = record.Rate{CompletedPerS: float64(done) / run.ElapsedS}
	run.Statuses = map[string]uint64{"200": done}
	q := record.QuantilesOf(&response)
	run.Latency = record.Latency{Response: q, Service: q, ResponseBins: record.BinsOf(&response), ServiceBins: record.BinsOf(&response)}
	run.Edges = &record.Edges{AtStartNs: carried, AtEndNs: inFlight}
	return run
}

// tails are service times, most of them with a heavy tail, in nanoseconds.
func tails(r *rand.Rand) map[string]func() int64 {
	const ms = 1e6
	return map[string]func() int64{
		"constant":  func() int64 { return 10 * ms },
		"1 in 20":   func() int64 { return 10*ms + int64(r.Uint64N(20)/19)*990*ms },
		"lognormal": func() int64 { return int64(3 * ms * math.Exp(2*r.NormFloat64())) },
		"pareto": func() int64 {
			return int64(math.Min(2*ms/math.Pow(1-r.Float64(), 1/1.2), 5e9))
		},
	}
}

// TestLittleHoldsWithTails: no run of a second is invalid for its service times,
// with what was in flight at the edges of the window and without; a tenth of the
// answers counted twice is seen.
func TestLittleHoldsWithTails(t *testing.T) {
	const law = "Little's law"
	r := rand.New(rand.NewPCG(11, 6))
	all := tails(r)
	for _, name := range slices.Sorted(maps.Keys(all)) {
		draw, apart := all[name], 0.0
		for range 40 {
			run := loop(64, 1e9, draw)
			f := newFacts(run, nil)
			if l := f.base.little(); !l.binding || math.Abs(l.inFlight-64) > 0.64 {
				t.Errorf("%s: %+v of 64 slots", name, l)
			}
			apart = math.Max(apart, f.base.little().off)
			if v := Judge(run, nil); strings.Contains(prose.Sentence(v.Because), law) {
				t.Errorf("%s: %s", name, prose.Sentence(v.Because))
			}
			twice := *run
			twice.Rate.CompletedPerS *= 1.1
			if v := Judge(&twice, nil); !strings.Contains(prose.Sentence(v.Because), law) || v.Outcome != record.Invalid {
				t.Errorf("%s, a tenth counted twice: %s: %s", name, v.Outcome, prose.Sentence(v.Because))
			}
			if run.Edges = nil; name == "pareto" {
				continue // of no variance: what was cut off cannot be told from what was not
			}
			if v := Judge(run, nil); strings.Contains(prose.Sentence(v.Because), law) {
				t.Errorf("%s, without edges: %s", name, prose.Sentence(v.Because))
			}
			run.Latency.ResponseBins = nil
			if v := Judge(run, nil); strings.Contains(prose.Sentence(v.Because), law) {
				t.Errorf("%s, quantiles alone: %s", name, prose.Sentence(v.Because))
			}
		}
		if name != "constant" && apart < littleTolerance {
			t.Errorf("%s: the edges weigh %.3f at most: the test does not need them", name, apart)
		}
	}
}
