package main

import (
	"bytes"
	"context"
	"fmt"
	"os"
	"os/exec"
	"runtime"
	"strings"

	"ceiling/internal/sys"
)

// Host is the machine of a run.
type Host struct {
	Kernel string `json:"kernel"`
	CPU    string `json:"cpu"`
	Cores  int    `json:"cores"` // that this process may use
	Go     string `json:"go"`    // that built this command
}

func readHost() (Host, error) {
	release, err := os.ReadFile("/proc/sys/kernel/osrelease")
	if err != nil {
		return Host{}, err
	}
	info, err := os.ReadFile("/proc/cpuinfo")
	if err != nil {
		return Host{}, err
	}
	return Host{Kernel: strings.TrimSpace(string(release)), CPU: cpuModel(info), Cores: runtime.NumCPU(), Go: runtime.Version()}, nil
}

// cpuModel is the first "model name" of /proc/cpuinfo, which arm64 does not
// have.
func cpuModel(info []byte) string {
	if model := sys.Field(info, "model name"); model != "" {
		return model
	}
	return runtime.GOARCH
}

// commit returns the checked-out commit, and whether anything but the ledger differs from it.
func commit(ctx context.Context) (id string, dirty bool, err error) {
	head, err := exec.CommandContext(ctx, "git", "rev-parse", "HEAD").Output()
	if err != nil {
		return "unknown", true, fmt.Errorf("git rev-parse: %w", err)
	}
	status, err := exec.CommandContext(ctx, "git", "status", "--porcelain", "--", ":/", ":(exclude,top)docs/journal/bench.ndjson").Output()
	if err != nil {
		return "unknown", true, fmt.Errorf("git status: %w", err)
	}
	return strings.TrimSpace(string(head)), len(bytes.TrimSpace(status)) > 0, nil
}

// bytesRead returns the bytes that the process has read by read(2) and related calls, sockets
// included: rchar of /proc/PID/io. A kernel without CONFIG_TASK_IO_ACCOUNTING lacks this file.
func bytesRead(pid int) (uint64, error) {
	text, err := os.ReadFile(fmt.Sprintf("/proc/%d/io", pid))
	if err != nil {
		return 0, err
	}
	return sys.FieldCount(text, "rchar")
}

// residentPeak returns the process's peak resident set in bytes: VmHWM of /proc/PID/status.
// wait4's ru_maxrss does not work: it starts at the size of the parent process (fs/exec.c,
// exec_mmap).
func residentPeak(pid int) (uint64, error) {
	text, err := os.ReadFile(fmt.Sprintf("/proc/%d/status", pid))
	if err != nil {
		return 0, err
	}
	kilobytes, err := sys.FieldCount(text, "VmHWM")
	return kilobytes * 1024, err
}
