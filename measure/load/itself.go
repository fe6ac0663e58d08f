package load

import (
	"syscall"
	"unsafe"
)

// toItself tells whether a TCP socket is connected to itself. The kernel picks
// the local port of a connect to a free port of this host from the range that
// port is in, so one attempt in 28,000 to reach a dead server meets itself
// (simultaneous open, RFC 9293 section 3.5), echoes its own requests, and keeps
// the server from coming back.
func toItself(fd int) bool {
	var local, remote [28]byte // sockaddr_in6 is the larger of the two
	size := func(call uintptr, to *[28]byte) uint32 {
		n := uint32(len(to))
		if _, _, e := syscall.RawSyscall(call, uintptr(fd), uintptr(unsafe.Pointer(to)), uintptr(unsafe.Pointer(&n))); e != 0 {
			return 0 // gone already; the first read will say so
		}
		return n
	}
	a, b := size(syscall.SYS_GETSOCKNAME, &local), size(syscall.SYS_GETPEERNAME, &remote)
	family := *(*uint16)(unsafe.Pointer(&local))
	return a > 0 && a == b && (family == syscall.AF_INET || family == syscall.AF_INET6) && local == remote
}
