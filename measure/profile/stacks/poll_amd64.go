//go:build linux

package stacks

import "syscall"

// pollNumber is the system call poll, whose descriptors are in memory.
const pollNumber = syscall.SYS_POLL
