package sys

import (
	"errors"
	"math"
	"syscall"
)

// ProcessCPUNs returns the user and system CPU time of this process, in nanoseconds.
func ProcessCPUNs() (user, system int64) {
	own, err := syscall.GetCurrentProcess()
	if err != nil {
		return 0, 0 // it is a constant
	}
	var began, ended, kernel, userTime syscall.Filetime
	if err := syscall.GetProcessTimes(own, &began, &ended, &kernel, &userTime); err != nil {
		return 0, 0 // it fails only for another process
	}
	return duration(userTime), duration(kernel)
}

// duration converts a length of time, in units of 100 ns.
func duration(t syscall.Filetime) int64 {
	return (int64(t.HighDateTime)<<32 | int64(t.LowDateTime)) * 100
}

// RaiseOpenFiles has nothing to raise: sockets have no limit but memory.
func RaiseOpenFiles(uint64) (soft, hard uint64, err error) {
	return math.MaxUint64, math.MaxUint64, nil
}

// ErrnoName returns the symbolic name of an error of a socket, "ECONNREFUSED"; of another what
// Windows says.
func ErrnoName(e interface{ Error() string }) string {
	var no syscall.Errno
	if err, ok := e.(error); ok && errors.As(err, &no) {
		if name := names[no]; name != "" {
			return name
		}
	}
	return e.Error()
}

// names of the errors that internal/ring reports.
var names = map[syscall.Errno]string{
	syscall.EPIPE: "EPIPE", syscall.EMFILE: "EMFILE", syscall.EADDRINUSE: "EADDRINUSE", syscall.EADDRNOTAVAIL: "EADDRNOTAVAIL",
	syscall.ENETUNREACH: "ENETUNREACH", syscall.ECONNABORTED: "ECONNABORTED", syscall.ECONNRESET: "ECONNRESET",
	syscall.ENOBUFS: "ENOBUFS", syscall.ETIMEDOUT: "ETIMEDOUT", syscall.ECONNREFUSED: "ECONNREFUSED",
	syscall.EHOSTUNREACH: "EHOSTUNREACH", syscall.EIO: "EIO",
} // read-only
