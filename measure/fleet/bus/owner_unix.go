//go:build unix

package bus

import (
	"os"
	"path/filepath"
	"syscall"
)

// likeDirectory gives a file written by root to the owner of its directory: a controller may run as
// another user, who must be able to read it.
func likeDirectory(f *os.File) error {
	if os.Geteuid() != 0 {
		return nil
	}
	var dir syscall.Stat_t
	if err := syscall.Stat(filepath.Dir(f.Name()), &dir); err != nil {
		return err
	}
	return f.Chown(int(dir.Uid), int(dir.Gid))
}
