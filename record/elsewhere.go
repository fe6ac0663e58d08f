package record

import (
	"errors"
	"fmt"
	"io/fs"
	"strings"
	"syscall"
)

// createFailed is the error of a record that could not be begun.
func createFailed(what string, err error) error {
	return fmt.Errorf("create %s: %w%s", what, err, elsewhere(err))
}

// elsewhere is what to do about an error that is the place's: a disk that is
// full or read-only, a directory that may not be written. "" for any other.
func elsewhere(err error) string {
	for _, is := range []error{syscall.ENOSPC, syscall.EDQUOT, syscall.EROFS, fs.ErrPermission, fs.ErrNotExist, syscall.ENOTDIR} {
		if errors.Is(err, is) {
			return "; keep records elsewhere: -o DIR, or set XDG_DATA_HOME"
		}
	}
	return ""
}

// Incomplete says in one line what a record lacks and why: a full disk fails
// every file alike.
func Incomplete(dir string, err error) string {
	for _, is := range []syscall.Errno{syscall.ENOSPC, syscall.EDQUOT, syscall.EROFS} {
		if errors.Is(err, is) {
			return fmt.Sprintf("the record in %s is incomplete: %s%s", dir, is.Error(), elsewhere(err))
		}
	}
	text := strings.ReplaceAll(err.Error(), "\n", "; ")
	return fmt.Sprintf("the record in %s is incomplete: %s%s", dir, text, elsewhere(err))
}
