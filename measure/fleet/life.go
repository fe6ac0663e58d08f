package fleet

import (
	"fmt"
	"time"

	"ceiling/internal/unit"
)

// Phase is where an agent stands with the run it takes part in.
type Phase string

const (
	Idle      Phase = "idle"      // no run
	Preparing Phase = "preparing" // opens its connections
	Ready     Phase = "ready"     // its connections stand; it waits for the start
	Running   Phase = "running"   // from the start's announcement on
	Draining  Phase = "draining"  // the load is over; what is known of it leaves
	Ended     Phase = "ended"     // all has left; it waits to be released
)

// Bounds of the phases. A run's own times come on top where they matter.
const (
	// prepareMost is for opening sockets, observers and rings, besides the ramp
	// and the timeouts of the connections themselves.
	prepareMost = 30 * time.Second
	// readyMost is how long others may take to get ready.
	readyMost = 2 * time.Minute
	// startMost is how far ahead a start may be.
	startMost = time.Minute
	// runSlack is what a run may take beyond its times.
	runSlack = 10 * time.Second
	// drainMost is for what is known of a run to leave.
	drainMost = time.Minute
	// endedMost is how long an agent waits to be released.
	endedMost = time.Minute
)

// life is where an agent stands and until when it may. All times are of the
// agent's clock. It decides and does nothing: who owns it does what it says.
type life struct {
	grace time.Duration // without a word of the driver

	phase Phase
	run   string
	since int64 // when the run came
	until int64 // when the phase has to be over
	heard int64 // the last word of the driver
	times times
}

// times are what a run needs, as its spec tells.
type times struct {
	connect time.Duration // until the connections stand
	length  time.Duration // from the start on, drain included; what the agent's cap allows where a number of requests ends it
}

func newLife(grace time.Duration) life { return life{grace: grace, phase: Idle} }

func (l *life) enter(p Phase, now int64, most time.Duration) {
	l.phase, l.until = p, now+int64(most)
}

// prepare begins a run, or tells why not.
func (l *life) prepare(run string, now int64, t times) error {
	if l.phase != Idle {
		return fmt.Errorf("it is busy with run %s since %s (%s)", l.run, unit.FormatDuration(time.Duration(now-l.since).Round(time.Second)),
			l.phase)
	}
	l.run, l.since, l.heard, l.times = run, now, now, t
	l.enter(Preparing, now, t.connect+prepareMost)
	return nil
}

// of tells whether the agent is at a run.
func (l *life) of(run string) error {
	switch {
	case l.phase == Idle:
		return fmt.Errorf("it is at no run, and so not at %s", run)
	case l.run != run:
		return fmt.Errorf("it is at run %s, not at %s", l.run, run)
	}
	return nil
}

// hear notes a word of the driver.
func (l *life) hear(run string, now int64) error {
	if err := l.of(run); err != nil {
		return err
	}
	l.heard = now
	return nil
}

// asleep: the agent itself stood still, and could have heard nobody.
func (l *life) asleep(ns int64) {
	if l.phase != Idle {
		l.heard += ns
	}
}

// connected: the first attempts to connect have ended.
func (l *life) connected(now int64) {
	if l.phase == Preparing {
		l.enter(Ready, now, readyMost)
	}
}

// start takes the time of the start. It has to be ahead: an agent that begins
// late would not be where the others are.
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
	l.enter(Running, at, l.times.length+runSlack)
	return nil
}

// loaded: the work has ended, well or not.
func (l *life) loaded(now int64) {
	if l.phase != Idle && l.phase != Ended {
		l.enter(Draining, now, drainMost)
	}
}

// told: all that is known of the run has left.
func (l *life) told(now int64) {
	if l.phase == Draining {
		l.enter(Ended, now, endedMost)
	}
}

// release ends the run.
func (l *life) release() {
	l.phase, l.run, l.since, l.until, l.heard = Idle, "", 0, 0, 0
}

// overdue tells why the run has to be given up; "" goes on.
func (l *life) overdue(now int64) string {
	working := l.phase == Preparing || l.phase == Ready || l.phase == Running
	switch {
	case l.phase == Idle:
		return ""
	case working && now-l.heard > int64(l.grace):
		return fmt.Sprintf("no word of the driver for %s", time.Duration(now-l.heard).Round(time.Millisecond))
	case l.phase == Ended && now-l.heard > int64(l.grace):
		return "the driver is gone"
	case now <= l.until:
		return ""
	}
	return fmt.Sprintf("it was %s for longer than is allowed", l.phase)
}
