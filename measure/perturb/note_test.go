//go:build linux

package perturb

import (
	"os"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"testing"

	"ceiling/internal/sys"
)

// stateDir gives the notes a place of their own.
func stateDir(t *testing.T) string {
	t.Helper()
	dir := t.TempDir()
	t.Setenv("XDG_STATE_HOME", dir)
	return filepath.Join(dir, "ceiling", "taken")
}

func nothingNoted(t *testing.T) {
	t.Helper()
	if paths := notePaths(); len(paths) > 0 {
		t.Errorf("notes are left: %v", paths)
	}
}

func checkThreads(t *testing.T, pid int, want []int) {
	t.Helper()
	tids, err := sys.Threads(pid)
	if err != nil {
		t.Fatal(err)
	}
	for _, tid := range tids {
		if got, err := sys.AllowedCPUs(tid); err == nil && !slices.Equal(got, want) {
			t.Errorf("thread %d may run on %v, want %v", tid, got, want)
		}
	}
}

func TestPinIsGivenBack(t *testing.T) {
	stateDir(t)
	pid := start(t, "idle").cmd.Process.Pid
	before, err := sys.AllowedCPUs(pid)
	if err != nil {
		t.Fatal(err)
	}
	last := before[len(before)-1:]
	p, err := Pin([]int{pid}, last)
	if err != nil {
		t.Fatal(err)
	}
	checkThreads(t, pid, last)
	if err := p.Restore(); err != nil {
		t.Fatal(err)
	}
	checkThreads(t, pid, before)
	nothingNoted(t)
	if _, err := Pin([]int{pid}, []int{4095}); err == nil {
		t.Error("pinned to a CPU that is not there")
	}
	checkThreads(t, pid, before)
	nothingNoted(t)
	gone := start(t, "idle")
	gone.kill()
	if _, err := Pin([]int{gone.cmd.Process.Pid}, last); err == nil {
		t.Error("pinned a process that has ended")
	}
}

// TestKilledPinIsRestored: the next start finds the note, and undoes two of
// them in the right order.
func TestKilledPinIsRestored(t *testing.T) {
	stateDir(t)
	pid := start(t, "idle").cmd.Process.Pid
	before, err := sys.AllowedCPUs(pid)
	if err != nil {
		t.Fatal(err)
	}
	first, last := before[0], before[len(before)-1]
	inner := start(t, "hold", "pin", strconv.Itoa(pid), strconv.Itoa(first))
	outer := start(t, "hold", "pin", strconv.Itoa(pid), strconv.Itoa(last))
	if err := Restore(); err != nil {
		t.Fatal(err)
	}
	checkThreads(t, pid, []int{last}) // both live: nothing is undone
	inner.kill()
	outer.kill()
	checkThreads(t, pid, []int{last})
	if err := Restore(); err != nil {
		t.Fatal(err)
	}
	checkThreads(t, pid, before)
	nothingNoted(t)
}

func TestNotesThatAreNone(t *testing.T) {
	dir := stateDir(t)
	if err := Restore(); err != nil {
		t.Errorf("without notes: %v", err)
	}
	if err := os.MkdirAll(dir, 0o700); err != nil {
		t.Fatal(err)
	}
	for _, text := range []string{"{", "{}", `{"schema":"ceiling.taken/9"}`} {
		path := filepath.Join(dir, "7-1.json")
		if err := os.WriteFile(path, []byte(text), 0o600); err != nil {
			t.Fatal(err)
		}
		if err := Restore(); err == nil || !strings.Contains(err.Error(), path) {
			t.Errorf("%s was passed over in silence: %v", text, err)
		}
		if _, err := os.Stat(path); err != nil {
			t.Errorf("%s: the note is gone: %v", text, err)
		}
	}
	// A note about a process that has ended, and one whose number is another's.
	gone := start(t, "idle")
	gone.kill()
	n, err := newNote()
	if err != nil {
		t.Fatal(err)
	}
	n.OwnerTicks++
	n.Processes = []pinnedTask{{PID: gone.cmd.Process.Pid, CPUs: []int{0}}, {PID: os.Getpid(), StartTicks: 1, CPUs: []int{4095}}}
	if err := n.write(); err != nil {
		t.Fatal(err)
	}
	if err := os.Remove(filepath.Join(dir, "7-1.json")); err != nil {
		t.Fatal(err)
	}
	if err := Restore(); err != nil {
		t.Error(err)
	}
	nothingNoted(t)
	t.Setenv("XDG_STATE_HOME", "")
	t.Setenv("HOME", "")
	if _, err := Pin([]int{os.Getpid()}, []int{0}); err == nil || !strings.Contains(err.Error(), "XDG_STATE_HOME") {
		t.Errorf("without a place for the note: %v", err)
	}
}

func FuzzReadNote(f *testing.F) {
	f.Add([]byte(`{"schema":"ceiling.taken/1","owner":1,"owner_start_ticks":5,"processes":[{"pid":4,"start_ticks":1,"cpus":[0],"threads":{"4":[0]}}]}`))
	f.Add([]byte(`{"schema":"ceiling.taken/1","link":{"interface":"eth0","before":{"kind":"tbf","handle":1,"options":"AAAA"},"rate_bytes_per_s":9}}`))
	path := filepath.Join(f.TempDir(), "1-1.json")
	f.Fuzz(func(t *testing.T, text []byte) {
		if err := os.WriteFile(path, text, 0o600); err != nil {
			t.Fatal(err)
		}
		n, err := readNote(path)
		if err == nil && n.Schema != noteSchema || err != nil && !strings.Contains(err.Error(), path) {
			t.Errorf("%+v, %v", n, err)
		}
	})
}
