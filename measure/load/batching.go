package load

import (
	"math"
	"time"

	"ceiling/internal/ring"
)

const (
	// gatherShare bounds the wait for further completions to 1/gatherShare of the mean response
	// time. By Little's law that is also the most throughput a closed loop can lose if waiting
	// gains nothing: 3%.
	gatherShare = 32
	// deepShare is gatherShare of a deep loop: most of its requests are at the server while some wait.
	deepShare = 8
	gatherMin = 5 * time.Microsecond
	// gatherPart: a wait is for 1/gatherPart of the requests in flight, but at least gatherFewest
	// completions.
	gatherPart   = 16
	gatherFewest = 8
	// deepLoop requests in flight, several per connection, keep a server busy while some completions
	// are batched: such a loop gathers unless the trial shows a loss, any other only if it shows a gain.
	deepLoop = 512

	// trialBlockNs is how long each quarter of a comparison lasts: many response times of a server for
	// which gathering matters.
	trialBlockNs = 4e6
	// A trial ends when, of at least trialFewest comparisons, the wins exceed the losses, or the
	// reverse, by more than trialSure standard deviations (√n), or after trialMost, 0.8 s.
	trialFewest = 12
	trialMost   = 48
	trialSure   = 2
)

// gathering is whether a worker waits for several completions at a time. That saves both ends
// wake-ups but delays responses: the balance depends on the server, the machine and the number of
// requests in flight. So the load begins by alternating between the two.
type gathering struct {
	on      bool
	may     time.Duration // longest wait; 0: nothing to gather
	count   int           // completions to wait for
	deep    bool          // it may gather, with many requests in flight on each connection
	decided bool          // the trial has ended
	trial
}

// patienceFor adds the wait for further completions to one for the first.
func (g *gathering) patienceFor(p ring.Patience) ring.Patience {
	if g.on && g.may > 0 {
		p.Gather, p.GatherFor = g.count, g.may
	}
	return p
}

// tune sets how long gathering may take: only in a closed loop with enough requests in flight, and
// only a small part of a request's time. An open loop never gathers.
func (w *worker) tune() {
	g, inFlight := &w.gathering, len(w.conns)*w.pipelining
	g.may, g.deep = 0, false
	if w.openLoop || !w.ring.CanGather() || inFlight < 2*gatherFewest {
		return
	}
	wait, deep, share := w.shared.gatherFor, w.pipelining > 1 && inFlight >= deepLoop, float64(gatherShare)
	if deep {
		share = deepShare
	}
	if wait == 0 {
		wait = time.Duration(w.tally.Response.Mean() / share)
	}
	if wait < gatherMin {
		return
	}
	g.may, g.count, g.deep = wait, max(inFlight/gatherPart, gatherFewest), deep
	if !g.decided && g.untilNs == maxTime && w.phase >= warming && w.phase < draining {
		g.begin(w.now, w.completed())
		g.on = g.turn()
	}
}

// tryOther ends a block of the trial, and the trial once it is clear.
func (w *worker) tryOther() {
	g := &w.gathering
	g.note(w.tally)
	g.end(w.now, w.completed())
	if g.decided, g.on = g.over(g.deep); g.decided {
		g.untilNs = maxTime
		return
	}
	g.on = g.turn()
}

// note records in a tally that its interval had waits for further completions.
func (g *gathering) note(t *Tally) {
	if g.on {
		t.GatherNs = max(t.GatherNs, int64(g.may))
	}
}

// completed returns the number of requests completed since the worker began.
func (w *worker) completed() uint64 { return w.handedOver + w.tally.Completed }

// trial compares throughput with and without gathering in alternating blocks: on, off, off, on,
// then the next four inverted, so that neither a trend nor a period biases it.
type trial struct {
	untilNs     int64 // end of the current block; maxTime: none
	beganNs     int64
	completed   uint64 // when it began
	block       int
	rates       [2]float64 // of the current comparison, without gathering and with
	wins, loses int
}

// turn reports whether the current block gathers.
func (t *trial) turn() bool {
	place := t.block % 8
	return place == 0 || place == 3 || place == 5 || place == 6
}

func (t *trial) begin(now int64, completed uint64) {
	t.beganNs, t.untilNs, t.completed = now, now+trialBlockNs, completed
}

// end ends a block and begins the next one.
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

// over reports whether the trial has ended, and whether gathering goes on: if it was faster beyond
// chance, and in a deep loop also if it was not clearly slower.
func (t *trial) over(deep bool) (over, gather bool) {
	n, lead := t.wins+t.loses, float64(t.wins-t.loses)
	if n < trialFewest || t.block%4 != 0 {
		return false, false
	}
	deviation := math.Sqrt(float64(n))
	sure := math.Abs(lead) >= trialSure*deviation
	return sure || n >= trialMost, sure && lead > 0 || deep && lead > -deviation
}
