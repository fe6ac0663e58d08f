//go:build linux

package observe

import (
	"os"
	"testing"

	"ceiling/record"
)

// A process beside the server is seen with the CPU time that it used, by its own
// count (the helper spins for 30 ms); the watched ones are left out.
func TestNeighbours(t *testing.T) {
	h := startHelper(t)
	tools, err := newTools("/proc", "/sys")
	if err != nil {
		t.Fatal(err)
	}
	defer tools.close()
	s := newSubject(tools, "here")
	defer s.close()
	if err := s.watch(record.RoleGenerator, os.Getpid(), "given"); err != nil {
		t.Fatal(err)
	}
	n := newNeighbourSampler(tools, s)
	out := &collect{t: t}
	if err := n.sample(tick{}, out.emit); err != nil || len(out.rows) != 0 {
		t.Fatalf("%d rows of the first look, %v", len(out.rows), err)
	}
	h.order("spin")
	if err := n.sample(tick{tNs: 2e9, widthNs: 2e9}, out.emit); err != nil {
		t.Fatal(err)
	}
	rows := rowsOf[record.NeighboursRow](out)
	if len(rows) != 1 || len(rows[0].Neighbours) > neighboursMost {
		t.Fatalf("%+v", rows)
	}
	var used int64
	for _, one := range n.used {
		switch one.PID {
		case h.pid:
			used = one.CPUNs
			if one.Comm == "" || one.CPU != -1 { // a Go program has several threads
				t.Errorf("%+v", one)
			}
		case os.Getpid():
			t.Errorf("the generator is a neighbour of itself: %+v", one)
		}
	}
	if used < 20e6 || used > 60e6 { // the start of a Go program, and ticks of 10 ms
		t.Errorf("30 ms of CPU are seen as %d ns", used)
	}
}
