package ring

import (
	"errors"
	"fmt"
	"net/netip"
	"syscall"
	"unsafe"
)

// Sockaddr is a socket address in the kernel's form.
type Sockaddr struct {
	raw    [110]byte // the largest: sockaddr_un
	length uint32
	family int
}

// TCPAddr returns the kernel's form of an IP address and port.
func TCPAddr(a netip.AddrPort) Sockaddr {
	var s Sockaddr
	ip := a.Addr().Unmap()
	port := a.Port()
	s.raw[2], s.raw[3] = byte(port>>8), byte(port)
	if ip.Is4() {
		s.family, s.length = syscall.AF_INET, syscall.SizeofSockaddrInet4
		v4 := ip.As4()
		copy(s.raw[4:], v4[:])
	} else {
		s.family, s.length = syscall.AF_INET6, syscall.SizeofSockaddrInet6
		v6 := ip.As16()
		copy(s.raw[8:], v6[:])
	}
	*(*uint16)(unsafe.Pointer(&s.raw[0])) = uint16(s.family)
	return s
}

// AddrPort returns the address that TCPAddr was given.
func (s *Sockaddr) AddrPort() (netip.AddrPort, error) {
	port := uint16(s.raw[2])<<8 | uint16(s.raw[3])
	switch s.family {
	case syscall.AF_INET:
		return netip.AddrPortFrom(netip.AddrFrom4([4]byte(s.raw[4:8])), port), nil
	case syscall.AF_INET6:
		return netip.AddrPortFrom(netip.AddrFrom16([16]byte(s.raw[8:24])), port), nil
	}
	return netip.AddrPort{}, errors.New("ring: a unix socket has no port")
}

// UnixAddr returns the kernel's form of a unix socket's path; a leading @ names an abstract socket.
func UnixAddr(path string) (Sockaddr, error) {
	var s Sockaddr
	if len(path) == 0 || len(path) > 107 { // unix(7): sun_path has 108 bytes, one for the NUL
		return s, fmt.Errorf("ring: unix socket path of %d bytes; 1 to 107 fit", len(path))
	}
	s.family = syscall.AF_UNIX
	*(*uint16)(unsafe.Pointer(&s.raw[0])) = syscall.AF_UNIX
	copy(s.raw[2:], path)
	s.length = uint32(2 + len(path) + 1)
	if path[0] == '@' {
		s.raw[2] = 0
		s.length--
	}
	return s, nil
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

// IsUnix reports whether it is the path of a unix socket.
func (s *Sockaddr) IsUnix() bool { return s.family == syscall.AF_UNIX }

// SameFamily reports whether a socket for one address can be bound to the other.
func (s *Sockaddr) SameFamily(o *Sockaddr) bool { return s.family == o.family }
