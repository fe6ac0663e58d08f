//go:build unix

package record

import (
	"os"
	"syscall"
)

// claim marks a file as being written with a lock that disappears with its process, however that
// ends (flock(2)). On a file system without locks it has no effect.
func claim(f *os.File) { _ = syscall.Flock(int(f.Fd()), syscall.LOCK_EX|syscall.LOCK_NB) }

// abandoned reports whether no process writes a file. It returns false on a file system without
// locks, where that is unknown.
func abandoned(f *os.File) bool {
	if syscall.Flock(int(f.Fd()), syscall.LOCK_SH|syscall.LOCK_NB) != nil {
		return false // held, or there are no locks here
	}
	return syscall.Flock(int(f.Fd()), syscall.LOCK_UN) == nil
}
