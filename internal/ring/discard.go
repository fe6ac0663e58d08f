//go:build linux

package ring

import (
	"syscall"
)

// discard does not use MSG_WAITALL: a request that continues after a part asks for the whole number
// again, since nothing was copied that would advance its iterator (io_uring/net.c io_recv), and
// would so consume the bytes that follow.
func (u *uring) discard(fd, n int, t Tag) {
	k := u.conn(fd, t)
	k.receives |= discarding
	k.role = 0
	s := u.next()
	s.opcode, s.fd, s.userData = opRecv, int32(fd), userData(doDiscard, t)
	s.length, s.opFlags = uint32(n), syscall.MSG_TRUNC
}

// discarded handles the end of a discard.
func (u *uring) discarded(ev *Event, c *cqe) {
	ev.Kind, ev.N = Discarded, int(max(c.res, 0))
	if k := u.current(ev.Tag); k != nil {
		k.receives &^= discarding
	}
}

func (e *epoll) discard(fd, n int, t Tag) {
	e.watch(fd, t).most = n
	e.listenFor(fd, t, roleDiscarding, Discarded)
}

// skip reads without copying.
func (e *epoll) skip(w *watch) {
	n, _, no := syscall.RawSyscall6(syscall.SYS_RECVFROM, uintptr(w.fd), 0, uintptr(w.most), syscall.MSG_TRUNC, 0, 0)
	switch no {
	case 0:
		w.ready = int(n) == w.most || w.hung
	case syscall.EINTR:
		e.enqueue(w)
		return
	case syscall.EAGAIN:
		w.ready = false
		return
	default:
		n, w.ready = 0, false
	}
	w.role = roleNone
	e.events = append(e.events, Event{Kind: Discarded, Tag: w.tag, N: int(n), Err: no})
}
