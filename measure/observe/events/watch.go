//go:build linux

package events

import (
	"errors"
	"fmt"
	"io"
	"math/rand/v2"
	"net/netip"
	"time"

	"github.com/cilium/ebpf"

	"ceiling/internal/sys"
)

// Watch follows the connections to one target in bursts. It belongs to one goroutine, which calls
// Step when it is due.
type Watch struct {
	t        *tracer
	pace     *pace
	follower *Follower
	events   []Event // already read, but later than the last burst
	burst    Burst   // the last one

	// Of the current burst, if there is one.
	began   bool
	fromNs  int64
	stats   io.Closer // while the kernel measures the programs' time; else nil
	startNs int64     // the programs' time at the start of that
	fixedNs int64     // CPU time of attaching and detaching
	ownNs   int64     // CPU time of this thread, up to markNs
	markNs  int64
}

// Burst is the result of one burst. It is valid until the next step.
type Burst struct {
	Times
	FromNs, ToNs int64   // CLOCK_MONOTONIC
	Share        float64 // fraction of the connections that were followed
	Events       int
	Lost         uint64 // events that did not fit: the burst ends before the first
	BPFNs        int64  // CPU time of the programs
	Measured     bool   // BPFNs was measured; else it is estimated from an earlier burst
	OwnNs        int64  // CPU time of attaching, reading and following
}

// settleNs separates attaching the programs from the burst. This thread has just used a CPU for the
// millisecond that attaching takes: if that was the generator's or the server's, requests queue up.
const settleNs = 3e6

// Open loads the programs; the error says why this host cannot.
// pipelined: a connection may have several requests in flight. effort is the part of the usual cost
// that the bursts may have, above 0 to 1. random chooses moments and connections.
func Open(target netip.AddrPort, pipelined bool, effort float64, random *rand.Rand) (*Watch, error) {
	t, err := openTracer(target)
	if err != nil {
		return nil, err
	}
	return &Watch{t: t, pace: newPace(effort, random), follower: NewFollower(pipelined)}, nil
}

// Step begins a burst, or ends the current one, and returns how long after its return the next step
// is due. burst is nil if none has ended. The caller must hold its OS thread
// (runtime.LockOSThread): the cost of a burst is read from the thread's clock.
func (w *Watch) Step() (burst *Burst, next time.Duration, err error) {
	if w.markNs, err = sys.SamplingThreadNs(); err != nil {
		return nil, 0, err
	}
	if left := w.plannedNs() - sys.MonotonicNs(); w.began && left > 0 {
		return nil, time.Duration(left), nil // the caller is early
	}
	if w.began {
		burst, err = w.end()
		next = w.pace.pause
	} else {
		err = w.begin(true)
	}
	if err == nil {
		err = w.account()
	}
	if err != nil {
		return nil, 0, err
	}
	if burst == nil {
		w.fixedNs = w.ownNs
	}
	if w.began {
		next = max(time.Duration(w.plannedNs()-sys.MonotonicNs()), 0)
	}
	return burst, next, nil
}

// plannedNs returns when the current burst should end, which is also when it ends: a thread that
// waits for its CPU wakes up after others have done their work, so its own time would be biased.
func (w *Watch) plannedNs() int64 { return w.fromNs + int64(w.pace.width) }

// account adds the thread's CPU time since the last call.
func (w *Watch) account() error {
	ns, err := sys.SamplingThreadNs()
	w.ownNs, w.markNs = w.ownNs+ns-w.markNs, ns
	return err
}

// begin begins a burst, after a gap.
func (w *Watch) begin(gap bool) error {
	p := w.pace
	seed, threshold := p.seed, p.threshold
	if gap {
		var err error
		if w.events, err = w.t.drain(w.events[:0]); err != nil { // read after the last burst, before detaching
			return err
		}
		w.events = w.events[:0]
		if err := w.t.attach(); err != nil {
			return err
		}
		w.fromNs = sys.MonotonicNs() + settleNs
	}
	if err := w.t.set(seed, threshold); err != nil {
		return err
	}
	if p.stats() {
		if err := w.measure(); err != nil {
			return err
		}
	}
	w.began = true
	w.follower.Begin(w.fromNs, gap, func(port uint16) bool { return sampled(port, seed, threshold) })
	return nil
}

// measure makes the kernel account the programs' time.
func (w *Watch) measure() (err error) {
	if w.startNs, err = w.t.runtimeNs(); err != nil {
		return err
	}
	const runTime = 0 // BPF_STATS_RUN_TIME
	if w.stats, err = ebpf.EnableStats(runTime); err != nil {
		return fmt.Errorf("have the kernel measure BPF programs: %w", err)
	}
	return nil
}

// measured stops that; −1: not requested.
func (w *Watch) measured() (ns int64, err error) {
	if w.stats == nil {
		return -1, nil
	}
	ns, err = w.t.runtimeNs()
	err = errors.Join(err, w.stats.Close())
	w.stats = nil
	return ns - w.startNs, err
}

// end ends the burst, and begins another if that should follow without a gap.
func (w *Watch) end() (*Burst, error) {
	toNs := w.plannedNs()
	attached := w.pace.joined
	var errs [4]error
	if !attached {
		before := w.ownNs
		errs[0] = errors.Join(w.t.detach(), w.account())
		w.fixedNs += w.ownNs - before
	}
	b := &w.burst
	b.Reset()
	b.FromNs, b.Share = w.fromNs, w.pace.share()
	var lostNs int64
	b.Lost, lostNs, errs[1] = w.t.lost()
	if b.Lost > 0 {
		toNs = max(min(toNs, lostNs-1), b.FromNs+1)
	}
	b.ToNs = toNs
	b.BPFNs, errs[2] = w.measured()
	w.events, errs[3] = w.t.drain(w.events)
	if err := errors.Join(errs[:]...); err != nil {
		return nil, err
	}
	b.Events = w.follower.End(toNs, w.events, &b.Times)
	w.events = w.events[:copy(w.events, w.events[b.Events:])]
	if err := w.account(); err != nil {
		return nil, err
	}
	b.OwnNs, w.ownNs = w.ownNs, 0
	b.Measured = b.BPFNs >= 0
	b.BPFNs = w.pace.plan(outcome{
		width: time.Duration(b.ToNs - b.FromNs), events: b.Events, connections: b.Connections, requests: b.Requests,
		bpfNs: b.BPFNs, ownNs: b.OwnNs, fixedNs: w.fixedNs, lost: b.Lost > 0,
	})
	w.fixedNs = 0
	return b, w.goOn(attached, toNs)
}

// goOn follows the plan: another burst at once, or none for now.
func (w *Watch) goOn(attached bool, toNs int64) error {
	w.began = false
	switch {
	case attached && w.pace.joined:
		w.fromNs = toNs
		return w.begin(false)
	case attached:
		return w.t.detach()
	}
	return nil
}

// Rest gives up the current burst, so that nothing stays attached until the next step.
func (w *Watch) Rest() error {
	w.began, w.pace.joined = false, false
	_, err := w.measured()
	return errors.Join(err, w.t.detach())
}

// Close detaches the programs and unloads them.
func (w *Watch) Close() error {
	_, err := w.measured()
	return errors.Join(err, w.t.close())
}
