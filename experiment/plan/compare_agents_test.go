package plan

import (
	"testing"

	"ceiling/record"
)

// TestAgentFacts: of a run of several agents their hosts are compared, and not
// the one it was asked for on.
func TestAgentFacts(t *testing.T) {
	fleet := func(driver, model string, names ...string) *record.Run {
		r := &record.Run{Environment: record.Environment{Host: driver, CPUModel: driver}}
		for _, name := range names {
			r.Agents = append(r.Agents, record.Agent{Name: name, Loads: true,
				Environment: record.Environment{Host: name, CPUModel: model, CoresAllowed: 4, Kernel: "6.18"}})
		}
		r.Agents = append(r.Agents, record.Agent{Name: "web", Observes: true})
		return r
	}
	check := func(name string, a, b *record.Run, want map[string]string) {
		t.Helper()
		got := map[string]string{}
		list, _ := differ([][]Fact{factsOf(a)}, [][]Fact{factsOf(b)})
		for _, d := range list {
			if d.A != d.B {
				got[d.What] = d.Weight
			}
		}
		if len(got) != len(want) {
			t.Errorf("%s: %v, want %v", name, got, want)
		}
		for what, weight := range want {
			if got[what] != weight {
				t.Errorf("%s: %s is %q, want %q", name, what, got[what], weight)
			}
		}
	}
	check("another driver", fleet("d1", "cpu", "a", "b"), fleet("d2", "cpu", "b", "a"), nil)
	check("one more", fleet("d", "cpu", "a", "b"), fleet("d", "cpu", "a", "b", "c"),
		map[string]string{"agents": WeightExplains, "names of the agents": WeightNoted})
	check("other machines", fleet("d", "cpu", "a"), fleet("d", "faster", "a"),
		map[string]string{"machines of the agents": WeightForbids, "CPU model": WeightForbids})
}
