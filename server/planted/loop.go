package planted

import (
	"bytes"
	"context"
	"fmt"
	"net"
	"os"
	"runtime"
	"strconv"
	"sync"
	"syscall"
)

// serveLoops responds from event loops, as the cheapest servers do: n threads, each with an epoll
// instance and its share of the connections, and prepared responses. The first loop accepts, for
// all in turn. It detects the end of a request by its empty line only, so requests have no body
// here.
func serveLoops(ctx context.Context, p *Params, ready func(string)) error {
	ln, err := listen(ctx, p.Addr, nil)
	if err != nil {
		return err
	}
	file, err := ln.(*net.TCPListener).File() // duplicates
	addr := ln.Addr().String()
	_ = ln.Close() // the copy listens
	if err != nil {
		return err
	}
	defer file.Close()
	wake, end, err := os.Pipe()
	if err != nil {
		return err
	}
	defer wake.Close()
	n := max(1, p.N)
	loops := make([]*loop, n)
	ended := make(chan error, n)
	for i := range loops {
		if loops[i], err = newLoop(int(wake.Fd()), p); err != nil {
			break
		}
		defer loops[i].close()
	}
	if err == nil {
		loops[0].listener, loops[0].all = int(file.Fd()), loops
		if err = syscall.SetNonblock(loops[0].listener, true); err == nil {
			err = loops[0].watch(loops[0].listener, syscall.EPOLL_CTL_ADD, syscall.EPOLLIN)
		}
	}
	if err != nil {
		return fmt.Errorf("event loop: %w", joinClose(err, end))
	}
	for _, l := range loops {
		go func() { ended <- l.run() }()
	}
	ready(addr)
	left := n
	select {
	case <-ctx.Done():
	case err = <-ended:
		left--
	}
	_ = end.Close() // closing the pipe wakes every loop
	for range left {
		if e := <-ended; err == nil {
			err = e
		}
	}
	return err
}

func joinClose(err error, f *os.File) error {
	_ = f.Close()
	return err
}

// loop is one thread's event loop. Other loops only add sockets to its epoll instance.
type loop struct {
	params   *Params
	epoll    int
	wake     int // readable at shutdown
	listener int // -1 except in the first loop
	all      []*loop
	next     int // index of the loop that gets the next connection
	answer   []byte
	buf      []byte

	mu    sync.Mutex // the first loop adds connections
	conns map[int]*looped
}

// looped is one connection.
type looped struct {
	seen    int    // bytes of the empty line seen so far
	pending []byte // unsent responses
	blocked bool   // they did not fit: the loop waits until it can write
}

func newLoop(wake int, p *Params) (*loop, error) {
	fd, err := syscall.EpollCreate1(syscall.EPOLL_CLOEXEC)
	if err != nil {
		return nil, os.NewSyscallError("epoll_create1", err)
	}
	l := &loop{
		params: p, epoll: fd, wake: wake, listener: -1,
		answer: responseOf(p.Bytes, p.Chunks), conns: map[int]*looped{}, buf: make([]byte, 64<<10),
	}
	return l, l.watch(wake, syscall.EPOLL_CTL_ADD, syscall.EPOLLIN)
}

// responseOf builds a response with a body of size bytes, in that many chunks (RFC 9112 §7.1) if
// chunks is not 0.
func responseOf(size, chunks int) []byte {
	var b bytes.Buffer
	b.WriteString("HTTP/1.1 200 OK\r\nContent-Type: text/plain\r\n")
	if chunks == 0 {
		fmt.Fprintf(&b, "Content-Length: %d\r\n\r\n", size)
		b.Write(bytes.Repeat([]byte{'p'}, size))
		return b.Bytes()
	}
	b.WriteString("Transfer-Encoding: chunked\r\n\r\n")
	for i := range chunks {
		part := max(1, size*(i+1)/chunks-size*i/chunks)
		b.WriteString(strconv.FormatInt(int64(part), 16))
		b.WriteString("\r\n")
		b.Write(bytes.Repeat([]byte{'p'}, part))
		b.WriteString("\r\n")
	}
	b.WriteString("0\r\n\r\n")
	return b.Bytes()
}

func (l *loop) watch(fd, op int, events uint32) error {
	return os.NewSyscallError("epoll_ctl", syscall.EpollCtl(l.epoll, op, fd, &syscall.EpollEvent{Events: events, Fd: int32(fd)}))
}

func (l *loop) run() error {
	runtime.LockOSThread()
	defer runtime.UnlockOSThread()
	var events [128]syscall.EpollEvent
	for {
		n, err := syscall.EpollWait(l.epoll, events[:], -1)
		if err == syscall.EINTR {
			continue
		}
		if err != nil {
			return os.NewSyscallError("epoll_wait", err)
		}
		for _, e := range events[:n] {
			switch fd := int(e.Fd); {
			case fd == l.wake:
				return nil
			case fd == l.listener:
				err = l.accept()
			case e.Events&syscall.EPOLLOUT != 0:
				err = l.flush(fd)
			default:
				err = l.read(fd)
			}
			if err != nil {
				return err
			}
		}
	}
}

// accept accepts one connection and passes it to the next loop.
func (l *loop) accept() error {
	fd, _, err := syscall.Accept4(l.listener, syscall.SOCK_NONBLOCK|syscall.SOCK_CLOEXEC)
	if err == syscall.EAGAIN || err == syscall.ECONNABORTED || err == syscall.EINTR {
		return nil
	}
	if err != nil {
		return os.NewSyscallError("accept4", err)
	}
	// As in other servers: do not delay responses (Nagle).
	_ = syscall.SetsockoptInt(fd, syscall.IPPROTO_TCP, syscall.TCP_NODELAY, 1)
	to := l.all[l.next%len(l.all)]
	l.next++
	to.mu.Lock()
	to.conns[fd] = &looped{}
	to.mu.Unlock()
	return to.watch(fd, syscall.EPOLL_CTL_ADD, syscall.EPOLLIN)
}

// read receives input and answers the requests that it completes.
func (l *loop) read(fd int) error {
	c := l.of(fd)
	n, err := syscall.Read(fd, l.buf)
	if err == syscall.EAGAIN || err == syscall.EINTR {
		return nil
	}
	if n <= 0 {
		return l.drop(fd)
	}
	requests := c.count(l.buf[:n])
	for range requests {
		burn(l.params.CPU)
	}
	for range requests {
		c.pending = append(c.pending, l.answer...)
	}
	return l.flush(fd)
}

func (l *loop) of(fd int) *looped {
	l.mu.Lock()
	defer l.mu.Unlock()
	return l.conns[fd]
}

// count returns how many requests end within b.
func (c *looped) count(b []byte) int {
	const end = "\r\n\r\n"
	n := 0
	for _, x := range b {
		switch {
		case x == end[c.seen]:
			c.seen++
		case x == '\r':
			c.seen = 1
		default:
			c.seen = 0
		}
		if c.seen == len(end) {
			c.seen = 0
			n++
		}
	}
	return n
}

// flush writes pending output. While some is pending, nothing more is read.
func (l *loop) flush(fd int) error {
	c := l.of(fd)
	sent := 0
	for sent < len(c.pending) {
		n, err := syscall.Write(fd, c.pending[sent:])
		if err == syscall.EINTR {
			continue
		}
		if err == syscall.EAGAIN {
			c.pending = append(c.pending[:0], c.pending[sent:]...)
			c.blocked = true
			return l.watch(fd, syscall.EPOLL_CTL_MOD, syscall.EPOLLOUT)
		}
		if err != nil {
			return l.drop(fd)
		}
		sent += n
	}
	c.pending = c.pending[:0]
	if !c.blocked {
		return nil
	}
	c.blocked = false
	return l.watch(fd, syscall.EPOLL_CTL_MOD, syscall.EPOLLIN)
}

// drop closes one connection.
func (l *loop) drop(fd int) error {
	l.mu.Lock()
	delete(l.conns, fd)
	l.mu.Unlock()
	return os.NewSyscallError("close", syscall.Close(fd))
}

// close closes all of them, once no loop runs.
func (l *loop) close() {
	if l == nil {
		return
	}
	for fd := range l.conns {
		_ = syscall.Close(fd)
	}
	_ = syscall.Close(l.epoll)
}
