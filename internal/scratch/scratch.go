// Package scratch makes directories for the time of a process. The owner of one holds the lock of a file in it for as long
// as it lives; what a killed one has left is therefore told from what is in use, and removed by the next.
package scratch

import (
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"syscall"
)

// A Dir is a directory that is there until Remove, or until after its owner's death the next one is made.
type Dir struct {
	Path string
	lock *os.File
}

// lockName is the file in it that its owner has locked.
const lockName = "lock"

// New makes a directory in parent whose name begins with prefix, and removes those that killed processes have left there.
func New(parent, prefix string) (*Dir, error) {
	removeDead(parent, prefix)
	path, err := os.MkdirTemp(parent, prefix)
	if err != nil {
		return nil, err
	}
	// Locked before it has its name, so that nobody finds it unlocked.
	unnamed := filepath.Join(path, lockName+".new")
	f, err := os.OpenFile(unnamed, os.O_CREATE|os.O_RDWR, 0o600)
	if err == nil {
		if err = syscall.Flock(int(f.Fd()), syscall.LOCK_EX); err == nil {
			err = os.Rename(unnamed, filepath.Join(path, lockName))
		}
	}
	d := &Dir{Path: path, lock: f}
	if err != nil {
		return nil, errors.Join(fmt.Errorf("lock the directory: %w", err), d.Remove())
	}
	return d, nil
}

// Remove removes it with all that is in it.
func (d *Dir) Remove() error {
	err := os.RemoveAll(d.Path)
	if d.lock != nil {
		err = errors.Join(err, d.lock.Close())
	}
	return err
}

// removeDead removes the directories in parent whose owners were killed. What cannot be removed stays.
func removeDead(parent, prefix string) {
	locks, err := filepath.Glob(filepath.Join(parent, prefix+"*", lockName))
	if err != nil {
		return // parent is no pattern that can be read
	}
	for _, name := range locks {
		f, err := os.Open(name)
		if err != nil {
			continue
		}
		if syscall.Flock(int(f.Fd()), syscall.LOCK_EX|syscall.LOCK_NB) == nil {
			_ = os.RemoveAll(filepath.Dir(name))
		}
		_ = f.Close()
	}
}
