//go:build linux

package ring

import (
	"errors"
	"os"
	"syscall"
	"time"
	"unsafe"

	"golang.org/x/sys/unix"
)

// The uses of a socket under epoll.
const (
	roleNone = iota
	roleConnecting
	roleReceiving
	roleAccepting
	roleReadable
	roleDiscarding
)

// watch is the state of one descriptor. It is registered once, edge-triggered, for reading and
// writing: it needs no further epoll_ctl.
type watch struct {
	tag  Tag
	fd   int32
	role uint8
	// ready: an edge reported data to read; cleared by a short read. queued: the watch is in
	// epoll.ready.
	ready, queued bool
	// hung: the peer has closed, so another read follows a short one.
	hung bool
	// once: role ends with its first event.
	once bool
	// most of a Discard.
	most int
	// registered with the epoll descriptor.
	registered bool
	// waiting: out found the socket's buffer full; box holds the sends after it.
	waiting bool
	// fed: a Writable was requested.
	fed bool
	out outgoing
	box outbox
}

type sending struct {
	outgoing
	tag Tag
}

// epoll does each operation in Wait, so that the time of a send is the time of the Wait under both
// engines.
type epoll struct {
	fd      int
	watches []watch
	sends   []sending
	ready   []uint32 // indices of watches with something to read
	spare   []uint32
	kernel  []unix.EpollEvent
	events  []Event
	early   []Event // events of operations, until the next Wait returns them
	resting rest    // listeners that wait for descriptors or memory
	rested  []Tag
	broken  error  // of a close
	arena   []byte // the receive buffers of one batch
	used    int
	piece   int // the most one read takes
}

func openEpoll(c Config) (*epoll, error) {
	fd, err := unix.EpollCreate1(unix.EPOLL_CLOEXEC)
	if err != nil {
		return nil, os.NewSyscallError("epoll_create1", err)
	}
	return &epoll{
		fd:     fd,
		kernel: make([]unix.EpollEvent, 1024),
		events: make([]Event, 0, 1024),
		arena:  make([]byte, c.Buffers*c.BufferBytes),
		piece:  c.BufferBytes,
	}, nil
}

func (e *epoll) watch(fd int, t Tag) *watch {
	for int(t.Index()) >= len(e.watches) {
		e.watches = append(e.watches, watch{fd: -1})
	}
	w := &e.watches[t.Index()]
	if w.tag != t || w.fd != int32(fd) {
		w.forget()
		w.tag, w.fd = t, int32(fd)
	}
	return w
}

// current returns the state of t, nil if it has been closed.
func (e *epoll) current(t Tag) *watch {
	if int(t.Index()) < len(e.watches) {
		if w := &e.watches[t.Index()]; w.tag == t && w.fd >= 0 {
			return w
		}
	}
	return nil
}

func (w *watch) forget() {
	w.box.empty()
	*w = watch{fd: -1, queued: w.queued, box: w.box}
}

func (e *epoll) register(w *watch) error {
	if w.registered {
		return nil
	}
	ev := unix.EpollEvent{Events: unix.EPOLLIN | unix.EPOLLOUT | unix.EPOLLRDHUP | unix.EPOLLET}
	*(*Tag)(unsafe.Pointer(&ev.Fd)) = w.tag // epoll_data has 64 bits: Fd and Pad
	err := unix.EpollCtl(e.fd, unix.EPOLL_CTL_ADD, int(w.fd), &ev)
	if err == unix.EEXIST { // under an earlier tag
		err = unix.EpollCtl(e.fd, unix.EPOLL_CTL_MOD, int(w.fd), &ev)
	}
	if err != nil {
		return err
	}
	w.registered = true
	return nil
}

// failed holds an operation's error until the next Wait returns it.
func (e *epoll) failed(k Kind, t Tag, err error) {
	var no syscall.Errno
	if !errors.As(err, &no) {
		no = syscall.EIO
	}
	e.early = append(e.early, Event{Kind: k, Tag: t, Err: no})
}

func (e *epoll) connect(fd int, to *Sockaddr, t Tag) {
	w := e.watch(fd, t)
	w.role = roleConnecting
	_, _, no := syscall.RawSyscall(syscall.SYS_CONNECT, uintptr(fd), uintptr(unsafe.Pointer(&to.raw)), uintptr(to.length))
	if no != 0 && no != syscall.EINPROGRESS {
		w.role = roleNone
		e.failed(Connected, t, no)
		return
	}
	if err := e.register(w); err != nil {
		w.role = roleNone
		e.failed(Connected, t, err)
	}
}

func (e *epoll) accept(fd int, t Tag) { e.listenFor(fd, t, roleAccepting, Accepted) }

func (e *epoll) receive(fd int, t Tag) {
	e.watch(fd, t).once = false
	e.listenFor(fd, t, roleReceiving, Received)
}

func (e *epoll) receiveOnce(fd int, t Tag) {
	e.watch(fd, t).once = true
	e.listenFor(fd, t, roleReceiving, Received)
}

// listenFor reads at once: data that came before the registration makes no edge.
func (e *epoll) listenFor(fd int, t Tag, role uint8, k Kind) {
	w := e.watch(fd, t)
	w.role = role
	if err := e.register(w); err != nil {
		e.failed(k, t, err)
		return
	}
	w.ready = true
	e.enqueue(w)
}

func (e *epoll) enqueue(w *watch) {
	if !w.queued {
		w.queued = true
		e.ready = append(e.ready, w.tag.Index())
	}
}

// pause leaves the socket registered; edges that arrive in the pause count later.
func (e *epoll) pause(t Tag) {
	if w := e.current(t); w != nil && (w.role == roleReceiving || w.role == roleAccepting) {
		w.role = roleNone
	}
}

func (e *epoll) send(fd int, o outgoing, t Tag) {
	e.watch(fd, t)
	e.sends = append(e.sends, sending{o, t})
}

// unsent returns the bytes that did not fit the socket's buffer.
func (e *epoll) unsent(t Tag) int {
	w := e.current(t)
	if w == nil || !w.waiting {
		return 0
	}
	return len(w.out.b) + w.box.bytes()
}

func (e *epoll) close(fd int, t Tag) {
	e.flush() // sends queued earlier leave first
	if w := e.current(t); w != nil && w.fd == int32(fd) {
		w.forget()
	}
	if err := syscall.Close(fd); err != nil && err != syscall.EINTR && e.broken == nil {
		e.broken = os.NewSyscallError("close", err)
	}
}

// release ends the registration: the socket outlives its watch.
func (e *epoll) release(fd int, t Tag) {
	w := e.current(t)
	if w == nil {
		return
	}
	if w.registered {
		if err := unix.EpollCtl(e.fd, unix.EPOLL_CTL_DEL, fd, nil); err != nil && e.broken == nil {
			e.broken = os.NewSyscallError("epoll_ctl", err)
		}
	}
	w.forget()
}

// flush writes what is queued.
func (e *epoll) flush() {
	for i := range e.sends {
		s := &e.sends[i]
		switch w := e.current(s.tag); {
		case w == nil: // closed by now
		case w.waiting: // keep the order
			w.box.put(s.outgoing)
		default:
			w.out, w.waiting = s.outgoing, true
			e.write(w)
		}
		s.outgoing = outgoing{}
	}
	e.sends = e.sends[:0]
}

// write sends w.out and the sends after it, as far as the socket's buffer has room.
func (e *epoll) write(w *watch) {
	for {
		b := w.out.b
		n, _, no := syscall.RawSyscall6(syscall.SYS_SENDTO, uintptr(w.fd), uintptr(unsafe.Pointer(unsafe.SliceData(b))), uintptr(len(b)),
			syscall.MSG_NOSIGNAL, 0, 0)
		switch no {
		case 0:
			w.out.b = b[n:]
			if len(w.out.b) == 0 && !e.nextOut(w) {
				return
			}
		case syscall.EINTR:
		case syscall.EAGAIN:
			if err := e.register(w); err != nil {
				e.sendFailed(w, err)
			}
			return
		default:
			e.sendFailed(w, no)
			return
		}
	}
}

// nextOut continues with the send after the one that has left.
func (e *epoll) nextOut(w *watch) bool {
	if w.out.notify {
		e.early = append(e.early, Event{Kind: Sent, Tag: w.tag})
	}
	w.out, w.waiting = w.box.take()
	return w.waiting
}

func (e *epoll) sendFailed(w *watch, err error) {
	w.out, w.waiting = outgoing{}, false
	w.box.empty()
	e.failed(SendFailed, w.tag, err)
}

func (e *epoll) wait(p Patience) ([]Event, error) {
	e.events, e.used = e.events[:0], 0
	e.flush()
	if e.broken != nil {
		return nil, e.broken
	}
	e.rested, p.Timeout = e.resting.over(e.rested[:0], p.Timeout)
	for _, t := range e.rested {
		if w := e.current(t); w != nil {
			e.enqueue(w)
		}
	}
	if len(e.ready) > 0 || len(e.early) > 0 {
		p.Timeout = 0
	}
	n, err := e.poll(p.Timeout)
	if err != nil {
		return nil, err
	}
	for i := range n {
		e.note(&e.kernel[i])
	}
	e.readAll()
	e.events = append(e.events, e.early...)
	e.early = e.early[:0]
	return e.events, nil
}

// poll waits with nanosecond precision if the kernel has epoll_pwait2 (Linux 5.11), to the next
// millisecond otherwise.
func (e *epoll) poll(timeout time.Duration) (int, error) {
	ts := unix.NsecToTimespec(int64(max(timeout, 0)))
	n, _, no := syscall.RawSyscall6(unix.SYS_EPOLL_PWAIT2, uintptr(e.fd), uintptr(unsafe.Pointer(&e.kernel[0])), uintptr(len(e.kernel)),
		uintptr(unsafe.Pointer(&ts)), 0, 0)
	if no == syscall.ENOSYS {
		ms := (max(timeout, 0) + time.Millisecond - 1) / time.Millisecond
		n, _, no = syscall.RawSyscall6(syscall.SYS_EPOLL_PWAIT, uintptr(e.fd), uintptr(unsafe.Pointer(&e.kernel[0])), uintptr(len(e.kernel)),
			uintptr(ms), 0, 0)
	}
	switch no {
	case 0:
		return int(n), nil
	case syscall.EINTR:
		return 0, nil
	}
	return 0, os.NewSyscallError("epoll_pwait2", no)
}

// note handles one edge.
func (e *epoll) note(k *unix.EpollEvent) {
	t := *(*Tag)(unsafe.Pointer(&k.Fd))
	w := e.current(t)
	if w == nil {
		return // closed by now
	}
	if w.role == roleConnecting {
		if k.Events&(unix.EPOLLOUT|unix.EPOLLERR|unix.EPOLLHUP) == 0 {
			return
		}
		w.role = roleNone
		e.events = append(e.events, Event{Kind: Connected, Tag: t, Err: socketError(w.fd)})
	}
	if k.Events&(unix.EPOLLOUT|unix.EPOLLERR|unix.EPOLLHUP) != 0 && w.waiting {
		e.write(w)
	}
	if k.Events&(unix.EPOLLOUT|unix.EPOLLERR|unix.EPOLLHUP) != 0 && w.fed {
		w.fed = false
		e.events = append(e.events, Event{Kind: Writable, Tag: t})
	}
	if k.Events&(unix.EPOLLRDHUP|unix.EPOLLHUP|unix.EPOLLERR) != 0 {
		w.hung = true
	}
	if k.Events&(unix.EPOLLIN|unix.EPOLLRDHUP|unix.EPOLLHUP|unix.EPOLLERR) != 0 {
		w.ready = true
		switch w.role {
		case roleReceiving, roleAccepting, roleDiscarding:
			e.enqueue(w)
		case roleReadable:
			w.role = roleNone
			e.events = append(e.events, Event{Kind: Readable, Tag: t})
		}
	}
}

func socketError(fd int32) syscall.Errno {
	v, err := unix.GetsockoptInt(int(fd), unix.SOL_SOCKET, unix.SO_ERROR)
	if err != nil {
		var no syscall.Errno
		errors.As(err, &no)
		return no
	}
	return syscall.Errno(v)
}

// readAll reads once from each ready socket, as far as the buffers reach. Sockets that found no
// buffer come first in the next Wait, before those that were served and have more: otherwise a few
// busy sockets would starve the rest.
func (e *epoll) readAll() {
	todo := e.ready
	e.ready = e.spare[:0] // for those that have more
	served := 0
	for ; served < len(todo) && len(e.arena)-e.used >= e.piece; served++ {
		w := &e.watches[todo[served]]
		w.queued = false
		if w.fd < 0 || !w.ready {
			continue
		}
		switch w.role {
		case roleReceiving:
			e.read(w)
		case roleDiscarding:
			e.skip(w)
		case roleAccepting:
			e.take(w)
		}
	}
	left := copy(todo, todo[served:])
	e.ready, e.spare = append(todo[:left], e.ready...), e.ready[:0]
}

func (e *epoll) read(w *watch) {
	b := e.arena[e.used : e.used+e.piece]
	n, _, no := syscall.RawSyscall6(syscall.SYS_RECVFROM, uintptr(w.fd), uintptr(unsafe.Pointer(&b[0])), uintptr(len(b)), 0, 0, 0)
	switch no {
	case 0:
	case syscall.EINTR:
		e.enqueue(w)
		return
	case syscall.EAGAIN:
		w.ready = false
		return
	default:
		w.ready, w.role = false, roleNone
		e.events = append(e.events, Event{Kind: Received, Tag: w.tag, Err: no})
		return
	}
	if n == 0 {
		w.ready, w.role = false, roleNone
		e.events = append(e.events, Event{Kind: Received, Tag: w.tag})
		return
	}
	e.used += (int(n) + 63) &^ 63 // the next piece starts on a cache line
	e.events = append(e.events, Event{Kind: Received, Tag: w.tag, Data: b[:n:n]})
	if w.once {
		w.role = roleNone
		return
	}
	if int(n) < len(b) && !w.hung {
		w.ready = false // drained: later data makes a new edge
		return
	}
	e.enqueue(w)
}

// take accepts until the queue is empty, at most 64 at a time, so that a flood of connections does
// not starve the established ones.
func (e *epoll) take(w *watch) {
	for range 64 {
		fd, _, no := syscall.RawSyscall6(syscall.SYS_ACCEPT4, uintptr(w.fd), 0, 0, syscall.SOCK_NONBLOCK|syscall.SOCK_CLOEXEC, 0, 0)
		switch {
		case no == 0:
			e.events = append(e.events, Event{Kind: Accepted, Tag: w.tag, FD: int(fd)})
		case no == syscall.EAGAIN:
			w.ready = false
			return
		case no == syscall.EINTR:
		default:
			e.events = append(e.events, Event{Kind: Accepted, Tag: w.tag, Err: no})
			switch {
			case exhausted(no):
				e.resting.add(w.tag)
			case TransientAccept(no):
				e.enqueue(w)
			}
			return
		}
	}
	e.enqueue(w)
}

// shut does what is queued: the sends that no Wait has written yet.
func (e *epoll) shut() error {
	if e.fd < 0 {
		return nil
	}
	e.flush()
	err := errors.Join(e.broken, os.NewSyscallError("close epoll", syscall.Close(e.fd)))
	*e = epoll{fd: -1}
	return err
}
