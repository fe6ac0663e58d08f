//go:build linux

package sys

import (
	"errors"
	"fmt"
	"net/netip"
	"syscall"
)

// HoldPort takes a free TCP port of an address until release: bound and not listening, the kernel
// does not assign it, and connections to it are refused. Shared, a listener with SO_REUSEADDR,
// which Go's and most programs' are, may use it, here or in another process, again and again.
func HoldPort(ip netip.Addr, shared bool) (at netip.AddrPort, release func(), err error) {
	family, address := syscall.AF_INET6, syscall.Sockaddr(&syscall.SockaddrInet6{Addr: ip.As16()})
	if ip.Is4() {
		family, address = syscall.AF_INET, &syscall.SockaddrInet4{Addr: ip.As4()}
	}
	fd, err := syscall.Socket(family, syscall.SOCK_STREAM|syscall.SOCK_CLOEXEC, 0)
	if err != nil {
		return at, nil, fmt.Errorf("socket: %w", err)
	}
	port, err := bindShared(fd, address, shared)
	if err != nil {
		return at, nil, errors.Join(fmt.Errorf("hold a port of %s: %w", ip, err), syscall.Close(fd))
	}
	return netip.AddrPortFrom(ip, port), func() { _ = syscall.Close(fd) }, nil // nothing was sent
}

func bindShared(fd int, to syscall.Sockaddr, shared bool) (port uint16, err error) {
	if shared {
		// After bind(2): before it the kernel might assign a port that another shares.
		defer func() {
			if err == nil {
				err = syscall.SetsockoptInt(fd, syscall.SOL_SOCKET, syscall.SO_REUSEADDR, 1)
			}
		}()
	}
	if err := syscall.Bind(fd, to); err != nil {
		return 0, err
	}
	bound, err := syscall.Getsockname(fd)
	switch at := bound.(type) {
	case *syscall.SockaddrInet4:
		return uint16(at.Port), err
	case *syscall.SockaddrInet6:
		return uint16(at.Port), err
	}
	return 0, errors.Join(err, errors.New("no TCP address"))
}
