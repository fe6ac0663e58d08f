//go:build unix

package record

import (
	"os"
	"syscall"
)

// claim marks a file as one that is being written: a lock that is gone with its
// process, however that ends (flock(2)). A file system without locks has none, and
// then nobody can tell.
func claim(f *os.File) { _ = syscall.Flock(int(f.Fd()), syscall.LOCK_EX|syscall.LOCK_NB) }

// abandoned tells that nobody writes a file. It has no answer, and says no, where the
// file system has no locks.
func abandoned(f *os.File) bool {
	if syscall.Flock(int(f.Fd()), syscall.LOCK_SH|syscall.LOCK_NB) != nil {
		return false // held, or there are no locks here
	}
	return syscall.Flock(int(f.Fd()), syscall.LOCK_UN) == nil
}
