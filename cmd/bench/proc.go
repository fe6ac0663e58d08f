package main

import (
	"fmt"
	"os"

	"ceiling/internal/sys"
)

// bytesRead is what the process has read by read(2) and its kin, from sockets
// too: rchar of /proc/PID/io. A kernel without CONFIG_TASK_IO_ACCOUNTING has
// no such file.
func bytesRead(pid int) (uint64, error) {
	text, err := os.ReadFile(fmt.Sprintf("/proc/%d/io", pid))
	if err != nil {
		return 0, err
	}
	return sys.FieldCount(text, "rchar")
}

// residentPeak is the greatest resident set that the process has had, bytes:
// VmHWM of /proc/PID/status. Not wait4's ru_maxrss, which starts at the size
// of the process that made this one (fs/exec.c, exec_mmap).
func residentPeak(pid int) (uint64, error) {
	text, err := os.ReadFile(fmt.Sprintf("/proc/%d/status", pid))
	if err != nil {
		return 0, err
	}
	kilobytes, err := sys.FieldCount(text, "VmHWM")
	return kilobytes * 1024, err
}
