//go:build unix && !linux

package sys

import (
	"errors"
	"os"

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

// RaiseOpenFiles raises the soft limit of open files to at least want if the hard limit allows it,
// and returns the resulting limit. Go has raised it to the hard one at the start (os/rlimit.go).
func RaiseOpenFiles(uint64) (soft, hard uint64, err error) {
	var l unix.Rlimit
	err = unix.Getrlimit(unix.RLIMIT_NOFILE, &l)
	return uint64(l.Cur), uint64(l.Max), os.NewSyscallError("getrlimit", err)
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
