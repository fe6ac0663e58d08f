package race

import (
	"os"
	"os/exec"
	"slices"
	"syscall"
	"testing"
	"time"
)

// patience bounds what a test waits for. It is never part of a claim.
const patience = 30 * time.Second

// shell starts a script in a group of its own, which is ended with the test.
func shell(t *testing.T, script string) int {
	t.Helper()
	cmd := exec.Command("sh", "-c", script)
	cmd.SysProcAttr = &syscall.SysProcAttr{Setpgid: true}
	if err := cmd.Start(); err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		_ = syscall.Kill(-cmd.Process.Pid, syscall.SIGKILL) // it may have ended
		_ = cmd.Wait()                                      // it was killed
	})
	return cmd.Process.Pid
}

func until(t *testing.T, what string, f func() bool) {
	t.Helper()
	for end := time.Now().Add(patience); !f(); time.Sleep(5 * time.Millisecond) {
		if time.Now().After(end) {
			t.Fatalf("never: %s", what)
		}
	}
}

// TestTreeCounts: the CPU time of a child's child is in the sum, and nearly all of
// it, for the others sleep.
func TestTreeCounts(t *testing.T) {
	pid := shell(t, `sh -c 'while [ ! -e /proc/1/nothing ]; do :; done & sleep 60' & sleep 60`)
	until(t, "the processes", func() bool { // five, or four where a shell becomes its last command
		pids, err := tree(pid)
		return err == nil && len(pids) >= 4
	})
	before, err := readClock(pid)
	if err != nil {
		t.Fatal(err)
	}
	var after clock
	until(t, "50 ms of CPU", func() bool {
		if after, err = readClock(pid); err != nil {
			t.Fatal(err)
		}
		ns, err := after.since(before)
		return err == nil && ns > 50e6
	})
	if own := after[pid] - before[pid]; own > 10e6 {
		t.Errorf("the root itself used %d ns", own)
	}
	if bytes, err := proportional(pid); err != nil || bytes < 4<<10 || bytes > 1<<30 {
		t.Errorf("%d bytes, %v", bytes, err)
	}
}

// TestTreeLoses: CPU time that went away with a process is an error, not a smaller
// sum; and so is a root that ended.
func TestTreeLoses(t *testing.T) {
	before := clock{1: 10, 2: 20}
	if ns, err := (clock{1: 15, 2: 20, 3: 7}).since(before); ns != 12 || err != nil {
		t.Errorf("%d, %v", ns, err)
	}
	if ns, err := (clock{1: 15}).since(before); err == nil {
		t.Errorf("%d without an error", ns)
	}
	pid := shell(t, "exit 0")
	until(t, "its end", func() bool { _, err := readClock(pid); return err != nil })
}

func TestTreeParses(t *testing.T) {
	if pids, err := tree(os.Getpid()); err != nil || !slices.Contains(pids, os.Getpid()) {
		t.Errorf("%v, %v", pids, err)
	}
}
