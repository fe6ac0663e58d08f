// Package prefork runs a proxy as one process per core instead of one loop, so that the two can be
// compared. The parent creates all listeners, so that a port is chosen once and a dead child's queue
// waits for its successor; only the parent has the admin address. A child inherits the control
// socket as descriptor 3, followed by its listeners. The parent sends queries over the control
// socket; its end, which also follows when the parent is killed, tells the child to drain.
package prefork

import (
	"context"
	"errors"
	"fmt"
	"maps"
	"os"
	"runtime"
	"slices"
	"sync"
	"time"

	"ceiling/proxy"
	"ceiling/proxy/config"
	"ceiling/proxy/listen"
)

// restartAfter is the delay before a child that exited by itself is restarted.
const restartAfter = time.Second

// Parent of several processes.
type Parent struct {
	// Addresses are those for plain clients, Secure those for clients with TLS.
	Addresses, Secure []string
	// Challenges is the children's Options.Challenges: only the parent talks to an authority.
	Challenges string

	report   func(string)
	children []*child

	starting sync.Mutex // of ends, and of the children's listeners
	ends     bool

	mu           sync.Mutex // of applications
	applications proxy.Applications
}

// New creates the listeners of c.Workers children, or one per CPU.
func New(c *config.Config, report func(string)) (*Parent, error) {
	n := c.Workers
	if n == 0 {
		n = runtime.NumCPU()
	}
	p := &Parent{report: report}
	for i := range n {
		p.children = append(p.children, &child{index: i})
	}
	for i, a := range slices.Concat(c.Listen, c.TLS.Listen) {
		fds, at, err := listen.Listen(a, n)
		if err != nil {
			p.closeListeners()
			return nil, err
		}
		for j, fd := range fds { // the plain ones, then those for TLS
			p.children[j].listeners = append(p.children[j].listeners, os.NewFile(uintptr(fd), "listener"))
		}
		to := &p.Addresses
		if i >= len(c.Listen) {
			to = &p.Secure
		}
		*to = append(*to, at.String())
	}
	return p, nil
}

func (p *Parent) closeListeners() {
	p.starting.Lock()
	defer p.starting.Unlock()
	p.ends = true
	for _, c := range p.children {
		for _, f := range c.listeners {
			_ = f.Close() // only the first time
		}
	}
}

// Run starts the children and keeps them running until ctx ends; then they drain, unless now is closed. It
// calls ready when all serve.
func (p *Parent) Run(ctx context.Context, now <-chan struct{}, ready func()) error {
	ctx, cancel := context.WithCancel(ctx)
	defer cancel()
	defer p.closeListeners()
	var running, serving sync.WaitGroup
	failed := make(chan error, len(p.children))
	for _, c := range p.children {
		serving.Add(1)
		running.Go(func() {
			serves := sync.OnceFunc(serving.Done)
			if err := p.keep(ctx, now, c, serves); err != nil {
				failed <- err
				cancel()
			}
			serves() // or never does
		})
	}
	running.Go(func() {
		if serving.Wait(); ctx.Err() == nil {
			ready()
		}
	})
	running.Wait()
	close(failed)
	return <-failed
}

// keep runs a child and restarts it. A child that never served is an error.
func (p *Parent) keep(ctx context.Context, now <-chan struct{}, c *child, serves func()) error {
	for first := true; ctx.Err() == nil; first = false {
		if ended, err := p.start(c); ended || err != nil {
			return err
		}
		p.inform(c)
		err := c.ask("snapshot", new(reply)) // answered when it serves
		if err != nil && first {
			c.hangUp()
			_ = c.cmd.Process.Kill() // it fails if it has exited
			return errors.Join(fmt.Errorf("proxy child %d: %w", c.index, err), c.cmd.Wait())
		}
		serves()
		ended := make(chan struct{})
		stop := context.AfterFunc(ctx, func() {
			p.closeListeners() // before the child takes what is in its queue: later clients would wait for nobody
			c.hangUp()
			select {
			case <-now:
				_ = c.cmd.Process.Signal(os.Interrupt) // see Run
			case <-ended:
			}
		})
		_ = c.cmd.Wait() // ProcessState has the result
		close(ended)
		stop()
		c.hangUp()
		if ctx.Err() == nil {
			p.report(fmt.Sprintf("proxy child %d ended: %v; restarting", c.index, c.cmd.ProcessState))
			select {
			case <-ctx.Done():
			case <-time.After(restartAfter):
			}
		}
	}
	return nil
}

// start starts the process of a child, unless the proxy is ending.
func (p *Parent) start(c *child) (ends bool, err error) {
	p.starting.Lock()
	defer p.starting.Unlock()
	if p.ends {
		return true, nil
	}
	return false, c.start(childEnv+"="+fmt.Sprint(len(p.children)), challengesEnv+"="+p.Challenges)
}

// inform tells a child about the applications. One that does not answer has ended, and its successor
// is told when it starts.
func (p *Parent) inform(c *child) {
	p.mu.Lock()
	defer p.mu.Unlock()
	_ = c.send(question{Ask: "applications", Applications: p.applications}, new(reply))
}

// SetApplications tells every child, see proxy.SetApplications.
func (p *Parent) SetApplications(a proxy.Applications) {
	p.mu.Lock()
	p.applications = maps.Clone(a)
	p.mu.Unlock()
	for _, c := range p.children {
		p.inform(c)
	}
}

// Snapshot sums the children's snapshots.
func (p *Parent) Snapshot() (all *proxy.Snapshot, err error) {
	return all, p.each("snapshot", func(r *reply) {
		if all == nil {
			all = r.Snapshot
		} else {
			all.Add(r.Snapshot)
		}
	})
}

// Traces returns those of all children, newest first.
func (p *Parent) Traces() (all []proxy.Trace, err error) {
	err = p.each("traces", func(r *reply) { all = append(all, r.Traces...) })
	proxy.NewestFirst(all)
	return all, err
}

// Reload makes every child reread its configuration.
func (p *Parent) Reload() error { return p.each("reload", func(*reply) {}) }

// ReopenLog makes every child switch to a new file, see proxy.ReopenLog.
func (p *Parent) ReopenLog() error { return p.each("reopen", func(*reply) {}) }

// each sends every child the same query, and takes the answers.
func (p *Parent) each(what string, take func(*reply)) (err error) {
	for _, c := range p.children {
		var r reply
		if e := c.ask(what, &r); e != nil {
			err = errors.Join(err, fmt.Errorf("proxy child %d: %w", c.index, e))
			continue
		}
		take(&r)
	}
	return err
}
