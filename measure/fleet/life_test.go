//go:build linux

package fleet

import (
	"strings"
	"testing"
	"time"
)

const sec = int64(time.Second)

// TestLife walks an agent's run through its phases, one row a step.
func TestLife(t *testing.T) {
	l := newLife("a", 2*sec, 5*time.Second, 20*time.Second)
	a := &Agent{o: AgentOptions{Log: func(string) {}, now: func() int64 { return 8 * sec }}, session: newSession(l, order{})}
	s := a.session
	told := func(verb, run string) error { return a.told(&command{Verb: verb, Run: run}) }
	for i, step := range []struct {
		do   func() error
		want string // of the error, "" none
		is   Phase
	}{
		{func() error { return s.busy(5 * sec) }, "busy with run a since 3s (preparing)", Preparing},
		{func() error { return s.start(5*sec, 5*sec+1) }, "it is preparing", Preparing},
		{func() error { s.connected(6 * sec); return nil }, "", Ready},
		{func() error { return told(verbStart, "b") }, "it is at run a", Ready},
		{func() error { return s.start(7*sec, 7*sec) }, "was 0s ago", Ready},
		{func() error { return s.start(7*sec, 6*sec) }, "was 1s ago", Ready},
		{func() error { return s.start(7*sec, 7*sec+2*int64(startMost)) }, "ahead", Ready},
		{func() error { return s.start(7*sec, 8*sec) }, "", Running},
		{func() error { return s.start(8*sec, 9*sec) }, "it is running", Running},
		{func() error { return told(verbPing, "b") }, "it is at run a", Running},
		{func() error { return told(verbPing, "a") }, "", Running},
		{func() error { s.loaded(9 * sec); return nil }, "", Draining},
		{func() error { a.free(); return told(verbPing, "a") }, "no run", Draining},
	} {
		err := step.do()
		if (err == nil) != (step.want == "") || err != nil && !strings.Contains(err.Error(), step.want) {
			t.Errorf("step %d: %v, want %q", i, err, step.want)
		}
		if s.phase != step.is {
			t.Fatalf("step %d: it is %s, want %s", i, s.phase, step.is)
		}
	}
	if s.heard != 8*sec {
		t.Errorf("the driver was heard at %d, not when it pinged", s.heard)
	}
}

// TestEveryPhaseEnds: whatever an agent waits for, it does not wait for ever.
func TestEveryPhaseEnds(t *testing.T) {
	for phase, c := range map[Phase]struct {
		reach func(*life)
		most  time.Duration
	}{
		Preparing: {func(*life) {}, 5*time.Second + prepareMost},
		Ready:     {func(l *life) { l.connected(0) }, readyMost},
		Running:   {func(l *life) { l.connected(0); _ = l.start(0, sec) }, time.Second + 20*time.Second + runSlack},
		Draining:  {func(l *life) { l.loaded(0) }, drainMost},
	} {
		l, most := newLife("a", 0, 5*time.Second, 20*time.Second), c.most
		c.reach(&l)
		if l.phase != phase {
			t.Fatalf("%s was not reached but %s", phase, l.phase)
		}
		if silent := l.overdue(10*sec+1, 10*time.Second); !strings.Contains(silent, "no word") {
			t.Errorf("%s: 10 s of silence: %q", phase, silent)
		}
		if why := l.overdue(10*sec, 10*time.Second); why != "" {
			t.Errorf("%s: overdue within the grace: %s", phase, why)
		}
		l.heard = int64(most)
		if why := l.overdue(int64(most), 10*time.Second); why != "" {
			t.Errorf("%s: overdue at its end: %s", phase, why)
		}
		if why := l.overdue(int64(most)+1, 10*time.Second); !strings.Contains(why, string(phase)) {
			t.Errorf("%s: after %s: %q", phase, most, why)
		}
	}
}
