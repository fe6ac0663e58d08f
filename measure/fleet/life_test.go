//go:build linux

package fleet

import (
	"strings"
	"testing"
	"time"
)

const sec = int64(time.Second)

// TestLife walks an agent through runs, one row a step.
func TestLife(t *testing.T) {
	l := newLife(10 * time.Second)
	const connect, length = 5 * time.Second, 20 * time.Second
	for i, step := range []struct {
		at   int64
		do   func(now int64) error
		want string // of the error, "" none
		is   Phase
	}{
		{1, func(now int64) error { return l.start("a", now, now+1) }, "no run", Idle},
		{1, func(now int64) error { return l.hear("a", now) }, "no run", Idle},
		{1, func(now int64) error { l.connected(now); l.loaded(now); return nil }, "", Idle},
		{2, func(now int64) error { return l.prepare("a", now, connect, length) }, "", Preparing},
		{5, func(now int64) error { return l.prepare("b", now, connect, length) }, "busy with run a since 3s (preparing)", Preparing},
		{5, func(now int64) error { return l.start("a", now, now+1) }, "it is preparing", Preparing},
		{6, func(now int64) error { l.connected(now); return nil }, "", Ready},
		{7, func(now int64) error { return l.start("b", now, now+1) }, "it is at run a", Ready},
		{7, func(now int64) error { return l.start("a", now, now) }, "was 0s ago", Ready},
		{7, func(now int64) error { return l.start("a", now, now-sec) }, "was 1s ago", Ready},
		{7, func(now int64) error { return l.start("a", now, now+2*int64(startMost)) }, "ahead", Ready},
		{7, func(now int64) error { return l.start("a", now, now+sec) }, "", Running},
		{8, func(now int64) error { return l.start("a", now, now+sec) }, "it is running", Running},
		{8, func(now int64) error { return l.hear("b", now) }, "it is at run a", Running},
		{8, func(now int64) error { return l.hear("a", now) }, "", Running},
		{9, func(now int64) error { l.loaded(now); return nil }, "", Draining},
		{9, func(now int64) error { return l.prepare("b", now, connect, length) }, "draining", Draining},
		{11, func(now int64) error { l.release(); return nil }, "", Idle},
		{12, func(now int64) error { return l.prepare("b", now, connect, length) }, "", Preparing},
	} {
		err := step.do(step.at * sec)
		if (err == nil) != (step.want == "") || err != nil && !strings.Contains(err.Error(), step.want) {
			t.Errorf("step %d: %v, want %q", i, err, step.want)
		}
		if l.phase != step.is {
			t.Fatalf("step %d: it is %s, want %s", i, l.phase, step.is)
		}
	}
}

// TestEveryPhaseEnds: whatever an agent waits for, it does not wait for ever.
func TestEveryPhaseEnds(t *testing.T) {
	const connect, length = 5 * time.Second, 20 * time.Second
	reach := map[Phase]func(*life){
		Preparing: func(l *life) {},
		Ready:     func(l *life) { l.connected(0) },
		Running:   func(l *life) { l.connected(0); _ = l.start("a", 0, sec) },
		Draining:  func(l *life) { l.loaded(0) },
	}
	for phase, most := range map[Phase]time.Duration{
		Preparing: 5*time.Second + prepareMost, Ready: readyMost,
		Running:  time.Second + 20*time.Second + runSlack,
		Draining: drainMost,
	} {
		l := newLife(10 * time.Second)
		if err := l.prepare("a", 0, connect, length); err != nil {
			t.Fatal(err)
		}
		reach[phase](&l)
		if l.phase != phase {
			t.Fatalf("%s was not reached but %s", phase, l.phase)
		}
		if silent := l.overdue(10*sec + 1); !strings.Contains(silent, "no word") {
			t.Errorf("%s: 10 s of silence: %q", phase, silent)
		}
		if why := l.overdue(10 * sec); why != "" {
			t.Errorf("%s: overdue within the grace: %s", phase, why)
		}
		l.heard = int64(most)
		if why := l.overdue(int64(most)); why != "" {
			t.Errorf("%s: overdue at its end: %s", phase, why)
		}
		if why := l.overdue(int64(most) + 1); !strings.Contains(why, string(phase)) {
			t.Errorf("%s: after %s: %q", phase, most, why)
		}
	}
	l := newLife(1)
	if why := l.overdue(1 << 60); why != "" {
		t.Errorf("idle is overdue: %s", why)
	}
}
