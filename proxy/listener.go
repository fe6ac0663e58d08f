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

// expired closes it once its queue is empty: a client in the queue may have sent its request, see loop.stop.
func (ln *listener) expired() {
	l := ln.conn.loop
	l.ring.Release(int(ln.conn.fd), ln.conn.tag())
	for range queueMost {
		fd, _, err := syscall.Accept4(int(ln.conn.fd), syscall.SOCK_NONBLOCK|syscall.SOCK_CLOEXEC)
		if err != nil { // it is empty, or the client has left
			break
		}
		ln.accepted(&ring.Event{FD: fd})
	}
	closeNow(int(ln.conn.fd)) // the ring would do it after the turn, and more come until then
	ln.conn.fd = -1
	l.forget(&ln.conn)
}

// queueMost bounds the clients that an ending loop takes: those of a flood never end.
const queueMost = 4096

func (ln *listener) received([]byte)          {}
func (ln *listener) ended(syscall.Errno)      {}
func (ln *listener) unsendable(syscall.Errno) {}
func (ln *listener) stalled()                 {}
func (ln *listener) drained()                 {}
