package proxy

import (
	"errors"
	"net/netip"
	"syscall"
)

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

// isUnix reports whether a listener is a unix socket.
func isUnix(fd int) bool {
	name, err := syscall.Getsockname(fd)
	_, is := name.(*syscall.SockaddrUnix)
	return err == nil && is
}
