package proxy

import (
	"errors"
	"net"
	"net/netip"
	"syscall"

	"ceiling/internal/ring"
)

// listener is a loop's own accept queue.
type listener struct {
	conn
	socket int
	tls    bool // its clients begin with a ClientHello
}

func (ln *listener) accepted(ev *ring.Event) {
	l := ln.loop
	switch {
	case ev.Err != 0:
		if !ring.TransientAccept(ev.Err) && !l.stopping {
			l.proxy.fail("accept: " + ev.Err.Error())
			l.stop(0)
			return
		}
		l.counts.acceptErrors++
		if outOfDescriptors(ev.Err) {
			l.starve()
		}
	case l.stopping:
		closeNow(ev.FD)
	default:
		l.counts.accepted++
		l.serve(ev.FD, ln.tls)
		if len(l.clients) >= l.room && !l.full && !l.idle.ripe(l.now) {
			l.full = true
			l.counts.acceptPauses++
			for _, each := range l.listeners {
				l.ring.Pause(each.tag())
			}
		}
	}
}

// again resumes accepting after a pause.
func (ln *listener) again() {
	if ln.fd >= 0 {
		ln.loop.ring.Accept(int(ln.fd), ln.tag())
	}
}

// outOfDescriptors reports whether the process, or the machine, may open no more files.
func outOfDescriptors(err error) bool {
	return errors.Is(err, syscall.EMFILE) || errors.Is(err, syscall.ENFILE)
}

func (ln *listener) received([]byte)          {}
func (ln *listener) ended(syscall.Errno)      {}
func (ln *listener) unsendable(syscall.Errno) {}
func (ln *listener) stalled()                 {}
func (ln *listener) drained()                 {}
func (ln *listener) expired()                 {}

// peerOf asks the kernel for the address of a socket's peer; for a unix socket it is the zero
// AddrPort.
func peerOf(fd int) netip.AddrPort {
	name, err := syscall.Getpeername(fd)
	if err != nil {
		return netip.AddrPort{} // the peer has already left, as its first read reports
	}
	switch n := name.(type) {
	case *syscall.SockaddrInet4:
		return netip.AddrPortFrom(netip.AddrFrom4(n.Addr), uint16(n.Port))
	case *syscall.SockaddrInet6:
		return netip.AddrPortFrom(netip.AddrFrom16(n.Addr).Unmap(), uint16(n.Port))
	}
	return netip.AddrPort{}
}

// Listen opens n listeners on one address, and returns it with its actual port; the kernel distributes
// new connections over them by a hash of their addresses (SO_REUSEPORT, socket(7)).
func Listen(address string, n int) (fds []int, at netip.AddrPort, err error) {
	if at, err = listenAddress(address); err != nil {
		return nil, at, err
	}
	probe, _, err := ring.ListenTCP(at, 1, false) // another program sharing the port would take part of the clients
	if err != nil {
		return nil, at, err
	}
	closeNow(probe)
	for range n {
		fd, bound, err := ring.ListenTCP(at, backlog, true)
		if err != nil {
			for _, fd := range fds {
				closeNow(fd)
			}
			return nil, at, err
		}
		fds, at = append(fds, fd), bound // choose port 0 only once
	}
	return fds, at, nil
}

// backlog requests as much as the kernel grants (net.core.somaxconn).
const backlog = 65535

// listenAddress parses host:port; an empty host means every address of both families.
func listenAddress(address string) (netip.AddrPort, error) {
	host, port, err := net.SplitHostPort(address)
	if err != nil {
		return netip.AddrPort{}, err
	}
	switch host {
	case "":
		host = "::"
		fd, err := syscall.Socket(syscall.AF_INET6, syscall.SOCK_STREAM|syscall.SOCK_CLOEXEC, 0)
		if err != nil { // a host without IPv6
			host = "0.0.0.0"
		} else {
			closeNow(fd)
		}
	case "localhost":
		host = "127.0.0.1"
	}
	return netip.ParseAddrPort(net.JoinHostPort(host, port))
}
