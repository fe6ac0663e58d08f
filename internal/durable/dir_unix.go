//go:build unix

// Package durable makes changes of a directory survive a crash of the machine.
package durable

import (
	"errors"
	"os"
	"syscall"
)

// Dir syncs a directory to disk. If the file system does not support that (fsync(2): EINVAL),
// there is nothing to do.
func Dir(dir string) error {
	d, err := os.Open(dir)
	if err != nil {
		return err
	}
	err = d.Sync()
	if errors.Is(err, syscall.EINVAL) || errors.Is(err, syscall.ENOTSUP) {
		err = nil
	}
	return errors.Join(err, d.Close())
}
