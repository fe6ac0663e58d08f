//go:build !windows

package ring

import "syscall"

// common returns the number by which package syscall names an error.
func common(no syscall.Errno) syscall.Errno { return no }
