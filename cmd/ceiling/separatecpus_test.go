//go:build linux

package main

import (
	"os"
	"os/exec"
	"slices"
	"testing"
	"time"

	"ceiling/internal/exit"
	"ceiling/internal/needs"
	"ceiling/internal/sys"
	"ceiling/measure/run"
)

// TestKilledApartIsRestored: kill -9 leaves the server where --separate-cpus had put it,
// and the next run gives it its CPUs back before it chooses again.
func TestKilledApartIsRestored(t *testing.T) {
	needs.Processes(t)
	t.Parallel()
	env := append(os.Environ(), "XDG_DATA_HOME="+t.TempDir(), "XDG_STATE_HOME="+t.TempDir())
	bin := programFile(t)
	server, err := run.StartChild(t.Context(), bin, "serve", "nethttp", "--addr", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(server.Stop)
	allowed := func() []int {
		t.Helper()
		cpus, err := sys.AllowedCPUs(server.PID)
		if err != nil {
			t.Fatal(err)
		}
		return cpus
	}
	before := allowed()
	needs.CPUs(t, 2)
	url := "http://" + server.Addr + "/simple"
	killed := exec.Command(bin, "run", "--separate-cpus", "-n", "1000000000", url) // of no time: one of a minute would calibrate first
	killed.Env = env
	if err := killed.Start(); err != nil {
		t.Fatal(err)
	}
	for until := time.Now().Add(time.Minute); slices.Equal(allowed(), before) && time.Now().Before(until); {
		time.Sleep(10 * time.Millisecond)
	}
	if err := killed.Process.Kill(); err != nil {
		t.Error(err)
	}
	_ = killed.Wait() // by the signal
	during := allowed()
	if slices.Equal(during, before) {
		t.Fatal("the server was never moved, or not left where it was")
	}
	for _, args := range [][]string{{"run", "--separate-cpus", "-d", "100ms", url}, {"run", "-d", "100ms", url}} {
		again := exec.Command(bin, args...)
		again.Env = env
		out, err := again.CombinedOutput()
		if code := exitOf(err); code != exit.Pass && code != exit.Invalid {
			t.Errorf("%v: %v\n%s", args, err, out)
		}
		if after := allowed(); !slices.Equal(after, before) {
			t.Errorf("%v: the server may use %v, had %v, was left on %v", args, after, before, during)
		}
	}
}

func exitOf(err error) int {
	if coded, ok := err.(interface{ ExitCode() int }); ok {
		return coded.ExitCode()
	}
	return 0
}
