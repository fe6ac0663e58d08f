package record

import (
	"math"
	"slices"
	"testing"
)

// The generator's headroom is the least of its busiest thread's, of the cores that its threads may
// use, and of what was calibrated: with threads above, at and below the cores, pinned, in a cgroup,
// and over agents.
func TestHeadroom(t *testing.T) {
	workers := func(n int, busy float64) []Worker { return slices.Repeat([]Worker{{Busy: busy}}, n) }
	for _, c := range []struct {
		name    string
		threads int
		busy    float64
		env     Environment
		pin     string
		want    float64
	}{
		{"120 threads on 2 cores", 120, .00725, Environment{CoresAllowed: 2}, "", 2 / (120 * .00725)},
		{"as many threads as cores", 2, .4, Environment{CoresAllowed: 2}, "", 2.5},
		{"fewer threads than cores", 1, .4, Environment{CoresAllowed: 8}, "", 2.5},
		{"pinned to one of two", 2, .3, Environment{CoresAllowed: 2}, "1", 1 / .6},
		{"pinned to as many", 2, .3, Environment{CoresAllowed: 8}, "1,3", 2 / .6},
		{"a quota of half a core", 2, .2, Environment{CoresAllowed: 2, CgroupCPUs: .5}, "", 1.25},
		{"used more than is allowed", 4, .6, Environment{CoresAllowed: 2}, "", 1},
		{"calibrated less", 1, .01, Environment{CoresAllowed: 2}, "", 31},
	} {
		r := Run{Load: Load{Threads: c.threads}, Environment: c.env}
		r.Spec.PinGenerator = c.pin
		r.Generator = Generator{BusiestWorker: c.busy, Headroom: 31, Workers: workers(c.threads, c.busy)}
		if got := r.Headroom(); math.Abs(got-c.want) > 1e-9 {
			t.Errorf("%s: %v, want %v", c.name, got, c.want)
		}
		if c.pin != "" {
			continue
		}
		fleet := Run{Generator: r.Generator, Agents: []Agent{
			{Load: r.Load, Environment: c.env, Generator: r.Generator},
			{Load: Load{Threads: 1}, Environment: Environment{CoresAllowed: 64}, Generator: Generator{BusiestWorker: .01, Headroom: 50}},
		}}
		if got := fleet.Headroom(); math.Abs(got-c.want) > 1e-9 {
			t.Errorf("%s, as an agent: %v, want %v", c.name, got, c.want)
		}
	}
	uncalibrated := Run{Generator: Generator{BusiestWorker: .5}}
	if h, use := uncalibrated.Headroom(), uncalibrated.RoomByUse(); h != 0 || use != 2 {
		t.Errorf("not calibrated: %v, by use %v", h, use)
	}
}
