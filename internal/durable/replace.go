package durable

import (
	"errors"
	"os"
	"path/filepath"
)

// Replace creates or replaces an owner-only file (0600) atomically: it writes under another name,
// syncs, renames, and then syncs the directory, because until then the rename is only in memory.
// prepare, unless nil, is given the new file before it has a name.
func Replace(name string, data []byte, prepare func(*os.File) error) error {
	f, err := os.CreateTemp(filepath.Dir(name), ".new-*") // 0600
	if err != nil {
		return err
	}
	defer os.Remove(f.Name()) // fails after the rename, as it should
	if prepare != nil {
		err = prepare(f)
	}
	if err == nil {
		_, err = f.Write(data)
	}
	if err == nil {
		err = f.Sync()
	}
	if err = errors.Join(err, f.Close()); err == nil {
		err = os.Rename(f.Name(), name)
	}
	if err != nil {
		return err
	}
	return Dir(filepath.Dir(name))
}
