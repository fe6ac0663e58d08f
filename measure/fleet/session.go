package fleet

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"net/netip"
	"slices"
	"sync"
	"time"

	"ceiling/experiment/spec"
	"ceiling/internal/exit"
	"ceiling/measure/load"
	"ceiling/measure/run"
	"ceiling/record"
)

// Engine does a share of a run: run.DoShare, or a test double.
type Engine func(context.Context, *spec.Spec, run.ShareOptions, run.Sink) (*run.ShareResult, error)

// session is an agent's part in one run. It is its engine's sink, and buffers the reports until
// they are taken.
type session struct {
	run    string
	order  order
	cancel context.CancelFunc // of the engine
	start  chan time.Time     // sent once
	over   chan struct{}      // closed by finish
	cap    float64            // limit on a closed loop's rate, requests/s; 0: none
	began  bool               // the start was passed on; guarded by the agent's lock

	mu       sync.Mutex
	out      outlet
	stopped  string // why the agent ended the work; "": it did not
	finished bool   // over is closed
	finest   bool   // everything is in out
	sent     uint64 // in the current second
	widthNs  int64  // of it
	kick     chan struct{}

	freed chan struct{} // closed by the agent when it leaves this run
}

func newSession(run string, o order, cancel context.CancelFunc) *session {
	return &session{run: run, order: o, cancel: cancel, start: make(chan time.Time, 1), over: make(chan struct{}),
		kick: make(chan struct{}, 1), freed: make(chan struct{})}
}

// work does the share and reports all of it but the ending. It returns once the engine has ended;
// its reports may still be waiting.
func (s *session) work(ctx context.Context, engine Engine, o run.ShareOptions, ready func()) (profile []byte, e ending) {
	o.Share, o.Load, o.Observe = s.order.Share, s.order.Load, s.order.Observe
	o.Start, o.Over = s.start, s.over
	o.Ready = func(established, asked int) {
		ready()
		s.tell(true, func() error { return s.out.object(frameReady, readiness{established, asked}) })
	}
	done, err := engine(ctx, s.order.Spec, o, s)
	if err != nil {
		return nil, ending{Error: err.Error(), Refused: errors.Is(err, exit.ErrRefused)}
	}
	if done.Result != nil {
		b, err := done.Result.AppendBinary(nil)
		if err != nil {
			return nil, ending{Error: "its result cannot be sent: " + err.Error()}
		}
		s.tell(false, func() error { return s.out.frame(frameResult, b) })
	}
	profile = done.CPUProfile
	done.CPUProfile = nil
	text, err := json.Marshal(done)
	if err != nil {
		return nil, ending{Error: "its account cannot be sent: " + err.Error()}
	}
	return profile, ending{Done: text}
}

// end adds the last report of the run.
func (s *session) end(e ending) {
	s.tell(true, func() error {
		e.Stopped = s.stopped
		s.finest = true
		return s.out.object(frameEnd, e)
	})
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

// finish notifies an observer that the load is over.
func (s *session) finish() {
	s.mu.Lock()
	defer s.mu.Unlock()
	if !s.finished {
		s.finished = true
		close(s.over)
	}
}

// flush cuts the waiting reports into messages; last reports whether nothing follows them.
func (s *session) flush(send func([]byte) error) (last bool) {
	s.mu.Lock()
	defer s.mu.Unlock()
	for first := true; first || len(s.out.waiting) > 0; first = false {
		chunk := s.out.message()
		if err := send(chunk); err != nil {
			s.out.undo(chunk)
			s.giveUp("its result cannot be sent: " + err.Error())
			return false
		}
	}
	return s.finest
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

// permit returns the check of resolved addresses for an engine. One that only observes sends
// nothing to the target, and looks for it on its own machine: it may fetch profiles from there, and
// from what is on the list.
func permit(ctx context.Context, l AllowList, find Lookup, o *order) func(netip.AddrPort, string) error {
	if !o.Load {
		return func(netip.AddrPort, string) error { return nil } // pprofAllowed has checked
	}
	return func(to netip.AddrPort, unix string) error {
		if to.IsValid() {
			return l.Permits(ctx, to, find)
		}
		return l.PermitsUnix(unix)
	}
}

// pprofAllowed checks the profile endpoints of a spec: each must be on this machine, or on the
// list.
func pprofAllowed(ctx context.Context, l AllowList, find Lookup, s *spec.Spec) error {
	for _, url := range spec.PprofURLs(s.Pprof) {
		if err := onePprofAllowed(ctx, l, find, url); err != nil {
			return err
		}
	}
	return nil
}

func onePprofAllowed(ctx context.Context, l AllowList, find Lookup, url string) error {
	to, _, _, err := spec.ParseTarget(url)
	if err != nil {
		return fmt.Errorf("--pprof: %w", err)
	}
	if to.Network == spec.Unix {
		return l.PermitsUnix(to.Path)
	}
	addrs, err := addressesOf(ctx, to, find)
	if err != nil {
		return err
	}
	own := ownAddresses()
	for _, at := range addrs {
		if !slices.Contains(own, plain(at.Addr())) {
			err = errors.Join(err, l.Permits(ctx, at, find))
		}
	}
	if err != nil {
		return fmt.Errorf("--pprof: %w", err)
	}
	return nil
}
