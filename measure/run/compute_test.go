//go:build linux

package run

import (
	"slices"
	"testing"

	"ceiling/internal/needs"
)

// TestComputeCostsMoreThanRead: /compute stands for work in the application, so the server's CPU per
// request is a multiple of that of /read, by rounds of both on CPUs apart from the generator's: above five
// on a quiet machine, while other work makes each small request dearer (4.1 at a load of 12).
func TestComputeCostsMoreThanRead(t *testing.T) {
	needs.Quiet(t)
	twoCPUs(t)
	t.Setenv("XDG_STATE_HOME", t.TempDir())
	c := startServer(t, "nethttp")
	var ratios []float64
	for range 5 {
		cost := func(path string) float64 {
			s := specOf(c.Addr, path)
			s.Connections, s.Apart = 64, true
			subject := do(t, s).Run.Subject
			if subject == nil || !(subject.CPUNsPerRequest > 0) {
				t.Fatalf("%s: the server's CPU was not measured", path)
			}
			return subject.CPUNsPerRequest
		}
		ratios = append(ratios, cost("/compute")/cost("/read"))
	}
	slices.Sort(ratios)
	t.Logf("/compute costs %.1f times the CPU of /read", ratios)
	if ratios[2] < 2.5 {
		t.Errorf("/compute costs %.1f times the CPU of /read", ratios)
	}
}
