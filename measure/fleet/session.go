package fleet

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"sync"
	"time"

	"ceiling/experiment/spec"
	"ceiling/internal/exit"
	"ceiling/internal/unit"
	"ceiling/measure/load"
	"ceiling/measure/run"
	"ceiling/record"
)

// Engine does a share of a run: run.DoShare, or a test double.
type Engine func(context.Context, *spec.Spec, run.ShareOptions, run.Sink) (*run.ShareResult, error)

// session is an agent's part in one run. It is its engine's sink, and buffers the reports until
// they are taken.
type session struct {
	life   // guarded by the agent's lock
	order  order
	here   context.Context // ends when the agent leaves this run
	leave  context.CancelFunc
	engine context.Context // ends when the engine is told to stop
	cancel context.CancelFunc
	ended  chan struct{}      // closed when it has, and the reports are sent or given up
	starts chan time.Time     // sent once
	over   context.Context    // ends by finish
	finish context.CancelFunc // tells an observer that the load is over
	cap    float64            // limit on a closed loop's rate, requests/s; 0: none

	mu      sync.Mutex
	out     outlet
	stopped string // why the agent ended the work; "": it did not
	finest  bool   // everything is in out
	sent    uint64 // in the current second
	widthNs int64  // of it
	kick    chan struct{}
}

func newSession(l life, o order) *session {
	s := &session{life: l, order: o, ended: make(chan struct{}), starts: make(chan time.Time, 1), kick: make(chan struct{}, 1)}
	s.here, s.leave = context.WithCancel(context.Background())
	s.engine, s.cancel = context.WithCancel(s.here)
	s.over, s.finish = context.WithCancel(s.here)
	return s
}

// work does the share and reports all of it but the ending. It returns once the engine has ended;
// its reports may still be waiting.
func (s *session) work(engine Engine, o run.ShareOptions, ready func()) ending {
	o.Share, o.Load, o.Observe = s.order.Share, s.order.Load, s.order.Observe
	o.Start, o.Over = s.starts, s.over.Done()
	o.Ready = func(established, asked int) {
		ready()
		s.tell(true, func() error { return s.out.object(frameReady, readiness{established, asked}) })
	}
	done, err := engine(s.engine, s.order.Spec, o, s)
	if err != nil {
		return ending{Error: err.Error(), Refused: errors.Is(err, exit.ErrRefused)}
	}
	if done.Result != nil {
		b, err := done.Result.AppendBinary(nil)
		if err != nil {
			return ending{Error: "its result cannot be sent: " + err.Error()}
		}
		s.tell(false, func() error { return s.out.frame(frameResult, b) })
	}
	s.tellProfile(done.CPUProfile, o.Host)
	done.CPUProfile = nil
	text, err := json.Marshal(done)
	if err != nil {
		return ending{Error: "its account cannot be sent: " + err.Error()}
	}
	return ending{Done: text}
}

// tellProfile reports a CPU profile, if there is one.
func (s *session) tellProfile(profile []byte, host string) {
	switch {
	case len(profile) > frameMost:
		s.NotMeasured(record.NotMeasured{What: "CPU profile", Host: host, Why: fmt.Sprintf("it has %s, too much to be sent; at most %s",
			unit.FormatBytesIEC(int64(len(profile))), unit.FormatBytesIEC(frameMost))})
	case len(profile) > 0:
		s.tell(false, func() error { return s.out.frame(frameProfile, profile) })
	}
}

// end adds the last report of the run, and returns it.
func (s *session) end(e ending) ending {
	s.tell(true, func() error {
		e.Stopped = s.stopped
		s.finest = true
		return s.out.object(frameEnd, e)
	})
	return e
}

// tell adds a report. If that fails the run is over: the driver must not take an incomplete stream
// for complete.
func (s *session) tell(now bool, add func() error) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if err := add(); err != nil {
		s.giveUp("its result cannot be sent: " + err.Error())
	}
	if now {
		select {
		case s.kick <- struct{}{}:
		default:
		}
	}
}

// halt is stop by the agent, which notes when.
func (s *session) halt(now int64, why string) {
	if s.halted == 0 {
		s.halted = max(now, 1)
	}
	s.stop(why)
}

// stop ends the work before its time.
func (s *session) stop(why string) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.giveUp(why)
}

func (s *session) giveUp(why string) {
	if s.stopped == "" && !s.finest {
		s.stopped = why
	}
	s.cancel()
}

// cut cuts off the next message of the waiting reports; more follow it now, or none do at all.
func (s *session) cut() (chunk []byte, more, last bool) {
	s.mu.Lock()
	defer s.mu.Unlock()
	chunk = s.out.message()
	more = len(s.out.waiting) > 0
	return chunk, more, s.finest && !more
}

// Connected implements load.Observer. Ready has reported it already.
func (s *session) Connected(int, int, time.Time) {}

// Window implements load.Observer. The driver knows the times.
func (s *session) Window(bool, time.Time) {}

// Interval implements load.Observer.
func (s *session) Interval(t *load.Tally, late bool) {
	body := []byte{0}
	if late {
		body[0] = 1
	}
	s.tell(false, func() error {
		body, err := t.AppendBinary(body)
		if err != nil {
			return err
		}
		if why := s.above(t); why != "" {
			s.giveUp(why)
		}
		return s.out.frame(frameTally, body)
	})
}

// above checks the rate of a closed loop, which is unknown in advance, against the cap, over whole
// seconds.
func (s *session) above(t *load.Tally) string {
	s.sent += t.Sent
	s.widthNs += t.EndNs - t.StartNs
	if s.cap == 0 || s.widthNs < int64(time.Second) {
		return ""
	}
	rate := float64(s.sent) / (float64(s.widthNs) / 1e9)
	s.sent, s.widthNs = 0, 0
	if rate <= s.cap {
		return ""
	}
	return fmt.Sprintf("it sent %.0f requests/s, its cap is %.0f (--max-rate); ask for a rate (-R) below it", rate, s.cap)
}

// Observed implements run.Sink.
func (s *session) Observed(row record.ObservedRow) {
	s.tell(false, func() error { return s.out.object(frameObserved, row) })
}

// NotMeasured implements run.Sink.
func (s *session) NotMeasured(n record.NotMeasured) {
	s.tell(false, func() error { return s.out.object(frameMissing, n) })
}

// AgentInterval implements run.Sink: an engine is one agent.
func (s *session) AgentInterval(string, *load.Tally, bool) {}
