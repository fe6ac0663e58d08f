package load

import (
	"encoding/binary"

	"ceiling/internal/hist"
)

// Waiting has the requests of the window that had no response at its end (in an open loop, at the
// end of the drain), by how long they had waited: their times are at least that. Without them a
// server that hangs until the end looks as fast as it was before.
type Waiting struct {
	// Response counts from when a request was due, and has those that never left; Service counts from
	// when it left.
	Response, Service hist.Hist
	// FirstByte has those of Service whose response has not begun, FirstEvent those that have had no
	// server-sent event.
	FirstByte, FirstEvent hist.Hist
	// Targets has the requests of Response that belong to one, if the run has several.
	Targets []TargetWaiting
}

// TargetWaiting is requests of one target that had waited for the same time.
type TargetWaiting struct {
	Target int
	Ns     int64
	Count  uint64
}

// outstanding is a request without a response; its times are on the run's clock.
type outstanding struct {
	target       int
	due, sent    int64 // sent 0: not yet
	begun, spoke bool  // the response has begun, or had an event
}

// unansweredAtEnd collects the requests without a response at the end.
func (w *worker) unansweredAtEnd() *Waiting {
	until := w.lastNs
	if w.phase == draining && w.openLoop {
		until = max(w.now, w.lastNs) // its drain is longer than the counted time if nothing arrives in it
	}
	all := w.left
	w.unanswered(func(r outstanding) {
		if r.due < w.countFromNs || r.due > until {
			return // nor would its latency count
		}
		all.Response.Record(until - r.due)
		if r.sent > 0 {
			all.Service.Record(until - r.sent)
			if !r.begun {
				all.FirstByte.Record(until - r.sent)
			}
			if !r.spoke {
				all.FirstEvent.Record(until - r.sent)
			}
		}
		if w.tally.ByTarget != nil {
			all.Targets = append(all.Targets, TargetWaiting{r.target, until - r.due, 1})
		}
	})
	w.addBehind(until)
	return all
}

// unanswered calls f with each request that a connection has and that has no response. One to be
// sent again has been on its way since it was due, as in fail.
func (w *worker) unanswered(f func(outstanding)) {
	for i := range w.conns {
		c, q := &w.conns[i], w.queue(uint32(i))
		at, again := c.oldest, []uint32(nil)
		if c.speaks == HTTP2 {
			h := &w.h2.conns[i]
			at, again = c.next, h.again
			w.onStreams(h, f)
		}
		begun := c.speaks != HTTP2 && c.arriving != nil && c.arriving.firstNs > 0 // the oldest's
		for k := range c.entries {
			one := &q[wrap(c.head+k, len(q))]
			r := outstanding{due: one.due, sent: one.sent}
			if one.again && r.sent == 0 {
				r.sent = one.due
			}
			r.begun, r.spoke, begun = begun, begun && c.arriving.count > 0, false
			for range one.n {
				if one.again && len(again) > 0 {
					r.target, again = int(w.shared.script.target[again[0]]), again[1:]
				} else {
					r.target, at = int(w.feeder.targetAt(w.shared.script, uint32(i), at)), w.shared.script.step(at, 1)
				}
				f(r)
				r.begun, r.spoke = false, false
			}
		}
	}
}

// onStreams calls f with each request on the wire of an HTTP/2 connection.
func (w *worker) onStreams(h *h2conn, f func(outstanding)) {
	for k := range h.table {
		if s := &h.table[k]; s.id != 0 {
			f(outstanding{int(w.shared.script.target[s.at]), s.due, s.sent, s.first > 0, s.events != nil && s.events.count > 0})
		}
	}
}

// behindSteps bounds the walk over the backlog: of a longer one, several requests in a row count
// with the time of the last.
const behindSteps = 1 << 20

// addBehind adds the backlog: requests due by now that no connection has.
func (w *worker) addBehind(until int64) {
	left := w.behind()
	step, rest := left/behindSteps+1, w.arrivals
	for left > 0 {
		n := min(step, left)
		rest = rest.after(n - 1)
		w.left.Response.RecordN(until-w.originNs-rest.due(), n)
		rest = rest.after(1)
		left -= n
	}
}

// waited returns how long the requests of a closed loop's slots have waited for their responses at
// atNs, in sum.
func (w *worker) waited(atNs int64) (sumNs int64) {
	w.unanswered(func(r outstanding) { sumNs += atNs - r.due })
	return sumNs
}

// add adds another worker's.
func (all *Waiting) add(one *Waiting) {
	all.Response.Merge(&one.Response)
	all.Service.Merge(&one.Service)
	all.FirstByte.Merge(&one.FirstByte)
	all.FirstEvent.Merge(&one.FirstEvent)
	all.Targets = append(all.Targets[:len(all.Targets):len(all.Targets)], one.Targets...)
}

// append adds the requests, or that they are unknown, to the binary form of a result.
func (all *Waiting) append(b []byte) []byte {
	if all == nil {
		return append(b, 0)
	}
	b = sized(sized(append(b, 1), all.Response.AppendBinary), all.Service.AppendBinary)
	b = sized(sized(b, all.FirstByte.AppendBinary), all.FirstEvent.AppendBinary)
	b = binary.AppendUvarint(b, uint64(len(all.Targets)))
	for _, t := range all.Targets {
		for _, n := range []uint64{uint64(t.Target), uint64(t.Ns), t.Count} {
			b = binary.AppendUvarint(b, n)
		}
	}
	return b
}

// readWaiting reads what append wrote, of a run with so many targets.
func (r *reader) readWaiting(targets int) *Waiting {
	if !r.bool() {
		return nil
	}
	all := &Waiting{}
	r.sized(all.Response.UnmarshalBinary)
	r.sized(all.Service.UnmarshalBinary)
	r.sized(all.FirstByte.UnmarshalBinary)
	r.sized(all.FirstEvent.UnmarshalBinary)
	for left := r.uint(); left > 0 && r.err == nil; left-- {
		one := TargetWaiting{r.number(), r.time(), r.uint()}
		r.refuse(one.Target >= targets)
		all.Targets = append(all.Targets, one)
	}
	if r.err != nil {
		return nil
	}
	return all
}
