// Package needs lets a test say what it needs beyond Go: a quiet machine, privileges, programs of
// others. With -short (make test) such a test is skipped, with its need as the reason; without
// (make test-all) the need must be there, or the test fails: nothing is skipped silently. With -short
// and the race detector (the last part of make test-all) those that need time alone run.
package needs

import (
	"os"
	"os/exec"
	"runtime"
	"strings"
	"testing"
)

// Prefix begins the reason of every test that this package skips.
const Prefix = "needs "

// Quiet is for a test that measures: it compares times, rates or shares of CPU with what was
// planted, which other programs on the machine can spoil. It is skipped under the race detector
// too, which changes what things cost.
func Quiet(t testing.TB) {
	t.Helper()
	short(t, "a quiet machine")
	Unraced(t)
}

// Unraced is for a test that the race detector would only make long.
func Unraced(t testing.TB) {
	t.Helper()
	if raceDetector {
		t.Skip(Prefix + "a build without the race detector")
	}
}

// Time is for a test that takes more than some seconds whatever the machine does.
func Time(t testing.TB) {
	t.Helper()
	unraced(t, "time")
}

// Engine is for a test that starts the load engine on a wall clock, or measures with it: what the
// machine does at the time is part of what it sees.
func Engine(t testing.TB) {
	t.Helper()
	unraced(t, "the load engine")
}

// Processes is for a test that drives child processes for more than a handshake.
func Processes(t testing.TB) {
	t.Helper()
	unraced(t, "child processes")
}

// Root is for a test that changes the host: network namespaces, mounts, settings, other users.
func Root(t testing.TB) {
	t.Helper()
	short(t, "root")
	if os.Geteuid() != 0 {
		t.Fatal(Prefix + "root: run it with sudo, or all that need nothing with -short")
	}
}

// Program is for a test that starts third-party programs.
func Program(t testing.TB, names ...string) {
	t.Helper()
	short(t, strings.Join(names, " and "))
	for _, name := range names {
		if _, err := exec.LookPath(name); err == nil {
			continue
		}
		if _, err := os.Stat("/usr/sbin/" + name); err != nil {
			t.Fatalf("%s%s: make deps installs it on Debian", Prefix, name)
		}
	}
}

// CPUs is for a test that needs n CPUs it may use.
func CPUs(t testing.TB, n int) {
	t.Helper()
	if have := runtime.NumCPU(); have < n { // those of sched_getaffinity(2)
		t.Skipf("%s%d CPUs, this process may use %d", Prefix, n, have)
	}
}

// AskedFor begins the reason of a test that runs only when it is asked for: it makes something.
const AskedFor = "run with "

// Asking returns the value of an environment variable that asks for a test; without it, the test
// is skipped.
func Asking(t testing.TB, variable string) string {
	t.Helper()
	value := os.Getenv(variable)
	if value == "" {
		t.Skip(AskedFor + variable + "=…")
	}
	return value
}

// unraced is short for what the race detector is to see.
func unraced(t testing.TB, need string) {
	t.Helper()
	if !raceDetector {
		short(t, need)
	}
}

func short(t testing.TB, need string) {
	t.Helper()
	if testing.Short() {
		t.Skip(Prefix + need)
	}
}

// Raced reports whether the race detector watches, which multiplies what memory a goroutine takes.
func Raced() bool { return raceDetector }
