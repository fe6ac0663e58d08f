//go:build linux

package run

import (
	"fmt"
	"net/netip"
	"slices"
	"strconv"
	"testing"
	"time"

	"ceiling/internal/needs"
	"ceiling/internal/sys"
)

func TestPinServerIsGivenBack(t *testing.T) {
	needs.Engine(t)
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
	if err := RestorePins(); err != nil { // of a run that goes on nothing is undone
		t.Fatal(err)
	}
	checkThreads(t, c.PID, last)
	if err := p.restore(); err != nil {
		t.Fatal(err)
	}
	checkThreads(t, c.PID, before)
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

// checkThreads fails if a thread of a process may run on other CPUs. A pinned thread that an earlier run
// has ended may still be on its way out.
func checkThreads(t *testing.T, pid int, want []int) {
	t.Helper()
	var wrong string
	for deadline := time.Now().Add(10 * time.Second); time.Now().Before(deadline); time.Sleep(time.Millisecond) {
		tids, err := sys.Threads(pid)
		if err != nil {
			t.Fatal(err)
		}
		wrong = ""
		for _, tid := range tids {
			if got, err := sys.AllowedCPUs(tid); err == nil && !slices.Equal(got, want) {
				wrong = fmt.Sprintf("thread %d may run on %v, want %v", tid, got, want)
			}
		}
		if wrong == "" {
			return
		}
	}
	t.Error(wrong)
}
