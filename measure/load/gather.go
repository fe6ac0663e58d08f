package load

import (
	"math"
	"time"

	"ceiling/internal/ring"
)

const (
	// gatherShare is the part of the mean response time that a wait for further
	// completions may take. By Little's law it is at most what the wait takes of a
	// closed loop's throughput, too, where nothing is gained by it: 3%.
	gatherShare = 32
	gatherMin   = 5 * time.Microsecond
	// gatherPart is the part of the requests in flight whose completion is waited
	// for, gatherFewest how many at least.
	gatherPart   = 16
	gatherFewest = 8
	// deepLoop requests in flight, several on a connection, keep a server busy while
	// some are gathered: such a loop gathers unless the warm-up shows that it loses
	// by it, any other only if it gains.
	deepLoop = 512

	// trialBlockNs is how long each half of a comparison lasts: many response
	// times of a server for which gathering matters to a loop that is not deep.
	trialBlockNs = 4e6
	// trialFewest comparisons decide. Gathering has to win so many more than it
	// loses, or the other way round, that it is trialSure standard deviations (√n)
	// beyond chance: where it makes no difference, in one trial of forty.
	trialFewest = 12
	trialSure   = 2
)

// gathering is whether a worker waits for several completions at a time. That
// saves both ends wake-ups, and holds responses back: which of the two weighs
// more depends on server, machine, and how many requests are in flight. So the
// warm-up tries both in turns.
type gathering struct {
	on    bool
	deep  bool
	may   time.Duration // longest wait; 0: there is nothing to gather
	count int           // completions to wait for
	trial
}

// patienceFor adds the wait for further completions to one for the first.
func (g *gathering) patienceFor(p ring.Patience) ring.Patience {
	if g.on && g.may > 0 {
		p.Gather, p.GatherFor = g.count, g.may
	}
	return p
}

// tune finds how long gathering may take: only in a closed loop with enough
// requests in flight, and only a small part of what a request takes anyway. An
// open loop never gathers.
func (w *worker) tune() {
	g, inFlight := &w.gathering, len(w.conns)*w.pipelining
	g.may = 0
	if w.openLoop || w.streams.subscribes() || !w.ring.CanGather() || inFlight < 2*gatherFewest {
		return
	}
	wait := w.gatherFor
	if wait == 0 {
		wait = time.Duration(w.tally.Response.Mean() / gatherShare)
	}
	if wait < gatherMin {
		return
	}
	g.may, g.count, g.deep = wait, max(inFlight/gatherPart, gatherFewest), w.pipelining > 1 && inFlight >= deepLoop
	switch {
	case w.phase == measuring && g.block == 0:
		g.on = g.deep // there was no warm-up, or it was too short for a trial
	case w.phase == warming && g.untilNs == maxTime:
		g.begin(w.now, w.completed())
		g.on = g.turn()
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
	w.gathering.on = w.gathering.won() || w.gathering.deep && !w.gathering.lost()
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
func (t *trial) won() bool { return t.clear(t.wins - t.loses) }

// lost tells whether it was slower, beyond chance.
func (t *trial) lost() bool { return t.clear(t.loses - t.wins) }

func (t *trial) clear(lead int) bool {
	n := t.wins + t.loses
	return n >= trialFewest && float64(lead) >= trialSure*math.Sqrt(float64(n))
}
