package planted

import (
	"bytes"
	"context"
	"fmt"
	"net"
	"net/http/httputil"
	"os"
	"runtime"
	"syscall"
)

// serveLoop responds from an event loop, as the cheapest servers do: one thread with an epoll instance, and prepared
// responses. It detects the end of a request by its empty line only, so requests have no body here.
func serveLoop(ctx context.Context, p *Params, ready func(string)) error {
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
	defer end.Close()
	defer context.AfterFunc(ctx, func() { _ = end.Close() })() // wakes the loop
	l := &loop{
		params: p, wake: int(wake.Fd()), listener: int(file.Fd()), answer: responseOf(p.Bytes, p.Chunks), conns: map[int]*looped{},
		buf: make([]byte, 64<<10),
	}
	if l.epoll, err = syscall.EpollCreate1(syscall.EPOLL_CLOEXEC); err != nil {
		return os.NewSyscallError("epoll_create1", err)
	}
	defer l.close()
	if err := syscall.SetNonblock(l.listener, true); err != nil {
		return err
	}
	for _, fd := range []int{l.wake, l.listener} {
		if err := l.watch(fd, syscall.EPOLL_CTL_ADD, syscall.EPOLLIN); err != nil {
			return err
		}
	}
	ready(addr)
	return l.run()
}

// loop is the thread's event loop.
type loop struct {
	params   *Params
	epoll    int
	wake     int // readable at shutdown
	listener int
	answer   []byte
	buf      []byte
	conns    map[int]*looped
}

// looped is one connection.
type looped struct {
	seen    int    // bytes of the empty line seen so far
	pending []byte // unsent responses
	blocked bool   // they did not fit: the loop waits until it can write
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
	w := httputil.NewChunkedWriter(&b)
	for i := range chunks {
		_, _ = w.Write(bytes.Repeat([]byte{'p'}, max(1, size*(i+1)/chunks-size*i/chunks))) // to memory
	}
	_ = w.Close() // the last chunk, without the empty line after it
	b.WriteString("\r\n")
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

// accept accepts one connection.
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
	l.conns[fd] = &looped{}
	return l.watch(fd, syscall.EPOLL_CTL_ADD, syscall.EPOLLIN)
}

// read receives input and answers the requests that it completes.
func (l *loop) read(fd int) error {
	c := l.conns[fd]
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
	c := l.conns[fd]
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
	delete(l.conns, fd)
	return os.NewSyscallError("close", syscall.Close(fd))
}

// close closes all of them, once the loop has ended.
func (l *loop) close() {
	for fd := range l.conns {
		_ = syscall.Close(fd)
	}
	_ = syscall.Close(l.epoll)
}
