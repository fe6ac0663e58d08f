package sys

import (
	"errors"
	"math"
	"os"
	"syscall"

	"golang.org/x/sys/windows"
)

// Lock locks a file for this process until it is closed; the system releases it however the process
// ends. Without wait it fails with EWOULDBLOCK if another has it. It locks a byte beyond the end,
// so that the others can read the file.
func Lock(f *os.File, wait bool) error {
	how := uint32(windows.LOCKFILE_EXCLUSIVE_LOCK)
	if !wait {
		how |= windows.LOCKFILE_FAIL_IMMEDIATELY
	}
	return lock(f, how)
}

func lock(f *os.File, how uint32) error {
	err := windows.LockFileEx(windows.Handle(f.Fd()), how, 0, 1, 0, beyond())
	if errors.Is(err, windows.ERROR_LOCK_VIOLATION) || errors.Is(err, windows.ERROR_IO_PENDING) {
		return syscall.EWOULDBLOCK
	}
	return err
}

func beyond() *windows.Overlapped { return &windows.Overlapped{Offset: math.MaxUint32} }

// IsLocked reports whether a process has locked the file. It holds a shared lock for a moment, so
// that two that ask do not find each other.
func IsLocked(f *os.File) (bool, error) {
	switch err := lock(f, windows.LOCKFILE_FAIL_IMMEDIATELY); err {
	case nil:
		return false, windows.UnlockFileEx(windows.Handle(f.Fd()), 0, 1, 0, beyond())
	case syscall.EWOULDBLOCK:
		return true, nil
	default:
		return false, err
	}
}
