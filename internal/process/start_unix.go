//go:build unix

package process

import "syscall"

// Credential is a user.
type Credential = syscall.Credential

// signal sends a signal to a process, or to the group of the negative number.
func signal(pid int, s syscall.Signal) error { return syscall.Kill(pid, s) }
