package run

import (
	"context"
	"os"
	"sync"
	"time"

	"ceiling/observe"
	"ceiling/record"
)

// watch observes this host while the load goes on: the generator's end always,
// the server's where it is on this host.
type watch struct {
	writer   *record.Writer
	told     func(record.ObservedRow) // nil: nobody else
	observer *observe.Observer
	missing  []record.NotMeasured
	cancel   context.CancelFunc
	done     sync.WaitGroup
}

// newWatch opens the sources before the connections are: that costs tens of
// milliseconds which the window should not see.
func newWatch(w *record.Writer, host string, to target, told func(record.ObservedRow)) *watch {
	c := to.observed()
	c.Host, c.GeneratorPID = host, os.Getpid()
	o, err := observe.New(c)
	if err != nil {
		return &watch{writer: w, missing: []record.NotMeasured{{What: "host", Why: err.Error(), Host: host}}}
	}
	return &watch{writer: w, told: told, observer: o}
}

// observed is where to look for the server: on this host, in the network
// namespace that has the address.
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
	w.cancel = cancel
	w.done.Go(func() {
		w.observer.Run(ctx, func() int64 { return int64(time.Since(window)) }, w.keep)
	})
}

// keep writes a row and passes it on.
func (w *watch) keep(row record.ObservedRow) {
	w.writer.AppendObserved(row)
	if w.told != nil {
		w.told(row)
	}
}

// stop ends the sampling and waits for the sample under way.
func (w *watch) stop() {
	if w.cancel != nil {
		w.cancel()
		w.done.Wait()
		w.cancel = nil
	}
}

// close gives back the sources; what they could not measure is kept.
func (w *watch) close() {
	w.stop()
	if w.observer != nil {
		w.missing = append(w.missing, w.observer.NotMeasured()...)
		w.observer.Close()
		w.observer = nil
	}
}

// conclude writes into the result what was not measured.
func (w *watch) conclude(r *record.Run) {
	for _, n := range w.missing {
		w.writer.AppendNotMeasured(n)
	}
	r.NotMeasured = append(r.NotMeasured, w.missing...)
}
