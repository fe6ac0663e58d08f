package ring

import (
	"os"
	"syscall"

	"golang.org/x/sys/unix"
)

// Bytes can go from one socket to another without a copy: through a pipe, which
// holds references to the pages that the kernel received into (splice(2),
// net/ipv4/tcp.c tcp_splice_read). io_uring's own splice is always given to a
// kernel thread (io_uring/splice.c io_splice_prep sets REQ_F_FORCE_ASYNC), so that
// the ring only says when a socket is ready, and the calls are made at once.

// Pipe is what bytes pass through. It belongs to a ring's thread.
type Pipe struct{ in, out int }

// OpenPipe makes a pipe of so many bytes, or as many as the system grants:
// fs.pipe-user-pages-soft bounds what a user without privileges has in all, and a
// smaller pipe does the same in more calls.
func OpenPipe(bytes int) (*Pipe, error) {
	var ends [2]int
	if err := unix.Pipe2(ends[:], unix.O_CLOEXEC|unix.O_NONBLOCK); err != nil {
		return nil, os.NewSyscallError("pipe2", err)
	}
	_, _ = unix.FcntlInt(uintptr(ends[1]), unix.F_SETPIPE_SZ, bytes)
	return &Pipe{in: ends[1], out: ends[0]}, nil
}

// Close drops what is in the pipe.
func (p *Pipe) Close() {
	_, _ = syscall.Close(p.in), syscall.Close(p.out) // they are open, and hold nothing that could fail to be written
}

// Quiet tells that no Received event comes any more after a Pause, or after the
// event of a ReceiveOnce: the socket can be read by other means.
func (r *Ring) Quiet(t Tag) bool {
	if r.uring == nil {
		return true // it reads within Wait alone
	}
	k := r.uring.current(t)
	return k == nil || !k.live && !k.rearming
}

// Readable asks for one Readable event, when there is something to be read, or the
// end, or an error. It may come without cause.
func (r *Ring) Readable(fd int, t Tag) {
	if r.uring != nil {
		r.uring.poll(fd, t, doPollIn, unix.POLLIN|unix.POLLRDHUP)
		return
	}
	r.epoll.readable(fd, t)
}

// Writable asks for one Writable event, when there is room again after a Drain that
// found none.
func (r *Ring) Writable(fd int, t Tag) {
	if r.uring != nil {
		r.uring.poll(fd, t, doPollOut, unix.POLLOUT)
		return
	}
	r.epoll.writable(fd, t)
}

// Fill moves what a quiet socket has received into the pipe, most bytes of it; 0
// without an error is the peer's end. EAGAIN: there is nothing; Readable tells when.
func (r *Ring) Fill(p *Pipe, fd int, t Tag, most int) (int, syscall.Errno) {
	n, no := splice(fd, p.in, most)
	if no == syscall.EAGAIN && r.epoll != nil {
		if w := r.epoll.current(t); w != nil {
			w.ready = false // what comes later makes a new edge
		}
	}
	return n, no
}

// Drain moves most bytes of the pipe into the socket. All sends to it must be out.
// EAGAIN: there is no room; Writable tells when.
func (r *Ring) Drain(p *Pipe, fd, most int) (int, syscall.Errno) { return splice(p.out, fd, most) }

// splice is without SPLICE_F_MORE, which would hold the last packet back for 200 ms
// where the source pauses.
func splice(from, to, most int) (int, syscall.Errno) {
	for {
		n, _, no := syscall.RawSyscall6(syscall.SYS_SPLICE, uintptr(from), 0, uintptr(to), 0, uintptr(most),
			unix.SPLICE_F_MOVE|unix.SPLICE_F_NONBLOCK)
		switch no {
		case 0:
			return int(n), 0
		case syscall.EINTR:
		default:
			return 0, no
		}
	}
}

// poll adds a poll that ends with its first event. The connections that have one are
// in a map, since few do: uconn is a cache line.
func (u *uring) poll(fd int, t Tag, op uint64, mask uint32) {
	bit := uint8(1) << (op - doPollIn)
	if u.polls[t]&bit != 0 {
		return
	}
	u.conn(fd, t)
	u.polls[t] |= bit
	s := u.next()
	s.opcode, s.fd, s.userData, s.opFlags = opPollAdd, int32(fd), userData(op, t), mask
}

// polled takes a poll's end; false when it was cancelled.
func (u *uring) polled(ev *Event, op uint64) bool {
	ev.Kind = Readable
	if op == doPollOut {
		ev.Kind = Writable
	}
	if left := u.polls[ev.Tag] &^ (1 << (op - doPollIn)); left != 0 {
		u.polls[ev.Tag] = left
	} else {
		delete(u.polls, ev.Tag)
	}
	cancelled := ev.Err == syscall.ECANCELED
	ev.Err = 0 // what is wrong with the socket the next call tells
	return !cancelled
}

// unpoll cancels the polls of a connection that is closed: they hold its socket.
func (u *uring) unpoll(t Tag) {
	bits := u.polls[t]
	for op := uint64(doPollIn); op <= doPollOut; op++ {
		if bits&(1<<(op-doPollIn)) != 0 {
			u.cancel(userData(op, t))
		}
	}
	delete(u.polls, t)
}

func (e *epoll) readable(fd int, t Tag) {
	w := e.watch(fd, t)
	if !w.registered {
		if err := e.register(w); err != nil {
			e.failed(Readable, t, err)
			return
		}
		w.ready = true
	}
	if w.ready {
		w.role = roleNone
		e.early = append(e.early, Event{Kind: Readable, Tag: t})
		return
	}
	w.role = roleReadable
}

func (e *epoll) writable(fd int, t Tag) {
	w := e.watch(fd, t)
	if err := e.register(w); err != nil {
		e.failed(Writable, t, err)
		return
	}
	w.fed = true
}
