package main

import (
	"bytes"
	"fmt"
	"os"
	"strconv"
)

// userHz is the unit of /proc/stat, a constant of the kernel's interface on
// every architecture that Go runs on: 100 per second.
const userHz = 100

// hostBusyNs is the CPU time that the whole host has spent on anything but
// idling, nanoseconds: user, nice, system, irq and softirq of /proc/stat. It
// counts by the tick. Stolen time is not the host's.
func hostBusyNs() (int64, error) {
	text, err := os.ReadFile("/proc/stat")
	if err != nil {
		return 0, err
	}
	return parseHostBusy(text)
}

func parseHostBusy(text []byte) (int64, error) {
	line, _, _ := bytes.Cut(text, []byte("\n"))
	f := bytes.Fields(line)
	if len(f) < 8 || string(f[0]) != "cpu" {
		return 0, fmt.Errorf("/proc/stat: first line is %q", line)
	}
	var ticks int64
	for _, i := range []int{1, 2, 3, 6, 7} {
		n, err := strconv.ParseInt(string(f[i]), 10, 64)
		if err != nil {
			return 0, fmt.Errorf("/proc/stat: %w", err)
		}
		ticks += n
	}
	return ticks * (1e9 / userHz), nil
}

// bytesRead is what the process has read by read(2) and its kin, from sockets
// too: rchar of /proc/PID/io. A kernel without CONFIG_TASK_IO_ACCOUNTING has
// no such file.
func bytesRead(pid int) (uint64, error) {
	text, err := os.ReadFile(fmt.Sprintf("/proc/%d/io", pid))
	if err != nil {
		return 0, err
	}
	return parseField(text, "rchar:")
}

// residentPeak is the greatest resident set that the process has had, bytes:
// VmHWM of /proc/PID/status. Not wait4's ru_maxrss, which starts at the size
// of the process that made this one (fs/exec.c, exec_mmap).
func residentPeak(pid int) (uint64, error) {
	text, err := os.ReadFile(fmt.Sprintf("/proc/%d/status", pid))
	if err != nil {
		return 0, err
	}
	kilobytes, err := parseField(text, "VmHWM:")
	return kilobytes * 1024, err
}

// parseField finds "name value" at the beginning of a line.
func parseField(text []byte, name string) (uint64, error) {
	for line := range bytes.Lines(text) {
		f := bytes.Fields(line)
		if len(f) >= 2 && string(f[0]) == name {
			return strconv.ParseUint(string(f[1]), 10, 64)
		}
	}
	return 0, fmt.Errorf("no %s in it", name)
}
