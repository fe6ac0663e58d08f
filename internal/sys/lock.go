package sys

import (
	"errors"
	"syscall"
)

// locked interprets the error of an attempt to lock a file.
func locked(err error) (bool, error) {
	if errors.Is(err, syscall.EWOULDBLOCK) {
		return true, nil
	}
	return false, err
}
