package ring

import (
	"errors"
	"fmt"
	"syscall"
	"unsafe"
)

// OnlyPortable: this system has no other engine than Portable.
const OnlyPortable = false

// kernelEngine has the operations of a proxy, which is not portable.
type kernelEngine interface {
	engine
	connect(fd int, to *Sockaddr, t Tag)
	accept(fd int, t Tag)
	release(fd int, t Tag)
}

func openKernel(c Config) (*Ring, error) {
	switch c.Engine {
	case Epoll:
		return overEpoll(c, "requested")
	case Uring:
		return overUring(c, "requested")
	case Auto, "":
		r, err := overUring(c, "the kernel grants all that the engine needs")
		if err != nil {
			return overEpoll(c, err.Error())
		}
		return r, nil
	}
	return nil, fmt.Errorf("ring: unknown engine %q (auto, uring, epoll or portable)", c.Engine)
}

func overEpoll(c Config, why string) (*Ring, error) {
	e, err := openEpoll(c)
	if err != nil {
		return nil, err
	}
	return &Ring{engine: e, opener: kernelSockets{e}, about: about{name: Epoll, why: why, features: []string{"EPOLLET"}}, kernel: e}, nil
}

func overUring(c Config, why string) (*Ring, error) {
	u, err := openUring(c)
	if err != nil {
		return nil, err
	}
	return &Ring{
		engine: u, opener: kernelSockets{u}, about: about{name: Uring, why: why, features: u.granted, gathers: u.minWait}, kernel: u,
	}, nil
}

// Connect connects the non-blocking socket fd; a Connected event follows. The
// address must stay unchanged until the next Wait has returned.
func (r *Ring) Connect(fd int, to *Sockaddr, t Tag) { r.kernel.connect(fd, to, t) }

// Accept takes connections from the listener fd until it is closed, one
// Accepted event each. New connections are non-blocking and close-on-exec.
func (r *Ring) Accept(fd int, t Tag) { r.kernel.accept(fd, t) }

// Release detaches fd, which stays open and belongs to the caller alone. No operation on it may be
// pending: a ReceiveOnce has had its event, and all sends have left.
func (r *Ring) Release(fd int, t Tag) { r.kernel.release(fd, t) }

// kernelSockets opens sockets of the kernel.
type kernelSockets struct{ kernel kernelEngine }

func (s kernelSockets) dial(to, from *Sockaddr, t Tag) (int, error) {
	fd, err := to.Socket()
	if err == nil && from != nil {
		err = from.BindSource(fd)
	}
	if err != nil {
		if fd >= 0 {
			err = errors.Join(err, syscall.Close(fd))
		}
		return -1, err
	}
	s.kernel.connect(fd, to, t)
	return fd, nil
}

func (kernelSockets) selfConnected(fd int) bool {
	var local, remote [28]byte // sockaddr_in6 is the larger of the two
	size := func(call uintptr, to *[28]byte) uint32 {
		n := uint32(len(to))
		if _, _, e := syscall.RawSyscall(call, uintptr(fd), uintptr(unsafe.Pointer(to)), uintptr(unsafe.Pointer(&n))); e != 0 {
			return 0 // already gone; the first read will report it
		}
		return n
	}
	a, b := size(syscall.SYS_GETSOCKNAME, &local), size(syscall.SYS_GETPEERNAME, &remote)
	family := *(*uint16)(unsafe.Pointer(&local))
	return a > 0 && a == b && (family == syscall.AF_INET || family == syscall.AF_INET6) && local == remote
}

// bell makes one of a pair of sockets, of which the ring reads one.
func (s kernelSockets) bell(t Tag) (*Bell, error) {
	p, err := syscall.Socketpair(syscall.AF_UNIX, syscall.SOCK_STREAM|syscall.SOCK_NONBLOCK|syscall.SOCK_CLOEXEC, 0)
	if err != nil {
		return nil, err
	}
	s.kernel.receive(p[0], t)
	return &Bell{
		// A full socket means that the ring will look anyway.
		ring: func() { _, _ = syscall.Write(p[1], []byte{0}) },
		close: func() error {
			s.kernel.close(p[0], t)
			return syscall.Close(p[1])
		},
	}, nil
}
