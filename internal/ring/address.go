package ring

import (
	"errors"
	"fmt"
	"net/netip"
)

// Sockaddr is a socket address, also in the kernel's form.
type Sockaddr struct {
	at   netip.AddrPort
	path string // of a unix socket
	kernelForm
}

// TCPAddr returns the form of an IP address and port.
func TCPAddr(a netip.AddrPort) Sockaddr {
	s := Sockaddr{at: netip.AddrPortFrom(a.Addr().Unmap(), a.Port())}
	s.encode()
	return s
}

// AddrPort returns the address that TCPAddr was given.
func (s *Sockaddr) AddrPort() (netip.AddrPort, error) {
	if s.IsUnix() {
		return netip.AddrPort{}, errors.New("ring: a unix socket has no port")
	}
	return s.at, nil
}

// UnixAddr returns the form of a unix socket's path; a leading @ names an abstract socket.
func UnixAddr(path string) (Sockaddr, error) {
	if len(path) == 0 || len(path) > 107 { // unix(7): sun_path has 108 bytes, one for the NUL
		return Sockaddr{}, fmt.Errorf("ring: unix socket path of %d bytes; 1 to 107 fit", len(path))
	}
	s := Sockaddr{path: path}
	s.encode()
	return s, nil
}

// IsUnix reports whether it is the path of a unix socket.
func (s *Sockaddr) IsUnix() bool { return s.path != "" }

// SameFamily reports whether a socket for one address can be bound to the other.
func (s *Sockaddr) SameFamily(o *Sockaddr) bool {
	return s.IsUnix() == o.IsUnix() && s.at.Addr().Is4() == o.at.Addr().Is4()
}
