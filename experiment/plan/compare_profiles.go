package plan

import (
	"cmp"
	"math"
	"slices"

	"ceiling/record"
)

// Differences between two profiles, function by function: the cost per request on each side. The
// blocks of a run, or the runs of a plan, measure the noise.

const (
	// profileLeast is the share of a side's total from which a function is tested: every test
	// reduces the power of all.
	profileLeast = 0.01
	profileTests = 30
	// differencesMost limits the differences kept per kind.
	differencesMost = 20
)

// comparedKinds are the kinds of profile that measure the cost per request.
func comparedKinds() []string {
	return []string{record.ProfileOnCPU, record.ProfileGoCPU, record.ProfileOffCPU, record.ProfileGoBlock, record.ProfileGoMutex,
		record.ProfileAllocs}
}

// profileSide is one kind of profile of one side: the cost of each function per request, in each
// block.
type profileSide struct {
	blocks    int
	functions map[string]*functionCost
	total     []float64 // of all functions, by block
	unit      string
}

type functionCost struct {
	name, file string
	line       int
	each       []float64 // by block
}

// sideOf aligns the blocks.
func sideOf(blocks [][]record.RequestProfile, kind string) *profileSide {
	s := &profileSide{functions: map[string]*functionCost{}}
	for _, block := range blocks {
		i := slices.IndexFunc(block, func(p record.RequestProfile) bool { return p.Kind == kind })
		if i < 0 {
			continue
		}
		s.unit = block[i].Unit
		total := 0.0
		for _, f := range block[i].Functions {
			one := s.functions[f.Name]
			if one == nil {
				one = &functionCost{name: f.Name, file: f.File, line: f.Line}
				s.functions[f.Name] = one
			}
			one.each = append(one.each, make([]float64, max(s.blocks+1-len(one.each), 0))...)
			one.each[s.blocks] += f.Each
			total += f.Each
		}
		s.total = append(s.total, total)
		s.blocks++
	}
	for _, f := range s.functions {
		f.each = append(f.each, make([]float64, s.blocks-len(f.each))...)
	}
	return s
}

// RequestProfiles returns the cost per request in a run, over all its profiled blocks.
func RequestProfiles(g *record.Profiling) []record.RequestProfile {
	if g == nil {
		return nil
	}
	requests := 0.0
	for _, b := range g.Blocks {
		if b.Profiled {
			requests += b.Requests
		}
	}
	if !(requests > 0) {
		return nil
	}
	var list []record.RequestProfile
	for _, p := range comparedProfiles(g) {
		list = append(list, requestProfile(p, seenScale(g, p)/requests, func(f *record.ProfileFunction) int64 { return f.Self }))
	}
	return list
}

// requestsOfBlocks returns the cost per request in each profiled block of a run.
func requestsOfBlocks(g *record.Profiling) [][]record.RequestProfile {
	var list [][]record.RequestProfile
	at := 0
	for _, b := range g.Blocks {
		if !b.Profiled {
			continue
		}
		var block []record.RequestProfile
		for _, p := range comparedProfiles(g) {
			if b.Requests > 0 {
				block = append(block, requestProfile(p, seenScale(g, p)/b.Requests, func(f *record.ProfileFunction) int64 {
					if at < len(f.Blocks) {
						return f.Blocks[at]
					}
					return 0
				}))
			}
		}
		if len(block) > 0 {
			list = append(list, block)
		}
		at++
	}
	return list
}

// comparedProfiles returns the profiles of a run to compare; Go's own CPU profile only if the
// kernel's is missing.
func comparedProfiles(g *record.Profiling) []*record.ProfileOf {
	var list []*record.ProfileOf
	for _, kind := range comparedKinds() {
		if p := g.Of(kind); p != nil && (kind != record.ProfileGoCPU || g.Of(record.ProfileOnCPU) == nil) {
			list = append(list, p)
		}
	}
	return list
}

// seenScale is the blocks' time divided by the time observed.
func seenScale(g *record.Profiling, p *record.ProfileOf) float64 {
	if p.SeenNs <= 0 {
		return 1
	}
	lasted := 0.0
	for _, b := range g.Blocks {
		if b.Profiled {
			lasted += float64(b.ToNs - b.FromNs)
		}
	}
	return lasted / float64(p.SeenNs)
}

func requestProfile(p *record.ProfileOf, each float64, of func(*record.ProfileFunction) int64) record.RequestProfile {
	out := record.RequestProfile{Kind: p.Kind, Unit: p.Unit, Functions: []record.RequestFunction{}}
	for i := range p.Functions[:min(len(p.Functions), profileTests)] {
		if f := &p.Functions[i]; f.Self > 0 {
			out.Functions = append(out.Functions, record.RequestFunction{Name: f.Name, File: f.File, Line: f.Line, Each: each * float64(of(f))})
		}
	}
	return out
}

// profileDifferences returns the differences for every kind that both sides have, by block. same:
// the sides were measured alternately; otherwise the two sessions may differ by themselves.
func profileDifferences(a, b [][]record.RequestProfile, same bool) []record.ProfileDifference {
	var list []record.ProfileDifference
	for _, kind := range comparedKinds() {
		if x, y := sideOf(a, kind), sideOf(b, kind); x.blocks > 0 && y.blocks > 0 {
			list = append(list, differenceOf(kind, x, y, same))
		}
	}
	return list
}

// profilesOfFinished returns the blocks of finished runs: each segment of a run, or each run if
// the sides were measured alternately or there are many.
func profilesOfFinished(runs []*record.Profiling, same bool) [][]record.RequestProfile {
	var stretches, whole [][]record.RequestProfile
	for _, g := range runs {
		stretches = append(stretches, requestsOfBlocks(g)...)
		if p := RequestProfiles(g); len(p) > 0 {
			whole = append(whole, p)
		}
	}
	if same || len(stretches) > shiftMost {
		return whole
	}
	return stretches
}

func differenceOf(kind string, a, b *profileSide, same bool) record.ProfileDifference {
	d := record.ProfileDifference{Kind: kind, Unit: a.unit, BlocksA: a.blocks, BlocksB: b.blocks, A: mean(a.total), B: mean(b.total),
		InTurns: same, Functions: []record.FunctionDifference{}}
	tested := testedFunctions(a, b)
	for _, name := range tested {
		d.Functions = append(d.Functions, functionDifference(a.functions[name], b.functions[name], a.blocks, b.blocks, len(tested), same))
	}
	rank := map[string]int{record.Dearer: 0, record.Cheaper: 1, record.Noise: 2}
	slices.SortStableFunc(d.Functions, func(x, y record.FunctionDifference) int {
		return cmp.Or(cmp.Compare(rank[x.Decision], rank[y.Decision]), cmp.Compare(math.Abs(y.B-y.A), math.Abs(x.B-x.A)),
			cmp.Compare(x.Name, y.Name))
	})
	d.Functions = d.Functions[:min(len(d.Functions), differencesMost)]
	return d
}

// testedFunctions returns the largest functions of both sides.
func testedFunctions(a, b *profileSide) []string {
	least := profileLeast * max(mean(a.total), mean(b.total))
	size := map[string]float64{}
	for _, s := range []*profileSide{a, b} {
		for name, f := range s.functions {
			if v := mean(f.each); v > 0 && v >= least {
				size[name] = max(size[name], v)
			}
		}
	}
	names := make([]string, 0, len(size))
	for name := range size {
		names = append(names, name)
	}
	slices.SortFunc(names, func(x, y string) int { return cmp.Or(cmp.Compare(size[y], size[x]), cmp.Compare(x, y)) })
	return names[:min(len(names), profileTests)]
}

func functionDifference(a, b *functionCost, blocksA, blocksB, tests int, same bool) record.FunctionDifference {
	if a == nil {
		a = &functionCost{each: make([]float64, blocksA)}
	}
	if b == nil {
		b = &functionCost{each: make([]float64, blocksB)}
	}
	d := record.FunctionDifference{Name: cmp.Or(b.name, a.name), File: cmp.Or(b.file, a.file), Line: cmp.Or(b.line, a.line), A: mean(a.each),
		B: mean(b.each), Decision: record.Noise}
	shift, enough := shiftOf(a.each, b.each, (1-compareConfidence)/float64(tests))
	if !enough {
		return d
	}
	d.Low, d.High = shift.Low, shift.High
	// Ignore a difference that two sessions may have by themselves.
	more, less := 0.0, 0.0
	if !same {
		more, less = d.A*(occasions-1), d.A*(1-1/occasions)
	}
	switch {
	case d.Low > more:
		d.Decision = record.Dearer
	case d.High < -less:
		d.Decision = record.Cheaper
	}
	return d
}

func mean(values []float64) float64 {
	sum := 0.0
	for _, v := range values {
		sum += v
	}
	return sum / float64(max(len(values), 1))
}

// profilesOf returns the cost per request in some runs of a plan.
func profilesOf(runs []*record.Measured) [][]record.RequestProfile {
	var list [][]record.RequestProfile
	for _, m := range runs {
		if len(m.Profiles) > 0 {
			list = append(list, m.Profiles)
		}
	}
	return list
}
