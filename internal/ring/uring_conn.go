//go:build linux

package ring

import (
	"slices"
	"syscall"
	"unsafe"

	"golang.org/x/sys/unix"
)

// Operations in the top byte of user_data.
const (
	doConnect = iota + 1
	doAccept
	doReceive
	doSend
	doClose
	doCancel
	doPollIn
	doPollOut
	doDiscard
)

// uconn is io_uring's state of one connection: one cache line. fd is -1 if there is none.
type uconn struct {
	tag Tag
	fd  int32
	// sentIn is the epoch of the last send.
	sentIn uint32
	// role is what the caller wants from the socket: Received, Accepted or nothing.
	role Kind
	// live: the kernel has the multishot of role. rearming: it is in uring.rearm or pausing.
	live, rearming bool
	connecting     bool
	// receives is how data is requested from the kernel, as bits, to fit one cache line.
	receives receiving
	// waiting: the kernel has a send that waits for room in the socket's buffer.
	waiting bool
	// deferred: the connection is in uring.deferred. closing: it will be closed from there.
	deferred, closing bool
	// out is the send that the kernel has, or had last. The reference keeps the memory from being
	// collected while only the kernel knows its address.
	out outgoing
	// box holds the sends after out; nil until there is one.
	box *outbox
}

// receiving is how data is requested from the kernel.
type receiving uint8

const (
	once       receiving = 1 << iota // role ends with its first event
	single                           // each piece is requested separately: a unix socket
	known                            // single has been determined
	discarding                       // the kernel has a Discard
)

// conn returns the state of fd under the tag t, which is reset if the index had another connection.
func (u *uring) conn(fd int, t Tag) *uconn {
	for int(t.Index()) >= len(u.conns) {
		if len(u.conns) == cap(u.conns) { // twice as many: steps of a quarter leave four times the memory behind
			u.conns = slices.Grow(u.conns, len(u.conns)+64)
		}
		u.conns = append(u.conns, uconn{fd: -1})
	}
	k := &u.conns[t.Index()]
	if k.tag != t || k.fd != int32(fd) {
		if k.closing { // its deferred send has lost its place
			u.drop(k)
		}
		u.forget(k)
		k.tag, k.fd = t, int32(fd)
	}
	return k
}

// current returns the state of t, nil if it has been closed.
func (u *uring) current(t Tag) *uconn {
	if int(t.Index()) < len(u.conns) {
		if k := &u.conns[t.Index()]; k.tag == t && k.fd >= 0 {
			return k
		}
	}
	return nil
}

// forget empties k. Entries not yet submitted may point to its memory.
func (u *uring) forget(k *uconn) {
	if k.fd >= 0 && len(k.out.b) > 0 {
		u.keep = append(u.keep, unsafe.Pointer(unsafe.SliceData(k.out.b)))
	}
	box := k.box
	if box != nil {
		box.empty()
	}
	*k = uconn{fd: -1, box: box}
}

// connect needs the address until the kernel copies it, when it takes the entry (io_uring/net.c
// io_connect_prep).
func (u *uring) connect(fd int, to *Sockaddr, t Tag) {
	k := u.conn(fd, t)
	k.connecting = true
	s := u.next()
	s.opcode, s.fd, s.userData = opConnect, int32(fd), userData(doConnect, t)
	s.addr, s.off = uint64(uintptr(unsafe.Pointer(&to.raw))), uint64(to.length)
	u.keep = append(u.keep, unsafe.Pointer(to)) // also keeps the address off a stack, which moves
}

func (u *uring) connected(t Tag) {
	if k := u.current(t); k != nil {
		k.connecting = false
	}
}

func (u *uring) accept(fd int, t Tag)  { u.want(fd, t, Accepted) }
func (u *uring) receive(fd int, t Tag) { u.want(fd, t, Received) }

func (u *uring) receiveOnce(fd int, t Tag) { u.conn(fd, t).receives |= once; u.wanted(fd, t, Received) }

func (u *uring) want(fd int, t Tag, role Kind) {
	u.conn(fd, t).receives &^= once
	u.wanted(fd, t, role)
}

func (u *uring) wanted(fd int, t Tag, role Kind) {
	k := u.conn(fd, t)
	if role == Received && k.receives&known == 0 {
		k.receives |= known
		if singly(k.fd) {
			k.receives |= single
		}
	}
	k.role = role
	if !k.live && !k.rearming { // live after a Pause: ended arms it again
		u.arm(k)
	}
}

func (u *uring) arm(k *uconn) {
	k.live = true
	s := u.next()
	s.fd = k.fd
	if k.role == Accepted {
		s.opcode, s.userData, s.ioprio = opAccept, userData(doAccept, k.tag), ioprioAcceptMul
		s.opFlags = syscall.SOCK_NONBLOCK | syscall.SOCK_CLOEXEC
		return
	}
	s.opcode, s.userData, s.ioprio, s.flags = opRecv, userData(doReceive, k.tag), ioprioMultishot, sqeBufferSelect
	if k.receives&(once|single) != 0 {
		s.ioprio = 0
	}
}

// singly reports whether each piece of a socket must be requested separately. Since Linux 6.17 a
// unix socket reports how much is left in it (msg_inq, net/unix/af_unix.c), and 0 keeps a multishot
// from retrying (io_uring/net.c, io_recv_finish): if the peer closes right after its last bytes,
// the end of the stream is then never reported, once in some hundred streams of small pieces. TCP
// counts a FIN as one byte there. A newly submitted receive checks by itself.
func singly(fd int32) bool {
	domain, err := unix.GetsockoptInt(int(fd), unix.SOL_SOCKET, unix.SO_DOMAIN)
	return err == nil && domain == unix.AF_UNIX
}

func (u *uring) armAgain(t Tag) {
	k := u.current(t)
	if k == nil {
		return // closed by now
	}
	k.rearming = false
	if k.role != 0 && !k.live {
		u.arm(k)
	}
}

// ended notes that a multishot has ended, and arms it again if the caller still wants it. It
// reports whether the event has nothing for the caller.
func (u *uring) ended(ev *Event, c *cqe) (silent bool) {
	silent = ev.Err == syscall.ENOBUFS || ev.Err == syscall.EINTR || ev.Err == syscall.EAGAIN || ev.Err == syscall.ECANCELED
	k := u.current(ev.Tag)
	if k == nil {
		return silent
	}
	k.live = false
	if k.receives&once != 0 && !silent {
		k.role = 0
	}
	again := silent || c.res > 0 || ev.Kind == Accepted && (ev.Err == 0 || TransientAccept(ev.Err))
	switch {
	case !again:
		k.role = 0
	case k.role == 0 || k.rearming:
	case ev.Kind == Accepted && exhausted(ev.Err):
		k.rearming = true
		u.resting.add(ev.Tag)
	case len(ev.Data) > 0:
		k.rearming = true
		u.served = append(u.served, ev.Tag)
	default:
		k.rearming = true
		u.rearm = append(u.rearm, ev.Tag)
	}
	return silent
}

// pause ends the multishot; its completion comes with ECANCELED.
func (u *uring) pause(t Tag) {
	k := u.current(t)
	if k == nil || k.role == 0 {
		return
	}
	if k.live {
		u.cancel(userData(k.operation(), t))
	}
	k.role = 0
}

func (k *uconn) operation() uint64 {
	if k.role == Accepted {
		return doAccept
	}
	return doReceive
}

// cancel ends the request with this user_data, which looks into one hash bucket. Cancelling by
// descriptor would walk all requests of the ring (io_uring/poll.c io_poll_file_find).
func (u *uring) cancel(target uint64) {
	s := u.next()
	s.opcode, s.fd, s.addr = opAsyncCancel, -1, target
	s.userData, s.flags = userData(doCancel, 0), sqeCQESkipSuccess
}

// close cancels first: the kernel's pending operations hold a socket open.
func (u *uring) close(fd int, t Tag) {
	k := u.current(t)
	if k == nil || k.fd != int32(fd) {
		u.closeNow(fd, t)
		return
	}
	if k.deferred && !k.waiting { // earlier sends are tried first
		k.closing = true
		return
	}
	u.drop(k)
}

func (u *uring) release(_ int, t Tag) {
	if k := u.current(t); k != nil {
		u.forget(k)
	}
}

func (u *uring) drop(k *uconn) {
	if k.live && k.role != 0 { // without a role a Pause has cancelled it
		u.cancel(userData(k.operation(), k.tag))
	}
	if k.connecting {
		u.cancel(userData(doConnect, k.tag))
	}
	if k.waiting {
		u.cancel(userData(doSend, k.tag))
	}
	if k.receives&discarding != 0 {
		u.cancel(userData(doDiscard, k.tag))
	}
	fd, t := int(k.fd), k.tag
	if len(u.polls) > 0 {
		u.unpoll(t)
	}
	u.forget(k)
	u.closeNow(fd, t)
}

func (u *uring) closeNow(fd int, t Tag) {
	s := u.next()
	s.opcode, s.fd, s.userData, s.flags = opClose, int32(fd), userData(doClose, t), sqeCQESkipSuccess
}
