package ring

import "syscall"

// common returns the number by which package syscall names an error: on Windows it has invented ones
// for the names of other systems, and Winsock returns its own.
func common(no syscall.Errno) syscall.Errno {
	if named, is := winsock[no]; is {
		return named
	}
	return no
}

// winsock are the numbers of winsock2.h.
var winsock = map[syscall.Errno]syscall.Errno{
	syscall.ERROR_BROKEN_PIPE: syscall.EPIPE,
	10024:                     syscall.EMFILE,        // WSAEMFILE
	10048:                     syscall.EADDRINUSE,    // WSAEADDRINUSE
	10049:                     syscall.EADDRNOTAVAIL, // WSAEADDRNOTAVAIL
	10051:                     syscall.ENETUNREACH,   // WSAENETUNREACH
	10053:                     syscall.ECONNABORTED,  // WSAECONNABORTED
	10054:                     syscall.ECONNRESET,    // WSAECONNRESET
	10055:                     syscall.ENOBUFS,       // WSAENOBUFS
	10058:                     syscall.EPIPE,         // WSAESHUTDOWN
	10060:                     syscall.ETIMEDOUT,     // WSAETIMEDOUT
	10061:                     syscall.ECONNREFUSED,  // WSAECONNREFUSED
	10065:                     syscall.EHOSTUNREACH,  // WSAEHOSTUNREACH
} // read-only
