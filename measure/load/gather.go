package load

import (
	"math"
	"time"

	"ceiling/internal/ring"
)

const (
	// gatherMax is how long a saturated closed loop waits for further completions
	// at most, gatherShare the part of the mean response time that this may be, and
	// gatherCount how many it waits for.
	gatherMax   = 50 * time.Microsecond
	gatherShare = 16
	gatherMin   = 5 * time.Microsecond
	gatherCount = 8

	// trialBlockNs is how long each half of a comparison lasts: many response
	// times of a server for which gathering matters at all.
	trialBlockNs = 4e6
	// trialFewest comparisons decide. Gathering has to win so many more than it
	// loses that it is trialSure standard deviations (√n) beyond chance: where it
	// makes no difference, in one trial of forty.
	trialFewest = 12
	trialSure   = 2
)

// gathering is whether a worker waits for several completions at a time. That
// saves both ends wake-ups, and holds responses back: which of the two weighs more
// depends on server and machine. So the warm-up tries both in turns, and the
// window gathers where that was faster.
type gathering struct {
	on  bool
	may time.Duration // longest wait; 0: there is nothing to gather
	trial
}

// patienceFor adds the wait for further completions to one for the first.
func (g *gathering) patienceFor(p ring.Patience) ring.Patience {
	if g.on && g.may > 0 {
		p.Gather, p.GatherFor = gatherCount, g.may
	}
	return p
}

// tune finds how long gathering may take: only in a closed loop with enough
// requests in flight, and only a small part of what a request takes anyway. An
// open loop never gathers.
func (w *worker) tune() {
	w.gathering.may = 0
	if w.openLoop || w.streams.subscribes() || !w.ring.CanGather() || len(w.conns) < 2*gatherCount {
		return
	}
	wait := w.gatherFor
	if wait == 0 {
		wait = min(gatherMax, time.Duration(w.tally.Response.Mean()/gatherShare))
	}
	if wait < gatherMin {
		return
	}
	w.gathering.may = wait
	if w.phase == warming && w.gathering.untilNs == maxTime {
		w.gathering.begin(w.now, w.completed())
		w.gathering.on = w.gathering.turn()
	}
}

// tryOther ends a block of the trial.
func (w *worker) tryOther() {
	w.gathering.end(w.now, w.completed())
	w.gathering.on = w.gathering.turn()
}

// choose ends the trial where the warm-up does.
func (w *worker) choose() {
	w.gathering.untilNs = maxTime
	w.gathering.on = w.gathering.won()
}

// completed since the worker began.
func (w *worker) completed() uint64 { return w.handedOver + w.tally.Completed }

// trial compares throughput with gathering and without, in blocks that take
// turns: on, off, off, on, the next four the other way round, so that neither a
// trend nor a period takes a side.
type trial struct {
	untilNs     int64 // of the block at hand; maxTime: there is none
	beganNs     int64
	completed   uint64 // when it began
	block       int
	rates       [2]float64 // of the comparison at hand, without gathering and with
	wins, loses int
}

// turn tells whether the block at hand gathers.
func (t *trial) turn() bool {
	place := t.block % 8
	return place == 0 || place == 3 || place == 5 || place == 6
}

func (t *trial) begin(now int64, completed uint64) {
	t.beganNs, t.untilNs, t.completed = now, now+trialBlockNs, completed
}

// end of a block, and the beginning of the next one.
func (t *trial) end(now int64, completed uint64) {
	rate := float64(completed-t.completed) / float64(now-t.beganNs)
	if t.turn() {
		t.rates[1] += rate
	} else {
		t.rates[0] += rate
	}
	if t.block++; t.block%4 == 0 {
		switch {
		case t.rates[1] > t.rates[0]:
			t.wins++
		case t.rates[1] < t.rates[0]:
			t.loses++
		}
		t.rates = [2]float64{}
	}
	t.begin(now, completed)
}

// won tells whether gathering was faster, beyond chance.
func (t *trial) won() bool {
	n := t.wins + t.loses
	return n >= trialFewest && float64(t.wins-t.loses) >= trialSure*math.Sqrt(float64(n))
}
