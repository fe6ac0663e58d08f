package load

import (
	"ceiling/internal/hist"
)

// Unloaded has the requests sent one at a time before a closed loop begins: a single one in flight in
// the whole run, so that none queues behind another. By Little's law the rate of the loop times the
// service time of an unloaded request is how many requests the server works on at once; all others of
// the loop wait.
//
// They are the requests of the mix in its order, over a few connections in turn, or with
// NewConnections each on a new connection. Of all they do only their faults count in the run's
// figures, in Result.Setup.
type Unloaded struct {
	// ServiceNs of each one answered, in the order sent: number k went over connection k modulo
	// Connections.
	ServiceNs []int64
	// RestNs of each of these, from the arrival of its first bytes to that of its last.
	RestNs []int64
	// Connections they were spread over: 1 with NewConnections.
	Connections int
	// Failed ended without an answer: 0, or 1, which was the last. Bad got a status of 400 or more.
	Failed, Bad int
	// ElapsedNs from the start of the first to the end of the last.
	ElapsedNs int64
}

const (
	// unloadedMax requests give a median within 4 % of its rank: more would only warm up what the load
	// should find unchanged.
	unloadedMax = 200
	// unloadedMin is how many a slow server gets, within unloadedPatience times Config.Lone. The worker
	// always waits for one that was sent.
	unloadedMin      = 6
	unloadedPatience = 3
	// loneConnections are enough to spot a process or thread that is slower than the others, and
	// leave enough requests for each.
	loneConnections = 4
)

// alone is a worker's state while it sends unloaded requests.
type alone struct {
	Unloaded
	setup   *Tally // the counts before
	over    []uint32
	busy    bool
	on      uint32 // the connection of the current one
	begunNs int64
	firstNs int64  // when the current one's first bytes arrived; 0: not yet
	sumNs   uint64 // sum of the service times
}

// idle reports whether the connections are idle for a reason of this side: a server may close one
// then without fault.
func (w *worker) idle() bool {
	return w.phase < starting && w.shared.Start != nil || w.shared.Unloaded > 0 && (w.phase == probing || w.phase == waiting)
}

// beAlone begins the unloaded requests if this worker sends them. The last worker does: in a ramp the
// last connections are its own.
func (w *worker) beAlone() {
	a := &alone{setup: w.tally, begunNs: w.now}
	most := loneConnections
	if w.shared.NewConnections == 1 {
		most = 1
	}
	for i := 0; i < len(w.conns) && len(a.over) < most; i++ {
		if w.conns[i].state == open {
			a.over = append(a.over, uint32(i))
		}
	}
	if w.openLoop || w.shared.Unloaded == 0 || w.shared.Share.First > 0 || w.id != w.shared.Threads-1 || len(a.over) == 0 {
		w.ready()
		return
	}
	a.Connections = len(a.over)
	w.alone, w.phase = a, probing
	w.tally = newTally(len(w.shared.Mix))
	w.tally.Warmup = true
}

// stayAlone sends the next unloaded request, or ends them.
func (w *worker) stayAlone() {
	a := w.alone
	past := w.now - a.begunNs
	enough := past >= int64(w.shared.Unloaded) && len(a.ServiceNs) >= unloadedMin || past >= unloadedPatience*int64(w.shared.Unloaded) ||
		len(a.ServiceNs) >= unloadedMax ||
		a.Failed > 0
	switch {
	case a.busy && enough && w.conns[a.on].onWire == 0 && (w.conns[a.on].resend == 0 || past >= 2*unloadedPatience*int64(w.shared.Unloaded)):
		w.withdraw(a.on) // about to be resent
		w.endAlone()
	case a.busy:
	case enough:
		w.endAlone()
	default:
		a.on = a.over[len(a.ServiceNs)%len(a.over)]
		a.busy, a.firstNs = true, 0
		w.enqueue(a.on, &w.conns[a.on], w.now, 1)
		w.transmit(a.on, &w.conns[a.on])
	}
}

// withdraw takes back an unloaded request whose connection could not be reopened.
func (w *worker) withdraw(i uint32) {
	c := &w.conns[i]
	if c.resend > 0 {
		w.fail(i, c, PhaseResponse, causeClosed, causeClosed)
		return
	}
	c.waiting, c.entries, c.head = 0, 0, 0
	c.next = c.oldest
}

// arrivedAlone notes when the current unloaded request's response begins to arrive: what is left of it
// may wait for an acknowledgement.
func (w *worker) arrivedAlone(i uint32) {
	if a := w.alone; a.busy && i == a.on && a.firstNs == 0 {
		a.firstNs = w.now
	}
}

// answeredAlone handles the end of an unloaded request, and sends the next one in the same turn.
func (w *worker) answeredAlone(i uint32) {
	a, t := w.alone, w.tally
	if !a.busy || i != a.on {
		return
	}
	a.busy = false
	a.ElapsedNs = w.now - a.begunNs
	if t.Failed > 0 {
		a.Failed++
		return
	}
	sum := t.Service.Sum()
	a.ServiceNs = append(a.ServiceNs, int64(sum-a.sumNs))
	a.RestNs = append(a.RestNs, w.now-a.firstNs)
	a.sumNs, a.Bad = sum, int(t.Bad)
	w.stayAlone()
}

// endAlone restores the worker as it was: it keeps only the faults.
func (w *worker) endAlone() {
	w.forgetAlone()
	w.ready()
}

func (w *worker) forgetAlone() {
	a := w.alone
	w.countLag(0, 0)
	for f, n := range w.tally.Faults {
		a.setup.Faults[f] += n
	}
	w.tally, a.setup = a.setup, nil
	w.firstNs = 0
}

// report returns the unloaded requests; nil if there were none.
func (a *alone) report() *Unloaded {
	if a == nil {
		return nil
	}
	return &a.Unloaded
}

// firsts has the times of a closed loop's first responses, by connection. All slots begin at once:
// requests answered within the service time of one were worked on in parallel.
type firsts struct {
	after   hist.Hist
	had     []bool
	left    int
	startNs int64
}

// awaitFirsts begins to record them, if they allow a conclusion.
func (w *worker) awaitFirsts() *firsts {
	if w.shared.Unloaded == 0 || w.phase != starting {
		w.phase = max(w.phase, warming)
		return nil
	}
	return &firsts{had: make([]bool, len(w.conns)), left: len(w.conns), startNs: w.firstDueNs}
}

// answeredFirst counts a connection's first response.
func (w *worker) answeredFirst(i uint32) {
	f := w.first
	if f == nil || f.had[i] {
		return
	}
	f.had[i] = true
	f.after.Record(w.now - f.startNs)
	if f.left--; f.left == 0 {
		w.phase = warming
	}
}

func (f *firsts) report() *hist.Hist {
	if f == nil {
		return nil
	}
	return &f.after
}
