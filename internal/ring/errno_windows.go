package ring

import "syscall"

// common returns the number by which package syscall names an error: on Windows it has invented ones
// for the names of other systems, and Winsock returns its own (winsock2.h).
func common(no syscall.Errno) syscall.Errno {
	switch no {
	case syscall.ERROR_BROKEN_PIPE, 10058: // WSAESHUTDOWN
		return syscall.EPIPE
	case 10024: // WSAEMFILE
		return syscall.EMFILE
	case 10048: // WSAEADDRINUSE
		return syscall.EADDRINUSE
	case 10049: // WSAEADDRNOTAVAIL
		return syscall.EADDRNOTAVAIL
	case 10051: // WSAENETUNREACH
		return syscall.ENETUNREACH
	case 10053: // WSAECONNABORTED
		return syscall.ECONNABORTED
	case 10054: // WSAECONNRESET
		return syscall.ECONNRESET
	case 10055: // WSAENOBUFS
		return syscall.ENOBUFS
	case 10060: // WSAETIMEDOUT
		return syscall.ETIMEDOUT
	case 10061: // WSAECONNREFUSED
		return syscall.ECONNREFUSED
	case 10065: // WSAEHOSTUNREACH
		return syscall.EHOSTUNREACH
	}
	return no
}
