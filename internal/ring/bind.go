package ring

import (
	"fmt"
	"syscall"
	"unsafe"
)

// ipBindAddressNoPort leaves the port of a bind to the connect that follows,
// which chooses one that is free for the pair of addresses, and not for the local
// one alone (ip(7), Linux 4.2). Sockets of IPv6 take the same option
// (net/ipv6/ipv6_sockglue.c passes SOL_IP on).
const ipBindAddressNoPort = 24

// BindSource gives the unconnected TCP socket fd the local address s, whose port
// should be 0: a connect chooses it.
func (s *Sockaddr) BindSource(fd int) error {
	if err := syscall.SetsockoptInt(fd, syscall.IPPROTO_IP, ipBindAddressNoPort, 1); err != nil {
		return fmt.Errorf("setsockopt IP_BIND_ADDRESS_NO_PORT: %w", err)
	}
	if _, _, no := syscall.RawSyscall(syscall.SYS_BIND, uintptr(fd), uintptr(unsafe.Pointer(&s.raw)), uintptr(s.length)); no != 0 {
		return fmt.Errorf("bind: %w", no)
	}
	return nil
}

// SameFamily tells whether a socket for one address can be bound to the other.
func (s *Sockaddr) SameFamily(o *Sockaddr) bool { return s.family == o.family }
