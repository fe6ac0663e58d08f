//go:build linux

package run

import (
	"context"
	"errors"
	"os"
	"strings"
	"syscall"
	"testing"
	"time"
)

func TestChildServesAndStops(t *testing.T) {
	c := startServer(t, "nethttp")
	if c.Ended() || c.Addr == "" {
		t.Fatalf("ended %v, address %q", c.Ended(), c.Addr)
	}
	c.Stop()
	if !c.Ended() {
		t.Error("not ended after Stop")
	}
	if err := syscall.Kill(c.PID, 0); !errors.Is(err, syscall.ESRCH) {
		t.Errorf("process %d is still there: %v", c.PID, err)
	}
	c.Stop() // again is nothing
}

func TestChildThatFails(t *testing.T) {
	t.Setenv("RUN_TEST_FAIL", "the roof is on fire")
	_, err := StartChild(t.Context(), os.Args[0])
	if err == nil || !strings.Contains(err.Error(), "the roof is on fire") {
		t.Errorf("error %v does not say what the process said", err)
	}
	if _, err := StartChild(t.Context(), "/nonexistent/command"); err == nil {
		t.Error("a command that is not there was started")
	}
}

func TestChildIsGivenUp(t *testing.T) {
	ctx, cancel := context.WithTimeout(t.Context(), 50*time.Millisecond)
	defer cancel()
	_, err := StartChild(ctx, "sleep", "60")
	if !errors.Is(err, context.DeadlineExceeded) {
		t.Errorf("error %v, want the context's", err)
	}
}
