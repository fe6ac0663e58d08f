package proxy

import (
	"errors"
	"net"
	"net/netip"
	"syscall"

	"ceiling/internal/ring"
)

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

// outOfDescriptors reports whether the process, or the machine, may open no more files.
func outOfDescriptors(err error) bool {
	return errors.Is(err, syscall.EMFILE) || errors.Is(err, syscall.ENFILE)
}

// closeNow closes a descriptor that no ring knows. A failure would mean a double close, a bug
// that tests look for.
func closeNow(fd int) { _ = syscall.Close(fd) }
