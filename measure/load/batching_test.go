//go:build linux

package load

import (
	"math/rand/v2"
	"testing"
	"time"

	"ceiling/internal/faultserver"
	"ceiling/internal/needs"
	"ceiling/internal/ring"
)

// tried is what a trial decides about a server whose throughput gathering multiplies by gain, beside
// noise of that deviation, on a machine that slows down all the time, and after how many blocks.
func tried(seed uint64, gain, noise float64, deep bool) (gather bool, blocks int) {
	rng := rand.New(rand.NewPCG(seed, 1))
	var t trial
	now, done := int64(1e9), uint64(1000)
	t.begin(now, done)
	for i := 0; ; i++ {
		rate := 80_000 * (1 - 0.2*float64(i)/(4*trialMost)) * max(0.05, 1+noise*rng.NormFloat64())
		if t.turn() {
			rate *= gain
		}
		now += trialBlockNs + rng.Int64N(1e6)
		done += uint64(rate * float64(now-t.beganNs) / 1e9)
		t.end(now, done)
		if over, gather := t.over(deep); over {
			return gather, t.block
		}
	}
}

func TestTrial(t *testing.T) {
	const runs = 400
	for _, k := range []struct {
		name         string
		gain, noise  float64
		deep         bool
		least, most  int // of 400 that gather
		blocksInMean int // at most
	}{
		{"it costs a tenth", 0.9, 0.2, false, 0, 8, 100},
		{"it costs a tenth, deep", 0.9, 0.2, true, 0, 60, 100},
		{"no difference", 1, 0.2, false, 0, 60, 4 * trialMost},
		{"no difference, deep", 1, 0.2, true, 300, runs, 4 * trialMost},
		{"it gives a fifth", 1.2, 0.2, false, 380, runs, 60},
		{"it gives a fifth, quiet", 1.2, 0.01, false, runs, runs, 4 * trialFewest},
	} {
		n, blocks := 0, 0
		for seed := range uint64(runs) {
			gather, took := tried(seed, k.gain, k.noise, k.deep)
			if blocks += took; gather {
				n++
			}
		}
		if n < k.least || n > k.most || blocks > runs*k.blocksInMean {
			t.Errorf("%s: %d of %d gather, want %d to %d; after %d blocks in the mean, want at most %d", k.name, n, runs, k.least, k.most, blocks/runs,
				k.blocksInMean)
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

// TestGatheringIsNoted: an interval in which a block gathered says so, also if the next block, in which
// the interval ends, does not.
func TestGatheringIsNoted(t *testing.T) {
	g := gathering{on: true, may: 7 * time.Microsecond}
	tally := newTally(1)
	g.note(tally)
	g.on = false
	g.note(tally)
	if tally.GatherNs != 7000 {
		t.Errorf("GatherNs is %d, want 7000", tally.GatherNs)
	}
}

// TestTrialInTheWindow: without a warm-up the trial takes the beginning of the window, with waits of at
// most their share of a response time.
func TestTrialInTheWindow(t *testing.T) {
	needs.Engine(t)
	s := serve(t, func(int) faultserver.Script { return faultserver.Script{faultserver.Answer(faultserver.OK("x"))} })
	c := config(t, s, ring.Uring, 0)
	c.Connections, c.Threads, c.Pipelining, c.Warmup, c.Duration, c.Interval = 32, 1, 16, 0, 600*time.Millisecond, 10*time.Millisecond
	var before time.Duration // the most that the last interval allows
	var gathered, rows int
	w := &watcher{onRow: func(k *Tally) {
		if rows++; k.GatherNs > 0 {
			gathered++
			if time.Duration(k.GatherNs) > before {
				t.Errorf("waits up to %v, where the interval before allows %v", time.Duration(k.GatherNs), before)
			}
		}
		before = time.Duration(k.Response.Mean() / deepShare) // 512 in flight
	}}
	start(t.Context(), t, c, w)
	if gathered == 0 {
		t.Errorf("none of %d intervals gathers", rows)
	}
}

// TestDeepLoopSendsTogether: while a deep loop gathers, a connection's requests wait for its last
// response. A loop that does not gather, or may not, sends them as slots become free.
func TestDeepLoopSendsTogether(t *testing.T) {
	for name, k := range map[string]struct {
		gathering
		onWire int32
		sends  bool
	}{
		"responses to come":  {gathering{on: true, deep: true}, 1, false},
		"the last is in":     {gathering{on: true, deep: true}, 0, true},
		"it does not gather": {gathering{deep: true}, 1, true},
		"not deep":           {gathering{on: true}, 1, true},
	} {
		w := &worker{pipelining: 4, gathering: k.gathering}
		w.transmit(0, &conn{onWire: k.onWire, waiting: 3})
		if sends := len(w.eager) == 1; sends != k.sends {
			t.Errorf("%s: it sends: %v", name, sends)
		}
	}
	onThread(t, func(t *testing.T, w *worker, _ *conn) {
		w.pipelining = deepLoop
		for _, wait := range []time.Duration{gatherMin, gatherMin - 1} {
			w.shared.gatherFor = wait
			may := wait >= gatherMin && w.ring.CanGather()
			if w.tune(); w.gathering.deep != may || (w.gathering.may > 0) != may {
				t.Errorf("%s with waits of %v: deep %v, waits up to %v", w.ring.Engine(), wait, w.gathering.deep, w.gathering.may)
			}
		}
	})
}

// Each response waits for the batch it came with: of one batch of 1 µs with a response and one of
// 63 µs with 63, the mean over the batches is 32 µs and over the responses 62.
func TestBatchOfEachResponse(t *testing.T) {
	var y Tally
	before := y.Completed
	y.Completed++
	y.batch(1_000, before)
	before = y.Completed
	y.Completed += 63
	y.batch(63_000, before)
	y.Completed = 10 // another tally than at its beginning
	y.batch(5_000, 64)
	if y.Batches != 3 || y.BatchNs != 69_000 || y.BatchMaxNs != 63_000 || y.HandledNs != 1_000+63*63_000 {
		t.Errorf("%+v", y.Batching)
	}
	var sum Tally
	sum.add(&y)
	if sum.HandledNs != y.HandledNs {
		t.Errorf("the sum has %d", sum.HandledNs)
	}
	y.clear()
	if y.HandledNs != 0 {
		t.Error("a cleared tally has handled responses")
	}
}
