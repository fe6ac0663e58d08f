package record

import (
	"os"

	"ceiling/internal/sys"
)

// claim marks a file as being written with a lock that disappears with its process, however that
// ends. On a file system without locks it has no effect.
func claim(f *os.File) { _ = sys.Lock(f, false) }

// abandoned reports whether no process writes a file. It returns false on a file system without
// locks, where that is unknown.
func abandoned(f *os.File) bool {
	locked, err := sys.IsLocked(f)
	return err == nil && !locked
}
