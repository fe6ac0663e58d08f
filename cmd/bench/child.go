package main

import (
	"bytes"
	"context"
	_ "embed"
	"errors"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"syscall"
	"time"

	"ceiling/internal/exit"
	"ceiling/internal/process"
)

// grace is how much longer than its job a tool may take: node takes 0.3 s to start, and ab sorts
// all its requests before it prints.
const grace = 20 * time.Second

// outcome is one run of one tool.
type outcome struct {
	answer
	// CPUNs is the user and system CPU time of the process, its threads and the children that it
	// waited for, over its lifetime: wait4(2).
	CPUNs int64
}

// pipelineLua makes wrk pipeline.
//
//go:embed pipeline.lua
var pipelineLua []byte

const pipelineName = "pipeline.lua"

// run runs one job.
func (t *tool) run(ctx context.Context, j job) (outcome, error) {
	dir, err := os.MkdirTemp("", "ceiling-bench-")
	if err != nil {
		return outcome{}, err
	}
	defer os.RemoveAll(dir)
	args, able := t.arguments(j, dir)
	if !able {
		return outcome{}, fmt.Errorf("%s cannot do this", t.Name)
	}
	if err := os.WriteFile(filepath.Join(dir, pipelineName), pipelineLua, 0o600); err != nil {
		return outcome{}, err
	}
	return t.runCommand(ctx, append([]string{t.Path}, args...), j)
}

// runCommand runs a command line and returns the tool's output.
func (t *tool) runCommand(ctx context.Context, line []string, j job) (outcome, error) {
	limited, cancel := context.WithTimeout(ctx, j.Duration+grace)
	defer cancel()
	var stdout, stderr bytes.Buffer
	c := exec.CommandContext(limited, line[0], line[1:]...)
	c.Stdout, c.Stderr = &stdout, &stderr
	c.Env = append(os.Environ(), "LC_ALL=C", "NO_COLOR=1")
	if err := process.StartOn(j.CPUs, c); err != nil {
		return outcome{}, err
	}
	if err := t.accept(limited, c.Wait()); err != nil {
		return outcome{}, fmt.Errorf("%s: %w: %s", t.Name, err, lastLine(stderr.Bytes(), stdout.Bytes()))
	}
	a, err := t.parse(stdout.Bytes())
	if err != nil {
		return outcome{}, fmt.Errorf("%s: its output: %w", t.Name, err)
	}
	usage, ok := c.ProcessState.SysUsage().(*syscall.Rusage)
	if !ok {
		return outcome{}, errors.New("no resource usage of a child on this system")
	}
	return outcome{answer: a, CPUNs: usage.Utime.Nano() + usage.Stime.Nano()}, nil
}

// accept lets an invalid run pass: it is one where generator and server compete for the same CPUs.
func (t *tool) accept(ctx context.Context, err error) error {
	var ended *exec.ExitError
	if t.Name == ours && errors.As(err, &ended) && ended.ExitCode() == exit.Invalid {
		return nil
	}
	if err != nil && ctx.Err() != nil {
		return ctx.Err()
	}
	return err
}

// lastLine returns the last line of the first non-empty text.
func lastLine(texts ...[]byte) string {
	for _, text := range texts {
		if last := process.LastLine(text); last != "" {
			return last
		}
	}
	return "it printed nothing"
}
