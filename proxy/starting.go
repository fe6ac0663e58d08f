package proxy

import (
	"maps"
	"slices"
	"time"

	"ceiling/proxy/config"
)

// Applications says which destinations are applications that are started here: by address, as
// config.SameHost has it, whether they are starting.
type Applications map[string]bool

// SetApplications tells the proxy what the supervisor knows. Requests to a destination that is
// starting wait in its queue until it is ready, or for the location's queue timeout.
func (p *Proxy) SetApplications(a Applications) {
	p.mu.Lock()
	defer p.mu.Unlock()
	p.applications = maps.Clone(a)
	for _, u := range p.site.upstreams {
		p.supervise(u)
	}
	for _, u := range p.departed {
		p.supervise(u)
	}
	p.departed = slices.DeleteFunc(p.departed, func(u *upstream) bool { return !u.starting.Load() })
}

// supervise notes what the supervisor knows about an upstream.
func (p *Proxy) supervise(u *upstream) {
	if u.target.Scheme == config.Unix {
		return
	}
	starting, managed := p.applications[config.SameHost(u.target.Address)]
	u.managed.Store(managed)
	if u.starting.Swap(starting) == starting {
		return
	}
	if !starting { // failures of the process before say nothing about this one
		u.worked()
		u.ill.Store(false)
	}
	switch {
	case !p.runs || p.over.Err() != nil: // there is no request
	case starting: // its connections end with the process
		p.tell(func(l *loop) { l.pool(u).move() })
	default:
		p.resume(u)
	}
}

// resume lets the waiting requests go on.
func (p *Proxy) resume(u *upstream) {
	if !u.held() {
		p.tell(func(l *loop) { l.pool(u).resume() })
	}
}

// noticeWithin is how long the supervisor may take to notice that an application has exited.
const noticeWithin = 100 * time.Millisecond

// suspect has requests wait until the supervisor has noticed that an application has exited, if it
// has: its clients notice first.
func (p *Proxy) suspect(u *upstream) {
	if !u.suspect.CompareAndSwap(false, true) {
		return
	}
	p.tasks.Go(func() {
		select {
		case <-time.After(noticeWithin):
		case <-p.over.Done():
		}
		u.suspect.Store(false)
		p.resume(u)
	})
}
