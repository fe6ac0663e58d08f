package proxy

import (
	"syscall"

	"ceiling/internal/ring"
)

// listener is a loop's own accept queue.
type listener struct {
	conn   conn
	socket int
	tls    bool // its clients begin with a ClientHello
	unix   bool
}

func (ln *listener) accepted(ev *ring.Event) {
	l := ln.conn.loop
	switch {
	case ev.Err != 0:
		if !ring.TransientAccept(ev.Err) && !l.stopping {
			l.proxy.fail("accept: " + ev.Err.Error())
			l.stop(0)
			return
		}
		l.counts.acceptErrors++
		if outOfDescriptors(ev.Err) {
			l.starve()
		}
	case l.stopping:
		closeNow(ev.FD)
	default:
		l.counts.accepted++
		l.serve(ev.FD, ln.tls, ln.unix)
		if len(l.clients) >= l.admission.room && !l.admission.full && !l.admission.idle.ripe(l.now) {
			l.admission.full = true
			l.counts.acceptPauses++
			for _, each := range l.listeners {
				l.ring.Pause(each.conn.tag())
			}
		}
	}
}

// again resumes accepting after a pause.
func (ln *listener) again() {
	if ln.conn.fd >= 0 {
		ln.conn.loop.ring.Accept(int(ln.conn.fd), ln.conn.tag())
	}
}

func (ln *listener) received([]byte)          {}
func (ln *listener) ended(syscall.Errno)      {}
func (ln *listener) unsendable(syscall.Errno) {}
func (ln *listener) stalled()                 {}
func (ln *listener) drained()                 {}
func (ln *listener) expired()                 {}
