//go:build linux

package netns

import (
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"ceiling/internal/needs"
)

func TestOwner(t *testing.T) {
	for name, want := range map[string]int{
		"ceiling-123-4": 123, "ceiling-123": 0, "ceiling-x-4": 0, "ceiling-12-x": 0, "ceiling--1": 0, "other-123-4": 0, "": 0, "ceiling-0-1": 0,
		"cg4194304h360": 4194304, "cg12-3": 0,
	} {
		if got := Owner(name); got != want {
			t.Errorf("%q belongs to %d, want %d", name, got, want)
		}
	}
}

// A process that was killed is gone, also before its parent looks.
func TestGone(t *testing.T) {
	c := exec.CommandContext(t.Context(), "sleep", "60")
	if err := c.Start(); err != nil {
		t.Fatal(err)
	}
	if Gone(c.Process.Pid) || Gone(os.Getpid()) {
		t.Error("a process that runs is gone")
	}
	if err := c.Process.Kill(); err != nil {
		t.Fatal(err)
	}
	for end := time.Now().Add(time.Minute); !Gone(c.Process.Pid); time.Sleep(time.Millisecond) {
		if time.Now().After(end) {
			t.Fatal("a process that was killed, and not waited for, is not gone")
		}
	}
	_ = c.Wait() // killed
	if !Gone(c.Process.Pid) {
		t.Error("a process that was waited for is not gone")
	}
}

// A namespace has an interface with the queues that were asked for, is reached from here,
// and leaves nothing.
func TestNamespace(t *testing.T) {
	needs.Root(t)
	n, err := New(t.Context(), 2, 3)
	if err != nil {
		t.Fatal(err)
	}
	if err := n.Do(t.Context(), "true"); err != nil {
		t.Error(err)
	}
	program, args := n.Within("sh", "-c", "ls /sys/class/net/"+Interface+"/queues; ip -br address")
	out, err := exec.CommandContext(t.Context(), program, args...).CombinedOutput()
	for _, want := range []string{"rx-2", "tx-2", n.Addr.String()} {
		if err != nil || !strings.Contains(string(out), want) {
			t.Errorf("%v: no %s in %s", err, want, out)
		}
	}
	if err := n.Do(t.Context(), "sh", "-c", "echo the roof is on fire; exit 3"); err == nil || !strings.Contains(err.Error(), "on fire") {
		t.Errorf("%v", err)
	}
	if err := n.Remove(); err != nil {
		t.Error(err)
	}
	for _, path := range []string{"/sys/class/net/" + n.veth, filepath.Join("/run/netns", n.Name)} {
		if _, err := os.Stat(path); err == nil {
			t.Errorf("%s is left", path)
		}
	}
	if _, err := New(t.Context(), 2, 1<<20); err == nil || strings.Contains(err.Error(), "and then") {
		t.Errorf("a million queues: %v", err)
	}
	if _, err := os.Stat(filepath.Join("/run/netns", n.Name)); err == nil {
		t.Error("a namespace is left that failed")
	}
}
