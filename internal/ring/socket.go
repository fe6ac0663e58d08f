//go:build linux

package ring

import (
	"fmt"
	"net/netip"
	"syscall"
	"unsafe"
)

// kernelForm is an address as the kernel's calls take it.
type kernelForm struct {
	raw    [110]byte // the largest: sockaddr_un
	length uint32
	family int
}

// encode fills in the kernel's form.
func (s *Sockaddr) encode() {
	switch ip, port := s.at.Addr(), s.at.Port(); {
	case s.IsUnix():
		s.family, s.length = syscall.AF_UNIX, uint32(2+len(s.path)+1)
		copy(s.raw[2:], s.path)
		if s.path[0] == '@' {
			s.raw[2] = 0
			s.length--
		}
	case ip.Is4():
		s.family, s.length = syscall.AF_INET, syscall.SizeofSockaddrInet4
		s.raw[2], s.raw[3] = byte(port>>8), byte(port)
		v4 := ip.As4()
		copy(s.raw[4:], v4[:])
	default:
		s.family, s.length = syscall.AF_INET6, syscall.SizeofSockaddrInet6
		s.raw[2], s.raw[3] = byte(port>>8), byte(port)
		v6 := ip.As16()
		copy(s.raw[8:], v6[:])
	}
	*(*uint16)(unsafe.Pointer(&s.raw[0])) = uint16(s.family)
}

// Socket opens a non-blocking, close-on-exec stream socket for addresses like s. TCP sockets have
// Nagle's algorithm off.
func (s *Sockaddr) Socket() (int, error) {
	fd, err := syscall.Socket(s.family, syscall.SOCK_STREAM|syscall.SOCK_NONBLOCK|syscall.SOCK_CLOEXEC, 0)
	if err != nil {
		return -1, fmt.Errorf("socket: %w", err)
	}
	if s.family != syscall.AF_UNIX {
		if err := syscall.SetsockoptInt(fd, syscall.IPPROTO_TCP, syscall.TCP_NODELAY, 1); err != nil {
			syscall.Close(fd)
			return -1, fmt.Errorf("setsockopt TCP_NODELAY: %w", err)
		}
	}
	return fd, nil
}

// ListenTCP opens a listener on a. With reusePort several listeners share the port, each with its
// own accept queue.
func ListenTCP(a netip.AddrPort, backlog int, reusePort bool) (fd int, bound netip.AddrPort, err error) {
	s := TCPAddr(a)
	fd, err = s.Socket()
	if err != nil {
		return -1, bound, err
	}
	defer func() {
		if err != nil {
			syscall.Close(fd)
		}
	}()
	if err = syscall.SetsockoptInt(fd, syscall.SOL_SOCKET, syscall.SO_REUSEADDR, 1); err != nil {
		return -1, bound, fmt.Errorf("setsockopt SO_REUSEADDR: %w", err)
	}
	if reusePort {
		const soReusePort = 15 // include/uapi/asm-generic/socket.h; not in package syscall for amd64
		if err = syscall.SetsockoptInt(fd, syscall.SOL_SOCKET, soReusePort, 1); err != nil {
			return -1, bound, fmt.Errorf("setsockopt SO_REUSEPORT: %w", err)
		}
	}
	if _, _, e := syscall.RawSyscall(syscall.SYS_BIND, uintptr(fd), uintptr(unsafe.Pointer(&s.raw)), uintptr(s.length)); e != 0 {
		err = fmt.Errorf("bind %s: %w", a, e)
		return -1, bound, err
	}
	if err = syscall.Listen(fd, backlog); err != nil {
		return -1, bound, fmt.Errorf("listen %s: %w", a, err)
	}
	name, err := syscall.Getsockname(fd)
	if err != nil {
		return -1, bound, fmt.Errorf("getsockname: %w", err)
	}
	switch n := name.(type) {
	case *syscall.SockaddrInet4:
		bound = netip.AddrPortFrom(netip.AddrFrom4(n.Addr), uint16(n.Port))
	case *syscall.SockaddrInet6:
		bound = netip.AddrPortFrom(netip.AddrFrom16(n.Addr), uint16(n.Port))
	}
	return fd, bound, nil
}

// ipBindAddressNoPort defers the choice of the port from bind to connect, which picks one that is
// free for the pair of addresses, and not just for the local one (ip(7), Linux 4.2). IPv6 sockets
// take the same option (net/ipv6/ipv6_sockglue.c passes SOL_IP on).
const ipBindAddressNoPort = 24

// BindSource binds the unconnected TCP socket fd to the local address s, whose port should be 0: a
// connect chooses it.
func (s *Sockaddr) BindSource(fd int) error {
	if err := syscall.SetsockoptInt(fd, syscall.IPPROTO_IP, ipBindAddressNoPort, 1); err != nil {
		return fmt.Errorf("setsockopt IP_BIND_ADDRESS_NO_PORT: %w", err)
	}
	if _, _, no := syscall.RawSyscall(syscall.SYS_BIND, uintptr(fd), uintptr(unsafe.Pointer(&s.raw)), uintptr(s.length)); no != 0 {
		return fmt.Errorf("bind: %w", no)
	}
	return nil
}
