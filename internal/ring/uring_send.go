//go:build linux

package ring

import (
	"syscall"
	"unsafe"
)

// The order of sends. The kernel does not order two sends to one socket: if the first found the
// buffer full and waits, the second may find room and overtake its rest. So the kernel never has
// more than one per socket. A first attempt must not wait (MSG_DONTWAIT) and ends with its
// submission; if it was sent whole, there is no completion at all. A second kind of send, which
// waits for room, sends the rest, and later sends stay in the connection's box until then.

// sendMost bounds one send: its result is a signed 32-bit number, and the kernel takes at most
// MAX_RW_COUNT, 2 GiB less a page, at once (fs/read_write.c, io_uring/net.c). The rest of a longer one
// follows as after any short send.
const sendMost = 1 << 30

func (u *uring) send(fd int, o outgoing, t Tag) {
	k := u.conn(fd, t)
	if k.sentIn == u.epoch || k.waiting || k.deferred {
		if k.box == nil {
			k.box = new(outbox)
		}
		k.box.put(o)
		if !k.waiting && !k.deferred {
			k.deferred = true
			u.deferred = append(u.deferred, t)
		}
		return
	}
	u.try(k, o)
}

// try sends what the socket's buffer takes now. MSG_WAITALL makes a short send a failure, which is
// reported although successes are skipped (req_set_fail clears REQ_F_CQE_SKIP), with the bytes sent
// (io_sendrecv_fail).
func (u *uring) try(k *uconn, o outgoing) {
	k.sentIn, k.out = u.epoch, o
	s := u.sendEntry(k)
	s.opFlags = syscall.MSG_DONTWAIT | syscall.MSG_WAITALL | syscall.MSG_NOSIGNAL
	if !o.notify && len(o.b) <= sendMost {
		s.flags = sqeCQESkipSuccess
	}
}

// await sends the rest of k.out when there is room. It does not set MSG_WAITALL, so that each piece
// completes: a request woken 128 times moves to a kernel thread (io_uring/poll.c APOLL_MAX_RETRY).
func (u *uring) await(k *uconn) {
	k.waiting = true
	s := u.sendEntry(k)
	s.ioprio, s.opFlags = ioprioPollFirst, syscall.MSG_NOSIGNAL
}

func (u *uring) sendEntry(k *uconn) *sqe {
	s := u.next()
	s.opcode, s.fd, s.userData = opSend, k.fd, userData(doSend, k.tag)
	s.addr, s.length = uint64(uintptr(unsafe.Pointer(unsafe.SliceData(k.out.b)))), uint32(min(len(k.out.b), sendMost))
	return s
}

// sent handles the completion of the one send that the kernel had.
func (u *uring) sent(t Tag, res int32) {
	k := u.current(t)
	if k == nil {
		return // closed by now
	}
	switch {
	case int(res) == len(k.out.b):
		if k.out.notify {
			u.events = append(u.events, Event{Kind: Sent, Tag: t})
		}
		k.out = outgoing{}
		if !k.waiting {
			return // deferred work is done in its turn
		}
		k.waiting = false
		if o, ok := k.box.take(); ok {
			k.out = o
			u.await(k)
		}
	case res >= 0:
		k.out.b = k.out.b[res:]
		u.await(k)
	case res == -int32(syscall.EAGAIN) || res == -int32(syscall.EINTR):
		u.await(k)
	default:
		k.waiting, k.out = false, outgoing{}
		k.box.empty()
		u.events = append(u.events, Event{Kind: SendFailed, Tag: t, Err: syscall.Errno(-res)})
	}
}

// undefer continues with the connections that had more than one thing to do in the epoch that has
// ended.
func (u *uring) undefer() {
	todo := u.deferred
	u.deferred = u.spare[:0]
	for _, t := range todo {
		k := u.current(t)
		if k == nil {
			continue
		}
		if !k.waiting { // else completions empty the box
			if o, ok := k.box.take(); ok {
				u.try(k, o)
				if k.closing || k.box.len() > 0 {
					u.deferred = append(u.deferred, t)
					continue
				}
			}
		}
		k.deferred = false
		if k.closing {
			u.drop(k)
		}
	}
	u.spare = todo[:0]
}

// unsent returns the bytes that did not fit the socket's buffer.
func (u *uring) unsent(t Tag) int {
	k := u.current(t)
	if k == nil || !k.waiting {
		return 0
	}
	return len(k.out.b) + k.box.bytes()
}
