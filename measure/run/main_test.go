//go:build linux

package run

import (
	"context"
	"errors"
	"fmt"
	"os"
	"os/signal"
	"strings"
	"syscall"
	"testing"
	"time"

	"ceiling/server"
	"ceiling/server/planted"
)

// TestMain lets the test binary be a server, for tests that need one in a
// process of its own.
func TestMain(m *testing.M) {
	if kind := os.Getenv("RUN_TEST_WAITS"); kind != "" {
		serveWaits(kind)
	}
	if cause := os.Getenv("RUN_TEST_CAUSE"); cause != "" {
		serveCause(cause)
	}
	if kind := os.Getenv("RUN_TEST_SERVE"); kind != "" {
		ctx, stop := signal.NotifyContext(context.Background(), syscall.SIGTERM)
		// RUN_TEST_ADDR makes it one that says nothing and serves where it is told.
		ready := func(addr string) { fmt.Printf("%s serves on %s\n", kind, addr) }
		addr := os.Getenv("RUN_TEST_ADDR")
		if addr != "" {
			ready = nil
		}
		err := server.Serve(ctx, kind, server.Config{Addr: addr, Ready: ready})
		stop()
		if err != nil {
			fmt.Fprintln(os.Stderr, err)
			os.Exit(1)
		}
		os.Exit(0)
	}
	if sleep := os.Getenv("RUN_TEST_SLEEP"); sleep != "" {
		each, err := time.ParseDuration(sleep)
		if err == nil {
			err = planted.Serve(context.Background(), "sleep", planted.Params{Addr: os.Getenv("ADDR"), Sleep: each}, func(string) {})
		}
		fmt.Fprintln(os.Stderr, err)
		os.Exit(1)
	}
	if of := os.Getenv("RUN_TEST_SHORTAGE"); of != "" {
		runShort(of)
	}
	if times := os.Getenv("RUN_TEST_RESIDENCE"); times != "" {
		s := new(residence)
		if _, err := fmt.Sscan(times, &s.unread, &s.inside); err != nil {
			panic(err)
		}
		fmt.Fprintln(os.Stderr, s.serve())
		os.Exit(1)
	}
	if why := os.Getenv("RUN_TEST_FAIL"); why != "" {
		fmt.Fprintln(os.Stderr, why)
		os.Exit(1)
	}
	os.Exit(m.Run())
}

// startServer starts this binary as a server of the kind.
func startServer(t *testing.T, kind string) *Child {
	t.Helper()
	return startAs(t, "RUN_TEST_SERVE", kind)
}

// startAs starts this binary with a variable that says what it is.
func startAs(t *testing.T, variable, kind string) *Child {
	t.Helper()
	t.Setenv(variable, kind)
	c, err := StartChild(t.Context(), os.Args[0])
	os.Unsetenv(variable)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(c.Stop)
	return c
}

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
