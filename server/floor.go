//go:build linux

package server

import (
	"context"
	"errors"
	"fmt"
	"net"
	"net/netip"
	"runtime"
	"sync"
	"syscall"

	"ceiling/internal/ring"
)

// A floor server responds from memory with minimal work of its own, so its cost is the kernel's:
// the lower bound of the other servers, and the subject for calibrating a generator.
//
// Each worker is a locked thread with its own ring, listener and connections (floor_worker.go),
// and no written memory is shared. A request byte-identical to the previous one costs one
// comparison; requests that arrive together are answered with one send (floor_answer.go). Beyond
// the catalogue it serves /bytes/N with N bytes, up to 1 MiB, and /answered with the number of
// responses of all workers at the end of their last turns.
type floor struct {
	site *site

	mu      sync.Mutex
	stopped bool
	wakes   []int         // our ends of the workers' wake sockets
	ended   chan struct{} // closed when serve has returned; nil before it starts
}

func mountFloor(s *site) engine { return &floor{site: s} }

// serve distributes ln over as many workers as there are threads for Go code. A worker blocks in
// the kernel without notifying the runtime, which saves a few per cent, so the runtime gets the
// same number of extra threads for everything else.
func (f *floor) serve(ln net.Listener) error {
	threads := runtime.GOMAXPROCS(0)
	workers, err := f.openWorkers(ln, threads)
	f.mu.Lock()
	if f.stopped || err != nil {
		defer f.mu.Unlock()
		if f.stopped { // the error is then that ln was closed
			err = nil
		}
		for _, w := range workers {
			err = errors.Join(err, w.abandon())
		}
		return err
	}
	f.ended = make(chan struct{})
	defer close(f.ended)
	for _, w := range workers {
		f.wakes = append(f.wakes, w.wakeFrom)
	}
	f.mu.Unlock()

	runtime.GOMAXPROCS(2 * threads)
	defer runtime.GOMAXPROCS(threads)
	failures := make(chan error, threads)
	for _, w := range workers {
		go func() { failures <- w.run() }()
	}
	for range workers {
		if failure := <-failures; failure != nil {
			err = errors.Join(err, failure)
			f.closeWakes() // the others stop too
		}
	}
	return err
}

func (f *floor) stop(ctx context.Context) {
	f.mu.Lock()
	f.stopped = true
	ended := f.ended
	for _, fd := range f.wakes {
		// It fails if the worker has stopped already.
		_, _ = syscall.SendmsgN(fd, []byte{0}, nil, nil, syscall.MSG_NOSIGNAL)
	}
	f.mu.Unlock()
	if ended == nil {
		return
	}
	select {
	case <-ended:
	case <-ctx.Done():
	}
	f.closeWakes()
	<-ended
}

// closeWakes makes the workers stop at once.
func (f *floor) closeWakes() {
	f.mu.Lock()
	defer f.mu.Unlock()
	for _, fd := range f.wakes {
		_ = syscall.Close(fd) // ours alone, nothing to flush
	}
	f.wakes = nil
}

func (f *floor) openWorkers(ln net.Listener, n int) ([]*floorWorker, error) {
	var workers []*floorWorker
	fail := func(err error) ([]*floorWorker, error) {
		for _, w := range workers {
			err = errors.Join(err, w.abandon())
		}
		return nil, err
	}
	listeners, err := shareListener(ln, n)
	if err != nil {
		return nil, err
	}
	for i, fd := range listeners {
		pair, err := syscall.Socketpair(syscall.AF_UNIX, syscall.SOCK_STREAM|syscall.SOCK_NONBLOCK|syscall.SOCK_CLOEXEC, 0)
		if err != nil {
			for _, left := range listeners[i:] {
				err = errors.Join(err, syscall.Close(left))
			}
			return fail(fmt.Errorf("socketpair: %w", err))
		}
		workers = append(workers, newFloorWorker(f.site, fd, pair[0], pair[1]))
	}
	for _, w := range workers {
		w.answers.total = func() (sum uint64) {
			for _, w := range workers {
				sum += w.told.Load()
			}
			return sum
		}
	}
	return workers, nil
}

// shareListener returns n descriptors to accept from. Each is a separate listener on ln's port,
// the first of them ln's; a unix socket cannot be shared that way, and all are ln's.
func shareListener(ln net.Listener, n int) (fds []int, err error) {
	socket, ok := ln.(syscall.Conn)
	if !ok {
		return nil, fmt.Errorf("a listener of type %T is not a socket", ln)
	}
	defer func() {
		if err != nil {
			for _, fd := range fds {
				err = errors.Join(err, syscall.Close(fd))
			}
			fds = nil
		}
	}()
	tcp, isTCP := ln.Addr().(*net.TCPAddr)
	own := n // descriptors of ln itself
	if isTCP {
		own = 1
	}
	for range own {
		fd, err := duplicate(socket, isTCP)
		if err != nil {
			return fds, err
		}
		fds = append(fds, fd)
	}
	for range n - own {
		fd, _, err := ring.ListenTCP(netip.AddrPortFrom(localAddr(tcp), uint16(tcp.Port)), listenBacklog, true)
		if err != nil {
			return fds, err
		}
		fds = append(fds, fd)
	}
	return fds, nil
}

// listenBacklog requests as much as the kernel grants (net.core.somaxconn).
const listenBacklog = 65535

// localAddr is the address that tcp is bound to. The IPv6 wildcard includes IPv4: package net
// listens that way.
func localAddr(tcp *net.TCPAddr) netip.Addr {
	a, ok := netip.AddrFromSlice(tcp.IP)
	if !ok {
		return netip.IPv6Unspecified()
	}
	return a.WithZone(tcp.Zone)
}

// duplicate returns a descriptor of the same listener, which others may join (SO_REUSEPORT) and
// whose connections have TCP_NODELAY. Both can be set later: the kernel reads them when a socket
// joins and when it accepts.
func duplicate(socket syscall.Conn, isTCP bool) (fd int, err error) {
	raw, err := socket.SyscallConn()
	if err != nil {
		return -1, err
	}
	const soReusePort = 15 // include/uapi/asm-generic/socket.h
	controlErr := raw.Control(func(of uintptr) {
		if isTCP {
			if err = syscall.SetsockoptInt(int(of), syscall.SOL_SOCKET, soReusePort, 1); err == nil {
				err = syscall.SetsockoptInt(int(of), syscall.IPPROTO_TCP, syscall.TCP_NODELAY, 1)
			}
		}
		if err != nil {
			return
		}
		n, _, no := syscall.Syscall(syscall.SYS_FCNTL, of, syscall.F_DUPFD_CLOEXEC, 0)
		if fd = int(n); no != 0 {
			err = no
		}
	})
	if err := errors.Join(controlErr, err); err != nil {
		return -1, fmt.Errorf("share listener: %w", err)
	}
	return fd, nil
}
