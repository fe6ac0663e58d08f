package process

import (
	"context"
	"errors"
	"fmt"
	"os"
	"strconv"
	"strings"
	"syscall"
	"testing"
	"time"

	"ceiling/internal/needs"
)

// parentEnv makes the test binary a parent that waits to be killed.
const parentEnv = "PROCESS_TEST_PARENT"

func TestMain(m *testing.M) {
	if os.Getenv(parentEnv) != "" {
		p, err := shell("exec sleep 1000").Start()
		if err != nil {
			fmt.Fprintln(os.Stderr, err)
			os.Exit(1)
		}
		fmt.Println("ready", p.PID)
		select {}
	}
	os.Exit(m.Run())
}

func shell(script string) *Command {
	return &Command{Name: "sh", Args: []string{"-c", script}, Group: true,
		Ready: func(line string) (string, bool) { return strings.CutPrefix(line, "ready ") }}
}

// started starts a command that says the PID of a process to look after.
func started(t *testing.T, c *Command) (p *Process, pid int) {
	t.Helper()
	p, err := c.Start()
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(p.Stop)
	said, err := p.Await(t.Context(), nil)
	if err != nil {
		t.Fatal(err)
	}
	if pid, err = strconv.Atoi(said); err != nil {
		t.Fatal(err)
	}
	return p, pid
}

// runs reports whether a process is there that has not ended.
func runs(pid int) bool {
	stat, err := os.ReadFile(fmt.Sprintf("/proc/%d/stat", pid))
	return err == nil && !strings.Contains(string(stat), ") Z ")
}

func waitForEnd(t *testing.T, pid int) {
	t.Helper()
	for limit := time.Now().Add(time.Minute); runs(pid); time.Sleep(time.Millisecond) {
		if time.Now().After(limit) {
			t.Fatalf("process %d runs on", pid)
		}
	}
}

// TestStopEndsTheGroup: when Stop returns, what the shell started has ended, even what takes its
// time, or ignores the signal.
func TestStopEndsTheGroup(t *testing.T) {
	needs.Processes(t)
	for _, inner := range []string{
		"exec sleep 1000",
		"trap 'sleep 0.2; exit' TERM; while :; do sleep 0.01; done",
		"trap '' TERM; while :; do sleep 0.01; done",
	} {
		p, pid := started(t, shell(`sh -c "`+inner+`" >/dev/null & sleep 0.1; echo ready $!; wait; wait`))
		p.Stop()
		if runs(pid) || !p.Ended() {
			t.Errorf("%s: runs on after Stop", inner)
		}
		p.Stop() // again is nothing
	}
}

// TestShellLeavesNothing: what a shell leaves in the background ends with it.
func TestShellLeavesNothing(t *testing.T) {
	p, pid := started(t, shell("sleep 1000 >/dev/null 2>&1 & echo ready $!"))
	if err := p.Wait(t.Context()); err != nil {
		t.Error(err)
	}
	waitForEnd(t, pid)
}

// TestReadyAndGone: a process that says it is ready and ends is ready, also when both are known before
// anybody waits.
func TestReadyAndGone(t *testing.T) {
	for range 20 { // select chose between the two
		p, err := shell("echo ready here").Start()
		if err != nil {
			t.Fatal(err)
		}
		if err := p.Wait(t.Context()); err != nil {
			t.Fatal(err)
		}
		if said, err := p.Await(t.Context(), nil); said != "here" || err != nil {
			t.Fatalf("said %q: %v", said, err)
		}
	}
}

func TestEndsWithItsParent(t *testing.T) {
	program, err := os.Executable()
	if err != nil {
		t.Fatal(err)
	}
	c := shell("")
	c.Name, c.Args, c.Env = program, nil, []string{parentEnv + "=1"}
	parent, child := started(t, c)
	if !runs(child) {
		t.Fatal("the child does not run")
	}
	if err := parent.Signal(syscall.SIGKILL); err != nil {
		t.Fatal(err)
	}
	waitForEnd(t, child)
}

// TestOutputNeverBlocks: neither a line of any length, nor what follows readiness.
func TestOutputNeverBlocks(t *testing.T) {
	for _, script := range []string{"head -c 1000000 /dev/zero", "echo ready; head -c 1000000 /dev/zero"} {
		p, err := shell(script).Start()
		if err != nil {
			t.Fatal(err)
		}
		if err := p.Wait(t.Context()); err != nil {
			t.Errorf("%s: %v", script, err)
		}
	}
}

// TestAwait: the line that says that it is ready; a probe; why it is not.
func TestAwait(t *testing.T) {
	ended := func(c *Command) error {
		p, err := c.Start()
		if err != nil {
			return err
		}
		_, err = p.Await(t.Context(), nil)
		return err
	}
	for script, want := range map[string]string{
		"echo noise; echo the roof is on fire >&2; exit 3": "it ended: exit status 3; it said: the roof is on fire",
		"echo only output; exit 3":                         "it ended: exit status 3; it said: only output",
		"true":                                             "it ended: without an error",
	} {
		if err := ended(shell(script)); err == nil || err.Error() != want {
			t.Errorf("%s: %v, want %s", script, err, want)
		}
	}
	if err := ended(&Command{Name: "/nonexistent/command"}); err == nil {
		t.Error("a command that is not there was started")
	}
	late := errors.New("it is late")
	ctx, cancel := context.WithCancelCause(t.Context())
	p, err := shell("echo tired; exec sleep 1000").Start()
	if err != nil {
		t.Fatal(err)
	}
	probes := 0
	_, err = p.Await(ctx, func() bool {
		if probes++; p.printed.last() == "tired" {
			cancel(late)
		}
		return false
	})
	if !errors.Is(err, late) || !strings.Contains(err.Error(), "tired") || probes == 0 || !p.Ended() {
		t.Errorf("%v after %d probes; ended %v", err, probes, p.Ended())
	}
}
