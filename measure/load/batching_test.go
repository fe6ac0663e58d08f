package load

import (
	"math/rand/v2"
	"testing"
	"time"

	"ceiling/internal/faultserver"
	"ceiling/internal/needs"
	"ceiling/internal/ring"
)

// tried is what a trial of so many blocks decides about a server whose
// throughput gathering multiplies by gain, beside noise of that deviation, on a
// machine that slows down all the time.
func tried(seed uint64, blocks int, gain, noise float64) bool {
	rng := rand.New(rand.NewPCG(seed, 1))
	var t trial
	now, done := int64(1e9), uint64(1000)
	t.begin(now, done)
	for i := range blocks {
		rate := 80_000 * (1 - 0.2*float64(i)/float64(blocks)) * max(0.05, 1+noise*rng.NormFloat64())
		if t.turn() {
			rate *= gain
		}
		now += trialBlockNs + rng.Int64N(1e6)
		done += uint64(rate * float64(now-t.beganNs) / 1e9)
		t.end(now, done)
	}
	return t.won()
}

func TestTrial(t *testing.T) {
	const runs = 400
	for _, k := range []struct {
		name        string
		blocks      int
		gain, noise float64
		least, most int // of 400 that gather
	}{
		{"it costs a tenth", 200, 0.9, 0.2, 0, 0},
		{"it costs a twentieth, quiet", 200, 0.95, 0.05, 0, 0},
		{"no difference", 200, 1, 0.2, 0, 25},
		{"no difference, quiet", 200, 1, 0.01, 0, 25},
		{"it gives a fifth", 200, 1.2, 0.2, 380, runs},
		{"it gives a fifth, for a short time", 4 * (trialFewest - 1), 1.2, 0.01, 0, 0},
	} {
		n := 0
		for seed := range uint64(runs) {
			if tried(seed, k.blocks, k.gain, k.noise) {
				n++
			}
		}
		if n < k.least || n > k.most {
			t.Errorf("%s: %d of %d gather, want %d to %d", k.name, n, runs, k.least, k.most)
		}
	}
}

// TestTrialTakesTurns: either way comes first as often as the other, within
// eight blocks and within two.
func TestTrialTakesTurns(t *testing.T) {
	var k trial
	var order []bool
	for range 16 {
		order = append(order, k.turn())
		k.end(k.beganNs+1, 0)
	}
	for i := 0; i < 16; i += 2 {
		if order[i] == order[i+1] {
			t.Errorf("blocks %d and %d are alike: %v", i, i+1, order)
		}
	}
	place := 0
	for i, on := range order[:8] {
		if on {
			place += i
		}
	}
	if place*2 != 0+1+2+3+4+5+6+7 {
		t.Errorf("gathering comes earlier than the rest, or later: %v", order)
	}
}

// TestGatheringThatCostsEnds: a server that plants no delay answers one
// connection of sixteen at once and the others never, so that a wait for eight
// answers always lasts as long as it may, and the server idles meanwhile. The
// warm-up finds that out, and the window is as fast as without gathering.
func TestGatheringThatCostsEnds(t *testing.T) {
	needs.Quiet(t)
	const hold = 2 * time.Millisecond
	perSecond := func(warmup time.Duration, wait time.Duration) (rate float64, gathered bool) {
		s := serve(t, func(number int) faultserver.Script {
			if number == 0 {
				return faultserver.Script{faultserver.Answer(faultserver.OK("x"))}
			}
			return faultserver.Script{faultserver.Stall()}
		})
		c := config(t, s, ring.Uring, 0)
		c.Connections, c.Threads, c.Warmup, c.Duration, c.gatherFor = 2*gatherFewest, 1, warmup, 300*time.Millisecond, wait
		w := &watcher{onRow: func(k *Tally) { gathered = gathered || !k.Warmup && k.GatherNs > 0 }}
		r := start(t.Context(), t, c, w)
		return float64(r.Total.Completed) / float64(r.WindowNs) * 1e9, gathered
	}
	rate, gathered := perSecond(700*time.Millisecond, hold)
	if gathered {
		t.Error("the window gathers")
	}
	// A response takes at least hold where all wait for eight.
	if most := float64(time.Second / hold); rate < 2*most {
		t.Errorf("%.0f/s, no more than the %.0f/s that gathering leaves", rate, most)
	}
}

// TestDeepLoopGathers: without a warm-up, which could try it, a loop gathers from the
// second interval on where it is deep, for at most its share of a response time, and
// not where it is not.
func TestDeepLoopGathers(t *testing.T) {
	s := serve(t, func(int) faultserver.Script { return faultserver.Script{faultserver.Answer(faultserver.OK("x"))} })
	for _, pipelining := range []int{1, 16} {
		c := config(t, s, ring.Uring, 0)
		c.Connections, c.Threads, c.Pipelining, c.Warmup, c.Duration, c.Interval = 32, 1, pipelining, 0, 300*time.Millisecond, 30*time.Millisecond
		var before time.Duration // the most that the last interval allows
		var gathered, rows int
		w := &watcher{onRow: func(k *Tally) {
			if rows++; k.GatherNs > 0 {
				gathered++
				if time.Duration(k.GatherNs) > before {
					t.Errorf("pipelining %d: waits up to %v, where the interval before allows %v", pipelining, time.Duration(k.GatherNs), before)
				}
			}
			before = time.Duration(k.Response.Mean() / gatherShare)
		}}
		start(t.Context(), t, c, w)
		if deep := pipelining*c.Connections >= deepLoop; deep && gathered < rows/2 || !deep && gathered > 0 {
			t.Errorf("pipelining %d: %d of %d intervals gather", pipelining, gathered, rows)
		}
	}
}
