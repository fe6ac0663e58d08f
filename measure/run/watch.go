package run

import (
	"context"
	"os"
	"slices"
	"sync"
	"time"

	"ceiling/experiment/spec"
	"ceiling/internal/sys"
	"ceiling/measure/observe"
	"ceiling/record"
)

// watch observes this host during the load: the generator's side if it generates load, the server's
// if that is on this host.
type watch struct {
	told     func(record.ObservedRow)
	observer *observe.Observer
	missing  []record.NotMeasured
	cost     *record.Observing // nil: not measured here
	window   time.Time         // the zero of the run's clock
	cancel   context.CancelFunc
	done     sync.WaitGroup
}

// newWatch opens the sources before the connections: that takes tens of milliseconds that should
// not fall into the window.
func (p *part) newWatch() *watch {
	c := observe.Config{TargetAddr: p.target.addr, TargetUnix: p.target.unix}
	if p.Observe {
		c = p.target.observed()
	}
	c.Host, c.PeerAddr = p.Host, p.Peer
	if p.Load {
		c.GeneratorPID, c.Pipelining = os.Getpid(), p.spec.Pipelining
	}
	var cost *record.Observing
	if p.Observing == nil { // else it is being measured
		cost = observing(&p.env)
	}
	c.Window, c.Effort = p.spec.Duration, cost.Effort()
	c.CPUs = thirdCPUs(p.spec.PinGenerator, p.spec.PinServer)
	o, err := observe.New(c)
	if err != nil {
		return &watch{missing: []record.NotMeasured{{What: "host", Why: err.Error(), Host: p.Host}}}
	}
	return &watch{told: p.observed, observer: o, cost: cost}
}

// subject returns the server's processes on this host that the observer found.
func (w *watch) subject() []int {
	if w.observer == nil {
		return nil
	}
	return w.observer.Subject()
}

// thirdCPUs returns the CPUs that this process may use and neither side is pinned to, if both are
// pinned; nil otherwise: the thread that samples the sockets then runs wherever there is room.
func thirdCPUs(generator, server string) []int {
	a, errA := spec.ParseCPUList(generator)
	b, errB := spec.ParseCPUList(server)
	allowed, err := sys.AllowedCPUs(0)
	if generator == "" || server == "" || errA != nil || errB != nil || err != nil {
		return nil
	}
	return slices.DeleteFunc(allowed, func(cpu int) bool { return slices.Contains(a, cpu) || slices.Contains(b, cpu) })
}

// observed returns where to look for the server: on this host, in the network namespace that has
// the address.
func (t target) observed() observe.Config {
	c := observe.Config{TargetAddr: t.addr, TargetUnix: t.unix}
	if t.addr.IsValid() && !t.local {
		c.NetNSPID = observe.FindNamespace(t.addr)
	}
	return c
}

// start samples until stop; window is the zero of the run's clock.
func (w *watch) start(window time.Time) {
	if w.observer == nil {
		return
	}
	ctx, cancel := context.WithCancel(context.Background())
	w.cancel, w.window = cancel, window
	w.done.Go(func() {
		w.observer.Run(ctx, func() int64 { return int64(time.Since(window)) }, w.told)
	})
}

// stop ends the sampling and waits for the current sample.
func (w *watch) stop() {
	if w.cancel != nil {
		w.cancel()
		w.done.Wait()
		w.cancel = nil
	}
}

// close closes the sources, and keeps what they could not measure.
func (w *watch) close() {
	w.stop()
	if w.observer != nil {
		w.missing = append(w.missing, w.observer.NotMeasured()...)
		w.observer.Close()
		w.observer = nil
	}
}
