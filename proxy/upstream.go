package proxy

import (
	"crypto/x509"
	"fmt"
	"sync/atomic"
	"time"

	"ceiling/internal/ring"
	"ceiling/proxy/config"
)

// upstream is one address that requests go to, under one set of rules. It
// outlives reloads that leave it as it is. Its fields are shared by all loops and
// written rarely.
type upstream struct {
	id     uint32 // dense: loops find their pool by it
	key    string
	target config.Target
	http2  bool           // spoken to it
	roots  *x509.CertPool // whom a destination with TLS is held to; nil is the system's

	addresses atomic.Pointer[[]ring.Sockaddr]
	limit     atomic.Int64 // connections of each loop; 0 is no limit
	queue     atomic.Int64 // that may wait, in each loop
	maxIdle   atomic.Int64
	idle      atomic.Int64 // ns a connection may be idle
	gone      atomic.Bool  // not in the configuration any more

	ill      atomic.Bool  // the health checks say so
	answers  atomic.Bool  // the last health check was good
	failures atomic.Int32 // in a row
	failedAt atomic.Int64 // proxy's clock: when the last of them was
	until    atomic.Int64 // proxy's clock: ejected until then; 0 is not ejected
	times    atomic.Int32 // ejections in a row
	trial    atomic.Bool  // a request tries it
	ejects   atomic.Uint64
	checked  atomic.Uint64 // health checks
	unwell   atomic.Uint64 // of these, failed ones

	eject struct {
		failures int32
		first    time.Duration
		most     time.Duration
	}
}

// usable tells whether a request may be sent there now, perhaps to try it.
func (u *upstream) usable(now int64) bool {
	return !u.ill.Load() && u.until.Load() <= now
}

// recovering tells that it has answered its last check, if not as many as it takes
// to be well.
func (u *upstream) recovering() bool { return u.ill.Load() && u.answers.Load() }

func (u *upstream) ejected() bool { return u.until.Load() != 0 }

// try claims the right to find out whether an ejected upstream works.
func (u *upstream) try(now int64) bool {
	return u.until.Load() <= now && u.trial.CompareAndSwap(false, true)
}

// worked notes a response.
func (u *upstream) worked() {
	if u.failures.Load() != 0 {
		u.failures.Store(0)
	}
	if u.until.Load() != 0 {
		u.until.Store(0)
		u.times.Store(0)
		u.trial.Store(false)
	}
}

// failed notes an attempt without a response, over a connection that was opened at
// that time; trial says that it was to find out. A destination that starts again ends
// all its connections: that is one failure.
func (u *upstream) failed(now, opened int64, trial bool) {
	if last := u.failedAt.Swap(now); last != 0 && opened < last && !trial {
		return
	}
	n := u.failures.Add(1)
	if u.eject.failures <= 0 || !trial && n < u.eject.failures {
		return
	}
	if u.until.Load() > now {
		return // others have failed too, and have said so
	}
	pause := u.eject.first << min(u.times.Add(1)-1, 20)
	if pause > u.eject.most || pause <= 0 {
		pause = u.eject.most
	}
	u.ejects.Add(1)
	u.until.Store(now + int64(pause))
	u.trial.Store(false)
}

// state in a word.
func (u *upstream) state(now int64) string {
	switch until := u.until.Load(); {
	case u.ill.Load():
		return "ill"
	case until > now:
		return "ejected"
	case until != 0:
		return "on trial"
	}
	return "ok"
}

// resolve looks the name up. Literal addresses and sockets are looked up once.
func (u *upstream) resolve(look func(host string) ([]string, error)) error {
	list, err := socketAddresses(u.target, look)
	if err != nil {
		return fmt.Errorf("destination %s: %w", u.key, err)
	}
	u.addresses.Store(&list)
	return nil
}
