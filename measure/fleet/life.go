package fleet

import (
	"fmt"
	"time"

	"ceiling/internal/unit"
)

// Phase is an agent's stage in the run it takes part in.
type Phase string

const (
	Idle      Phase = "idle"      // no run
	Preparing Phase = "preparing" // opening its connections
	Ready     Phase = "ready"     // connected, waiting for the start
	Running   Phase = "running"   // from the announcement of the start
	Draining  Phase = "draining"  // the load is over; the driver takes the remaining reports
)

// Limits of the phases. The run's own times are added where they apply.
const (
	// prepareMost is for opening sockets, observers and rings, in addition to the ramp and timeouts
	// of the connections.
	prepareMost = 30 * time.Second
	// readyMost is how long the other agents may take to get ready.
	readyMost = 2 * time.Minute
	// startMost is how far ahead a start may be.
	startMost = time.Minute
	// runSlack is what a run may take beyond its times.
	runSlack = 10 * time.Second
	// drainMost is for the remaining reports to be taken.
	drainMost = time.Minute
)

// life is the phase of a run that an agent takes part in, and its deadline, on the agent's clock. It
// only decides; its owner acts.
type life struct {
	run    string
	phase  Phase
	since  int64 // when the run arrived
	until  int64 // deadline of the phase
	heard  int64 // when the driver was last heard
	halted int64 // when the engine was told to stop; 0: not
	// length of a run by its spec, from the start, including the drain; the agent's cap if a number of
	// requests ends it
	length time.Duration
}

// newLife begins a run. Its connections are established within connect.
func newLife(run string, now int64, connect, length time.Duration) life {
	l := life{run: run, since: now, heard: now, length: length}
	l.enter(Preparing, now, connect+prepareMost)
	return l
}

func (l *life) enter(p Phase, now int64, most time.Duration) {
	l.phase, l.until = p, now+int64(most)
}

// busy is the error of who asks for another run.
func (l *life) busy(now int64) error {
	return fmt.Errorf("it is busy with run %s since %s (%s)", l.run, unit.FormatDuration(time.Duration(now-l.since).Round(time.Second)), l.phase)
}

// connected: the first connect attempts have ended.
func (l *life) connected(now int64) {
	if l.phase == Preparing {
		l.enter(Ready, now, readyMost)
	}
}

// start sets the time of the start, which must be in the future: an agent that begins late would
// lag behind the others.
func (l *life) start(now, at int64) error {
	switch {
	case l.phase != Ready:
		return fmt.Errorf("it is %s, and cannot be started", l.phase)
	case at <= now:
		return fmt.Errorf("the start was %s ago when it came", time.Duration(now-at))
	case at-now > int64(startMost):
		return fmt.Errorf("the start is %s ahead; at most %s", time.Duration(at-now), startMost)
	}
	l.enter(Running, at, l.length+runSlack)
	return nil
}

// loaded: the work has ended, in success or failure.
func (l *life) loaded(now int64) { l.enter(Draining, now, drainMost) }

// overdue returns why the run must be given up; "" if it may continue. grace is without hearing from the
// driver.
func (l *life) overdue(now int64, grace time.Duration) string {
	switch {
	case now-l.heard > int64(grace):
		return fmt.Sprintf("no word of the driver for %s", time.Duration(now-l.heard).Round(time.Millisecond))
	case now <= l.until:
		return ""
	}
	return fmt.Sprintf("it was %s for longer than is allowed", l.phase)
}

// disobeyed reports whether the engine goes on long after it was told to stop.
func (l *life) disobeyed(now int64) bool {
	return l.halted > 0 && l.phase != Draining && now-l.halted > int64(obeyWithin)
}
