//go:build unix

package sys

import (
	"os"
	"syscall"
)

// Lock locks a file for this process until it is closed; the kernel releases it however the process
// ends (flock(2)). Without wait it fails with EWOULDBLOCK if another has it.
func Lock(f *os.File, wait bool) error {
	how := syscall.LOCK_EX
	if !wait {
		how |= syscall.LOCK_NB
	}
	return syscall.Flock(int(f.Fd()), how)
}

// IsLocked reports whether a process has locked the file. It holds a shared lock for a moment, so
// that two that ask do not find each other.
func IsLocked(f *os.File) (bool, error) {
	switch err := syscall.Flock(int(f.Fd()), syscall.LOCK_SH|syscall.LOCK_NB); err {
	case nil:
		return false, syscall.Flock(int(f.Fd()), syscall.LOCK_UN)
	case syscall.EWOULDBLOCK:
		return true, nil
	default:
		return false, err
	}
}
