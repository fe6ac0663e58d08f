package load

import (
	"sort"
)

// warmSchedule runs the warm-up at the window's initial rate.
func (w *worker) warmSchedule(start int64) {
	s := w.shared.schedule
	s.to, s.steps, s.times, s.seed = s.from, nil, nil, s.seed+1
	w.arrivals = s.arrivals(uint64(w.id), uint64(w.shared.Threads))
	w.originNs = start
	w.advance()
	w.firstDueNs = w.nextDue
}

// mainSchedule begins the window's schedule, whose request 0 is due when it opens. The backlog of
// the warm-up is dropped.
func (w *worker) mainSchedule() {
	s := w.shared.schedule
	w.arrivals = s.arrivals(uint64(w.id), uint64(w.shared.Threads))
	w.originNs = w.windowNs
	w.advance()
	if w.firstNs == 0 {
		w.firstDueNs = w.nextDue
	}
}

// advance computes when the next arrival is due; maxTime after the last.
func (w *worker) advance() {
	due := w.arrivals.due()
	length := int64(w.shared.Warmup)
	if w.phase >= measuring {
		length = w.lengthNs()
	}
	if due >= length || w.phase >= measuring && w.shared.Requests > 0 && w.arrivals.number >= w.shared.Requests {
		w.nextDue = maxTime
		return
	}
	w.nextDue = w.originNs + due
}

// release sends every request that is due and finds a free slot. While no connection is up there is
// none: the requests stay due, leave late or never, and are counted as such.
func (w *worker) release() {
	for w.nextDue <= w.now && w.slots.count > 0 {
		i := w.slots.pop()
		c := &w.conns[i]
		if c.state != open {
			c.parked++
			continue
		}
		w.enqueue(i, c, w.nextDue, 1)
		w.transmit(i, c)
		w.arrivals.next()
		w.advance()
	}
}

// maxWalk bounds the walk over a Poisson schedule: half a second.
const maxWalk = 50_000_000

// behind counts the backlog: requests due by now that have not left.
func (w *worker) behind() uint64 {
	if !w.openLoop || w.nextDue > w.now {
		return 0
	}
	limit := min(w.now-w.originNs, w.lengthNs()-1)
	left := uint64(maxTime)
	if w.shared.Requests > 0 {
		left = w.arrivals.before(w.shared.Requests)
	}
	if !w.shared.schedule.poisson {
		return uint64(sort.Search(int(min(left, 1<<40)), func(k int) bool {
			rest := w.arrivals.after(uint64(k))
			return rest.due() > limit
		}))
	}
	// A Poisson schedule has to be walked. Beyond maxWalk the rest counts at its mean rate, good to
	// 1/√maxWalk.
	rest, n := w.arrivals, uint64(0)
	for ; rest.due() <= limit && n < left; n++ {
		if n == maxWalk {
			passed := rest.due() - (w.nextDue - w.originNs)
			return min(left, uint64(float64(n)*float64(limit-(w.nextDue-w.originNs))/float64(passed)))
		}
		rest.next()
	}
	return n
}

// asked counts the requests that this worker should have sent by now, and those of them that never
// left.
func (w *worker) asked() (asked, unsent uint64) {
	switch {
	case w.openLoop:
		behind := w.behind()
		return w.arrivals.passed(uint64(w.id)) + behind, behind + w.held()
	case w.quota >= 0:
		return uint64(w.granted), uint64(w.quota) + w.held()
	}
	return 0, 0
}

// held counts the requests assigned to a connection that have not left, because it is down or its
// socket buffer full.
func (w *worker) held() (n uint64) {
	for i := range w.conns {
		n += uint64(w.conns[i].waiting - w.conns[i].resend)
	}
	return n
}

// slotQueue holds the connections with a free slot of an open loop, first in first out, so that
// each is used in turn. Its capacity is the fixed number of slots.
type slotQueue struct {
	of          []uint32
	head, count int
}

func (q *slotQueue) push(i uint32) {
	at := q.head + q.count
	if at >= len(q.of) {
		at -= len(q.of)
	}
	q.of[at] = i
	q.count++
}

func (q *slotQueue) pop() uint32 {
	i := q.of[q.head]
	if q.head++; q.head == len(q.of) {
		q.head = 0
	}
	q.count--
	return i
}
