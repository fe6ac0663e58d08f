//go:build !linux

package prefork

import (
	"errors"
	"syscall"
)

func ownGroup() *syscall.SysProcAttr { return nil }

func setReusePort(string, string, syscall.RawConn) error { return errors.ErrUnsupported }
