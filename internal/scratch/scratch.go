// Package scratch creates directories that live as long as their process. The owner holds a lock
// on a file in it; the next process recognises the leftovers of a killed one by the missing lock,
// and removes them.
package scratch

import (
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"runtime"

	"ceiling/internal/sys"
)

// A Dir is a directory that exists until Remove or, if its owner is killed, until the next one is
// created.
type Dir struct {
	Path string
	lock *os.File
}

// lockName is the file that its owner has locked.
const lockName = "lock"

// New creates a directory in parent whose name begins with prefix, and removes those left behind
// by killed processes.
func New(parent, prefix string) (*Dir, error) {
	removeDead(parent, prefix)
	path, err := os.MkdirTemp(parent, prefix)
	if err != nil {
		return nil, err
	}
	// Locked before it gets its name, so that it is never visible unlocked; but Windows renames no
	// open file.
	name := filepath.Join(path, lockName)
	first := name
	if runtime.GOOS != "windows" {
		first += ".new"
	}
	f, err := os.OpenFile(first, os.O_CREATE|os.O_RDWR, 0o600)
	if err == nil {
		err = sys.Lock(f, true)
	}
	if err == nil && first != name {
		err = os.Rename(first, name)
	}
	d := &Dir{Path: path, lock: f}
	if err != nil {
		return nil, errors.Join(fmt.Errorf("lock the directory: %w", err), d.Remove())
	}
	return d, nil
}

// Remove removes it and its content.
func (d *Dir) Remove() error {
	var err error
	if d.lock != nil {
		err = d.lock.Close()
	}
	return errors.Join(err, os.RemoveAll(d.Path))
}

// removeDead removes the directories in parent whose owners were killed. It skips what it cannot
// remove.
func removeDead(parent, prefix string) {
	locks, err := filepath.Glob(filepath.Join(parent, prefix+"*", lockName))
	if err != nil {
		return // parent is not a readable pattern
	}
	for _, name := range locks {
		f, err := os.Open(name)
		if err != nil {
			continue
		}
		if sys.Lock(f, false) == nil {
			_ = f.Close() // Windows removes no open file
			_ = os.RemoveAll(filepath.Dir(name))
			continue
		}
		_ = f.Close()
	}
}
