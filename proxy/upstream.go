package proxy

import (
	"fmt"
	"slices"
	"sync/atomic"
	"time"

	"ceiling/internal/ring"
	"ceiling/proxy/config"
)

// upstream is one address that requests go to, under one set of rules. It survives reloads that
// do not change it. All loops share its fields, which are rarely written.
type upstream struct {
	id     uint32 // dense: loops index their pools by it
	key    string
	target config.Target
	http2  bool // the loops speak HTTP/2 to it
	tls    outerTLS

	naming  naming
	limit   atomic.Int64 // connections per loop; 0 is no limit
	queue   atomic.Int64 // requests that may wait, per loop
	maxIdle atomic.Int64
	idle    atomic.Int64 // ns a connection may be idle
	gone    atomic.Bool  // removed from the configuration

	supervised

	ill      atomic.Bool   // according to the health checks
	answers  atomic.Bool   // the last health check succeeded
	failures atomic.Int32  // in a row
	failedAt atomic.Int64  // proxy's clock: time of the last one
	failedOn atomic.Uint64 // evidence.path of the last one
	until    atomic.Int64  // proxy's clock: ejected until then; 0 if not ejected
	times    atomic.Int32  // ejections in a row
	trial    atomic.Bool   // a request is testing it
	ejects   atomic.Uint64
	checked  atomic.Uint64 // health checks
	unwell   atomic.Uint64 // of these, failed ones

	eject struct {
		failures int32
		first    time.Duration
		most     time.Duration
	}
}

// naming is what is known about its name.
type naming struct {
	addresses atomic.Pointer[[]ring.Sockaddr] // nil until the name resolves
	problem   trouble                         // with resolving it
	again     chan struct{}                   // see resolveSoon
}

// supervised is what is known about an application.
type supervised struct {
	managed  atomic.Bool // it is started here
	starting atomic.Bool // it is not ready
	suspect  atomic.Bool // it may have exited, see Proxy.suspect
}

// usable reports whether a request may be sent there now, possibly as a test.
func (u *upstream) usable(now int64) bool {
	return !u.ill.Load() && u.until.Load() <= now && u.naming.addresses.Load() != nil && !u.held()
}

// lastResort reports whether a request may be sent there if no destination is usable: an ejected one
// may work again, and so may one that passed its last health check, but not yet enough of them. Of one
// that is starting, or has no address, more is known than of its checks.
func (u *upstream) lastResort() bool {
	return !u.ill.Load() || u.answers.Load() || u.held() || u.naming.addresses.Load() == nil
}

func (u *upstream) ejected() bool { return u.until.Load() != 0 }

// try claims the right to test whether an ejected upstream works.
func (u *upstream) try(now int64) bool {
	return u.until.Load() <= now && u.trial.CompareAndSwap(false, true)
}

// worked records a response.
func (u *upstream) worked() {
	if u.failures.Load() != 0 {
		u.failures.Store(0)
	}
	if u.times.Load() != 0 {
		u.until.Store(0)
		u.times.Store(0)
		u.trial.Store(false)
	}
}

// connected records that a destination accepts connections: it has been started again, or only some
// of its requests fail.
func (u *upstream) connected() {
	if u.until.Load() != 0 {
		u.until.Store(0)
		u.failures.Store(0)
		u.trial.Store(false)
	}
}

// evidence is what an attempt without a response says about its destination.
type evidence struct {
	opened int64  // proxy's clock: when the connection that ended was opened
	path   uint64 // hash of the request's path if the destination may have seen it; 0: it has not
}

// failed records an attempt without a response; trial means that it was a test. A restarting
// destination closes all its connections: that is one failure. So is a page that crashes its
// process, however often it is requested.
func (u *upstream) failed(now int64, e evidence, trial bool) {
	if last := u.failedAt.Swap(now); last != 0 && e.opened < last && !trial {
		return
	}
	if before := u.failedOn.Swap(e.path); e.path != 0 && e.path == before {
		if trial {
			u.trial.Store(false)
		}
		return
	}
	n := u.failures.Add(1)
	if u.eject.failures <= 0 || !trial && n < u.eject.failures {
		return
	}
	if u.until.Load() > now {
		return // others failed as well and have ejected it
	}
	pause := u.eject.first << min(u.times.Add(1)-1, 20)
	if pause > u.eject.most || pause <= 0 {
		pause = u.eject.most
	}
	u.ejects.Add(1)
	u.until.Store(now + int64(pause))
	u.trial.Store(false)
}

// state returns the state in one word.
func (u *upstream) state(now int64) string {
	switch until := u.until.Load(); {
	case u.naming.addresses.Load() == nil:
		return "unresolved"
	case u.starting.Load():
		return "starting"
	case u.ill.Load():
		return "ill"
	case until > now:
		return "ejected"
	case until != 0:
		return "on trial"
	}
	return "ok"
}

// resolve looks the name up. Literal addresses and sockets are resolved once. moved means that an
// address has gone.
func (u *upstream) resolve(look func(host string) ([]string, error)) (moved bool, err error) {
	list, err := socketAddresses(u.target, look)
	if err != nil {
		return false, fmt.Errorf("destination %s: %w", u.key, err)
	}
	before := u.naming.addresses.Swap(&list)
	if before == nil {
		return false, nil
	}
	gone := func(a ring.Sockaddr) bool { return !slices.Contains(list, a) }
	return slices.ContainsFunc(*before, gone), nil
}

// note reports when the name ceases to resolve, and when it does again.
func (u *upstream) note(err error, report func(string)) {
	if err == nil {
		if u.naming.problem.ends() {
			report(fmt.Sprintf("destination %s: its name resolves", u.key))
		}
		return
	}
	text := err.Error()
	if !u.naming.problem.begins(text) {
		return
	}
	until := "its requests get 502 until the name resolves"
	if u.naming.addresses.Load() != nil {
		until = "the old addresses stay"
	}
	report(text + "; " + until)
}

// resolveSoon has the name looked up again: an address may be that of a destination that has moved.
func (u *upstream) resolveSoon() {
	select {
	case u.naming.again <- struct{}{}:
	default: // it will be
	}
}

func (u *upstream) secure() bool { return u.tls.config != nil }

// held reports whether requests wait for the application to be ready.
func (u *upstream) held() bool { return u.starting.Load() || u.suspect.Load() }
