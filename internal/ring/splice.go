//go:build linux

package ring

import (
	"os"
	"syscall"

	"golang.org/x/sys/unix"
)

// Bytes can go from one socket to another without a copy: through a pipe, which holds references to
// the pages that the kernel received into (splice(2), net/ipv4/tcp.c tcp_splice_read). io_uring
// always runs its own splice on a kernel thread (io_uring/splice.c io_splice_prep sets
// REQ_F_FORCE_ASYNC), so the ring only reports when a socket is ready, and the calls are made
// directly.

// Pipe is the pipe that bytes pass through. It belongs to a ring's thread.
type Pipe struct{ in, out int }

// OpenPipe makes a pipe of so many bytes, or as many as the system grants: fs.pipe-user-pages-soft
// limits an unprivileged user's total, and a smaller pipe only takes more calls.
func OpenPipe(bytes int) (*Pipe, error) {
	var ends [2]int
	if err := unix.Pipe2(ends[:], unix.O_CLOEXEC|unix.O_NONBLOCK); err != nil {
		return nil, os.NewSyscallError("pipe2", err)
	}
	_, _ = unix.FcntlInt(uintptr(ends[1]), unix.F_SETPIPE_SZ, bytes)
	return &Pipe{in: ends[1], out: ends[0]}, nil
}

// Close drops the contents of the pipe.
func (p *Pipe) Close() {
	_, _ = syscall.Close(p.in), syscall.Close(p.out) // both are open, and have nothing to flush that could fail
}

// Quiet reports whether no Received event can come any more after a Pause, or after the event of a
// ReceiveOnce: then the socket can be read by other means.
func (r *Ring) Quiet(t Tag) bool {
	u, is := r.kernel.(*uring)
	if !is {
		return true // epoll only reads in Wait
	}
	k := u.current(t)
	return k == nil || !k.live && !k.rearming
}

// Readable requests one Readable event, when there is data to read, or the end, or an error. It may
// be spurious.
func (r *Ring) Readable(fd int, t Tag) {
	switch e := r.kernel.(type) {
	case *uring:
		e.poll(fd, t, doPollIn, unix.POLLIN|unix.POLLRDHUP)
	case *epoll:
		e.readable(fd, t)
	}
}

// Writable requests one Writable event, when there is room again after a Drain found none.
func (r *Ring) Writable(fd int, t Tag) {
	switch e := r.kernel.(type) {
	case *uring:
		e.poll(fd, t, doPollOut, unix.POLLOUT)
	case *epoll:
		e.writable(fd, t)
	}
}

// Fill moves up to most bytes that a quiet socket has received into the pipe; 0 without an error is
// the peer's end. EAGAIN: there is nothing; Readable reports when there is.
func (r *Ring) Fill(p *Pipe, fd int, t Tag, most int) (int, syscall.Errno) {
	n, no := splice(fd, p.in, most)
	if e, is := r.kernel.(*epoll); is && no == syscall.EAGAIN {
		if w := e.current(t); w != nil {
			w.ready = false // later data makes a new edge
		}
	}
	return n, no
}

// Drain moves up to most bytes of the pipe into the socket. All sends to it must have left. EAGAIN:
// there is no room; Writable reports when there is.
func (r *Ring) Drain(p *Pipe, fd, most int) (int, syscall.Errno) { return splice(p.out, fd, most) }

// splice does not set SPLICE_F_MORE, which would delay the last packet by 200 ms if the source
// pauses.
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

// poll adds a poll that ends with its first event. A map holds the connections with one, since few
// have: uconn is a cache line.
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

// polled handles the end of a poll; false if it was cancelled.
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
	ev.Err = 0 // the next call reports the socket's error
	return !cancelled
}

// unpoll cancels the polls of a connection that is being closed: they hold its socket.
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
