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
	got := descendants(5, map[int]int{5: 1, 9: 5, 7: 9, 8: 1, 3: 7})
	if !slices.Equal(got, []int{3, 5, 7, 9}) {
		t.Errorf("%v", got)
	}
	if pids, err := tree(os.Getpid()); err != nil || !slices.Contains(pids, os.Getpid()) {
		t.Errorf("%v, %v", pids, err)
	}
}

func TestCallsParse(t *testing.T) {
	if n, err := parsePerf([]byte("\n4711,,raw_syscalls:sys_enter,428538,100.00,,\n")); n != 4711 || err != nil {
		t.Errorf("%d, %v", n, err)
	}
	for _, text := range []string{"", "event syntax error", "<not counted>,,raw_syscalls:sys_enter,0,100.00,,"} {
		if _, err := parsePerf([]byte(text)); err == nil {
			t.Errorf("%q was taken", text)
		}
	}
	table := "% time     seconds  usecs/call     calls    errors syscall\n------ ----- ----- ----- ----- ----\n 60.00    0.1    5   1000           read\n 40.00    0.1    5   234     3     write\n------\n100.00    0.2      12     1234        3 total\n"
	if n, err := parseStrace([]byte(table)); n != 1234 || err != nil {
		t.Errorf("%d, %v", n, err)
	}
	if _, err := parseStrace([]byte("strace: attach: ptrace: Operation not permitted\n")); err == nil {
		t.Error("no table was taken")
	}
}
