package plan

import (
	"maps"
	"math/rand/v2"
	"slices"
	"strings"
	"testing"

	"ceiling/internal/needs"
	"ceiling/record"
	"ceiling/verdict/prose"
)

// simulated is a run of some blocks with 10,000 requests each, in which functions
// cost so many nanoseconds a request, with noise on each block and on each function.
func simulated(chance *rand.Rand, blocks int, costs map[string]float64) *record.Profiling {
	g := &record.Profiling{}
	p := record.ProfileOf{Kind: record.ProfileOnCPU, Unit: "nanoseconds"}
	common := make([]float64, blocks)
	for i := range blocks {
		g.Blocks = append(g.Blocks, record.ProfilingBlock{Profiled: true, Requests: 10_000, FromNs: int64(i) * 2e9, ToNs: int64(i)*2e9 + 1e9},
			record.ProfilingBlock{FromNs: int64(i)*2e9 + 1e9, ToNs: int64(i)*2e9 + 2e9, Requests: 11_000})
		common[i] = 1 + .03*chance.NormFloat64()
	}
	for _, name := range slices.Sorted(maps.Keys(costs)) {
		cost := costs[name]
		f := record.ProfileFunction{Name: name, File: name + ".go", Line: 3}
		for i := range blocks {
			v := int64(max(10_000*cost*common[i]*(1+.1*chance.NormFloat64()), 0))
			f.Blocks = append(f.Blocks, v)
			f.Self += v
		}
		p.Functions = append(p.Functions, f)
		p.Total += f.Self
	}
	g.Profiles = []record.ProfileOf{p}
	return g
}

func someCosts() map[string]float64 {
	return map[string]float64{"write": 4000, "read": 2000, "parse": 800, "json": 500, "log": 300, "route": 200, "alloc": 150, "copy": 120}
}

// A function that became dearer is found among others that did not change, by the
// stretches of two runs.
func TestDearerFunctionIsFound(t *testing.T) {
	chance := rand.New(rand.NewPCG(1, 2))
	found, false_ := 0, 0
	const rounds = 100
	for range rounds {
		before, after := someCosts(), someCosts()
		after["json"] = 1200
		after["check"] = 400 // it is new
		delete(after, "log") // it is gone
		list := profileDifferences(requestsOfBlocks(simulated(chance, 9, before)), requestsOfBlocks(simulated(chance, 9, after)), false)
		decided := map[string]string{}
		for _, f := range list[0].Functions {
			decided[f.Name] = f.Decision
		}
		if decided["json"] == record.Dearer && decided["check"] == record.Dearer && decided["log"] == record.Cheaper {
			found++
		}
		for _, name := range []string{"write", "read", "parse", "route", "alloc", "copy"} {
			if decided[name] != record.Noise {
				false_++
			}
		}
		if text := prose.ProfileDifference(&list[0]); !strings.Contains(text, "dearer: json (json.go:3) +") || !strings.Contains(text, "cheaper: log") {
			t.Fatal(text)
		}
	}
	if found < 95 || false_ > 1 {
		t.Errorf("found in %d of %d rounds, %d false ones", found, rounds, false_)
	}
}

// What did not change is noise, also where a whole occasion was slower.
func TestNoiseIsNotChange(t *testing.T) {
	chance := rand.New(rand.NewPCG(3, 4))
	for range 50 {
		slower := someCosts()
		for name := range slower {
			slower[name] *= 1.15
		}
		a, b := simulated(chance, 9, someCosts()), simulated(chance, 9, slower)
		list := profileDifferences(requestsOfBlocks(a), requestsOfBlocks(b), false)
		if !strings.HasSuffix(prose.ProfileDifference(&list[0]), "no function changed beyond the variation between two occasions") {
			t.Error(prose.ProfileDifference(&list[0]))
		}
	}
	short := func() [][]record.RequestProfile { return requestsOfBlocks(simulated(chance, 3, someCosts())) }
	few := profileDifferences(short(), short(), false)
	if !strings.Contains(prose.ProfileDifference(&few[0]), "inconclusive: 3 and 3 blocks are too few") {
		t.Error(prose.ProfileDifference(&few[0]))
	}
	if list := profileDifferences(short(), nil, false); len(list) != 0 {
		t.Errorf("%+v", list)
	}
}

// In a plan each run is a block, as brief as the plan keeps it, and 10% tell.
func TestProfilesOfAPlan(t *testing.T) {
	needs.Time(t)
	chance := rand.New(rand.NewPCG(5, 6))
	const rounds = 60
	found, wrong := 0, 0
	for range rounds {
		var a, b []*record.Measured
		for range 20 {
			after := someCosts()
			after["json"] = 650
			a = append(a, &record.Measured{Profiles: RequestProfiles(simulated(chance, 8, someCosts()))})
			b = append(b, &record.Measured{Profiles: RequestProfiles(simulated(chance, 8, after))})
		}
		list := profileDifferences(profilesOf(a), profilesOf(b), true)
		if f := list[0].Functions[0]; list[0].BlocksA == 20 && f.Name == "json" && f.Decision == record.Dearer && f.Low < 150 && f.High > 150 {
			found++
		}
		if slices.ContainsFunc(list[0].Functions[1:], func(f record.FunctionDifference) bool { return f.Decision != record.Noise }) {
			wrong++
		}
	}
	// At 95% for all functions together, 3 of 60 are expected to be wrong.
	if found < 55 || wrong > 8 {
		t.Errorf("of %d rounds the planted 150 ns are found in %d, and something else in %d", rounds, found, wrong)
	}
}
