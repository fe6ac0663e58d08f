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

// life is an agent's phase and its deadline, on the agent's clock. It only decides; its owner acts.
type life struct {
	grace time.Duration // without hearing from the driver

	phase Phase
	run   string
	since int64 // when the run arrived
	until int64 // deadline of the phase
	heard int64 // when the driver was last heard
	// length of a run by its spec, from the start, including the drain; the agent's cap if a number of
	// requests ends it
	length time.Duration
}

func newLife(grace time.Duration) life { return life{grace: grace, phase: Idle} }

func (l *life) enter(p Phase, now int64, most time.Duration) {
	l.phase, l.until = p, now+int64(most)
}

// busy returns an error while it takes part in a run.
func (l *life) busy(now int64) error {
	if l.phase == Idle {
		return nil
	}
	return fmt.Errorf("it is busy with run %s since %s (%s)", l.run, unit.FormatDuration(time.Duration(now-l.since).Round(time.Second)), l.phase)
}

// prepare begins a run, or returns why not. Its connections are established within connect.
func (l *life) prepare(run string, now int64, connect, length time.Duration) error {
	if err := l.busy(now); err != nil {
		return err
	}
	l.run, l.since, l.heard, l.length = run, now, now, length
	l.enter(Preparing, now, connect+prepareMost)
	return nil
}

// of returns an error unless the agent takes part in the run.
func (l *life) of(run string) error {
	switch {
	case l.phase == Idle:
		return fmt.Errorf("it is at no run, and so not at %s", run)
	case l.run != run:
		return fmt.Errorf("it is at run %s, not at %s", l.run, run)
	}
	return nil
}

// hear notes a sign of life from the driver.
func (l *life) hear(run string, now int64) error {
	if err := l.of(run); err != nil {
		return err
	}
	l.heard = now
	return nil
}

// asleep: the agent itself was suspended, and could not hear the driver.
func (l *life) asleep(ns int64) {
	if l.phase != Idle {
		l.heard += ns
	}
}

// connected: the first connect attempts have ended.
func (l *life) connected(now int64) {
	if l.phase == Preparing {
		l.enter(Ready, now, readyMost)
	}
}

// start sets the time of the start, which must be in the future: an agent that begins late would
// lag behind the others.
func (l *life) start(run string, now, at int64) error {
	if err := l.of(run); err != nil {
		return err
	}
	switch {
	case l.phase != Ready:
		return fmt.Errorf("it is %s, and cannot be started", l.phase)
	case at <= now:
		return fmt.Errorf("the start was %s ago when it came", time.Duration(now-at))
	case at-now > int64(startMost):
		return fmt.Errorf("the start is %s ahead; at most %s", time.Duration(at-now), startMost)
	}
	l.heard = now
	l.enter(Running, at, l.length+runSlack)
	return nil
}

// loaded: the work has ended, in success or failure.
func (l *life) loaded(now int64) {
	if l.phase != Idle {
		l.enter(Draining, now, drainMost)
	}
}

// release ends the run.
func (l *life) release() {
	l.phase, l.run, l.since, l.until, l.heard = Idle, "", 0, 0, 0
}

// overdue returns why the run must be given up; "" if it may continue.
func (l *life) overdue(now int64) string {
	switch {
	case l.phase == Idle:
		return ""
	case now-l.heard > int64(l.grace):
		return fmt.Sprintf("no word of the driver for %s", time.Duration(now-l.heard).Round(time.Millisecond))
	case now <= l.until:
		return ""
	}
	return fmt.Sprintf("it was %s for longer than is allowed", l.phase)
}
