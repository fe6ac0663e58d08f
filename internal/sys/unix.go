//go:build unix

package sys

import (
	"errors"

	"golang.org/x/sys/unix"
)

// ProcessCPUNs returns the user and system CPU time of this process, in nanoseconds.
func ProcessCPUNs() (user, system int64) {
	var r unix.Rusage
	if err := unix.Getrusage(unix.RUSAGE_SELF, &r); err != nil {
		return 0, 0 // getrusage(2) fails only for arguments that are not these
	}
	return r.Utime.Nano(), r.Stime.Nano()
}

// ErrnoName returns the symbolic name of an errno, "ECONNREFUSED".
func ErrnoName(e interface{ Error() string }) string {
	var no unix.Errno
	if err, ok := e.(error); ok && errors.As(err, &no) {
		if name := unix.ErrnoName(no); name != "" {
			return name
		}
	}
	return e.Error()
}
