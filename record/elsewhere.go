package record

import (
	"errors"
	"fmt"
	"io/fs"
	"strings"
	"syscall"
)

// createFailed is the error for a record that could not be created.
func createFailed(what string, err error) error {
	return fmt.Errorf("create %s: %w%s", what, err, elsewhere(err))
}

// elsewhere says what to do about an error of the location: a full or read-only disk, a directory
// without write permission; "" for any other.
func elsewhere(err error) string {
	for _, is := range []error{syscall.ENOSPC, syscall.EDQUOT, syscall.EROFS, fs.ErrPermission, fs.ErrNotExist, syscall.ENOTDIR} {
		if errors.Is(err, is) {
			return "; keep records elsewhere: -o DIR, or set XDG_DATA_HOME"
		}
	}
	return ""
}

// Incomplete says in one line what a record is missing and why: a full disk fails every file
// alike.
func Incomplete(dir string, err error) string {
	for _, is := range []syscall.Errno{syscall.ENOSPC, syscall.EDQUOT, syscall.EROFS} {
		if errors.Is(err, is) {
			return fmt.Sprintf("the record in %s is incomplete: %s%s", dir, is.Error(), elsewhere(err))
		}
	}
	text := strings.ReplaceAll(err.Error(), "\n", "; ")
	return fmt.Sprintf("the record in %s is incomplete: %s%s", dir, text, elsewhere(err))
}
