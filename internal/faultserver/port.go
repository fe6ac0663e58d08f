package faultserver

import (
	"fmt"
	"net/netip"
	"strings"
	"syscall"
)

// keepPort binds a socket that never listens to the server's port. It reserves the port while the
// server refuses, so that it can listen again: the port is in the ephemeral range, from which
// every connect on this host takes its own.
func (s *Server) keepPort() error {
	if !strings.HasPrefix(s.network, "tcp") {
		return nil
	}
	at, err := netip.ParseAddrPort(s.address)
	if err != nil {
		return fmt.Errorf("faulty: %w", err)
	}
	family, to := syscall.AF_INET, syscall.Sockaddr(nil)
	if at.Addr().Is4() {
		to = &syscall.SockaddrInet4{Addr: at.Addr().As4(), Port: int(at.Port())}
	} else {
		family, to = syscall.AF_INET6, &syscall.SockaddrInet6{Addr: at.Addr().As16(), Port: int(at.Port())}
	}
	if s.keeper, err = syscall.Socket(family, syscall.SOCK_STREAM|syscall.SOCK_CLOEXEC, 0); err != nil {
		return fmt.Errorf("faulty: socket: %w", err)
	}
	if err := syscall.SetsockoptInt(s.keeper, syscall.SOL_SOCKET, syscall.SO_REUSEADDR, 1); err != nil {
		return fmt.Errorf("faulty: SO_REUSEADDR: %w", err)
	}
	if err := syscall.Bind(s.keeper, to); err != nil {
		return fmt.Errorf("faulty: bind %s: %w", s.address, err)
	}
	name, err := syscall.Getsockname(s.keeper)
	if err != nil {
		return fmt.Errorf("faulty: getsockname: %w", err)
	}
	switch n := name.(type) {
	case *syscall.SockaddrInet4:
		at = netip.AddrPortFrom(at.Addr(), uint16(n.Port))
	case *syscall.SockaddrInet6:
		at = netip.AddrPortFrom(at.Addr(), uint16(n.Port))
	}
	s.address = at.String()
	return nil
}
