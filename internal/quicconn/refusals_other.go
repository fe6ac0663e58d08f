//go:build !linux

package quicconn

import "syscall"

// reportRefusals cannot be had here: a refused connection ends with its timeout.
func reportRefusals(string, string, syscall.RawConn) error { return nil }
