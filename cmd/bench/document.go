package main

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"os"
	"os/exec"
	"time"

	"ceiling/internal/exit"
)

// documentLimit ends a command that hangs.
const documentLimit = 15 * time.Minute

// document runs the program as a user does and returns its JSON output. It discards the records.
// A failed SLO or an invalid run is a valid answer.
func (b *bench) document(ctx context.Context, args ...string) ([]byte, error) {
	dir, err := os.MkdirTemp("", "ceiling-bench-")
	if err != nil {
		return nil, err
	}
	defer os.RemoveAll(dir)
	limited, cancel := context.WithTimeout(ctx, documentLimit)
	defer cancel()
	var stdout, stderr bytes.Buffer
	cmd := exec.CommandContext(limited, b.binary, args...)
	cmd.Stdout, cmd.Stderr = &stdout, &stderr
	cmd.Env = append(os.Environ(), "LC_ALL=C", "NO_COLOR=1", "XDG_DATA_HOME="+dir)
	cmd.Cancel = func() error { return cmd.Process.Signal(os.Interrupt) } // it stops its servers
	cmd.WaitDelay = grace
	var ended *exec.ExitError
	if err := cmd.Run(); err != nil && !(errors.As(err, &ended) && (ended.ExitCode() == exit.Invalid || ended.ExitCode() == exit.Fail)) {
		return nil, fmt.Errorf("%w: %s", err, lastLine(stderr.Bytes(), stdout.Bytes()))
	}
	return stdout.Bytes(), nil
}

// decode runs document and decodes its output.
func (b *bench) decode(ctx context.Context, into any, args ...string) error {
	text, err := b.document(ctx, args...)
	if err != nil {
		return err
	}
	return json.Unmarshal(text, into)
}
