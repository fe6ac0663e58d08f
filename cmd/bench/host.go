package main

import (
	"bytes"
	"cmp"
	"context"
	"fmt"
	"os"
	"os/exec"
	"runtime"
	"strings"

	"ceiling/internal/sys"
	"ceiling/record"
)

// Host is the machine of a run.
type Host struct {
	Kernel string `json:"kernel"`
	CPU    string `json:"cpu"`
	Cores  int    `json:"cores"` // that this process may use
	Go     string `json:"go"`    // that built this command
}

func readHost() Host {
	env := record.ReadEnvironment("")
	return Host{Kernel: env.Kernel, CPU: cmp.Or(env.CPUModel, runtime.GOARCH), Cores: runtime.NumCPU(), Go: env.Go}
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
