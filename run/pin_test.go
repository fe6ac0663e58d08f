package run

import (
	"net/netip"
	"os"
	"path/filepath"
	"slices"
	"strconv"
	"testing"

	"ceiling/internal/sys"
)

func TestPinServerIsGivenBack(t *testing.T) {
	t.Setenv("XDG_STATE_HOME", t.TempDir())
	c := startServer(t, "nethttp")
	addr := netip.MustParseAddrPort(c.Addr)
	before, err := sys.AllowedCPUs(c.PID)
	if err != nil {
		t.Fatal(err)
	}
	last := before[len(before)-1:]
	p, err := pinServer(list(last), tcpTarget(addr.Addr(), addr.Port()))
	if err != nil {
		t.Fatal(err)
	}
	checkThreads(t, c.PID, last)
	if err := p.restore(); err != nil {
		t.Fatal(err)
	}
	checkThreads(t, c.PID, before)
	if _, err := os.Stat(p.note); !os.IsNotExist(err) {
		t.Errorf("the note is still there: %v", err)
	}
}

// TestPinsOfAKilledRun: the note of a process that is gone is found by the
// next start, one of a process that lives is not touched.
func TestPinsOfAKilledRun(t *testing.T) {
	state := t.TempDir()
	t.Setenv("XDG_STATE_HOME", state)
	c := startServer(t, "nethttp")
	addr := netip.MustParseAddrPort(c.Addr)
	before, err := sys.AllowedCPUs(c.PID)
	if err != nil {
		t.Fatal(err)
	}
	last := before[len(before)-1:]
	p, err := pinServer(list(last), tcpTarget(addr.Addr(), addr.Port()))
	if err != nil {
		t.Fatal(err)
	}
	if err := RestorePins(); err != nil {
		t.Fatal(err)
	}
	checkThreads(t, c.PID, last) // ours: still at work
	p.was.OwnerTick++            // as if our number had been another's
	if err := p.writeNote(filepath.Join(state, "ceiling", "pins")); err != nil {
		t.Fatal(err)
	}
	if err := RestorePins(); err != nil {
		t.Fatal(err)
	}
	checkThreads(t, c.PID, before)
	broken := filepath.Join(state, "ceiling", "pins", "7.json")
	if err := os.WriteFile(broken, []byte("{"), 0o600); err != nil {
		t.Fatal(err)
	}
	if err := RestorePins(); err == nil {
		t.Error("a damaged note was passed over in silence")
	}
}

func list(cpus []int) string {
	text := ""
	for i, c := range cpus {
		if i > 0 {
			text += ","
		}
		text += strconv.Itoa(c)
	}
	return text
}

func checkThreads(t *testing.T, pid int, want []int) {
	t.Helper()
	tids, err := sys.Threads(pid)
	if err != nil {
		t.Fatal(err)
	}
	for _, tid := range tids {
		got, err := sys.AllowedCPUs(tid)
		if err == nil && !slices.Equal(got, want) {
			t.Errorf("thread %d may run on %v, want %v", tid, got, want)
		}
	}
}
