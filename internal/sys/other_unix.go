//go:build unix && !linux

package sys

import (
	"os"

	"golang.org/x/sys/unix"
)

// RaiseOpenFiles raises the soft limit of open files to at least want if the hard limit allows it,
// and returns the resulting limit. Go has raised it to the hard one at the start (os/rlimit.go).
func RaiseOpenFiles(uint64) (soft, hard uint64, err error) {
	var l unix.Rlimit
	err = unix.Getrlimit(unix.RLIMIT_NOFILE, &l)
	return uint64(l.Cur), uint64(l.Max), os.NewSyscallError("getrlimit", err)
}
