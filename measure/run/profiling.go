package run

import (
	"cmp"
	"errors"
	"fmt"
	"math"
	"slices"

	pprof "github.com/google/pprof/profile"

	"ceiling/internal/profiles"
	"ceiling/internal/stat"
	"ceiling/internal/unit"
	"ceiling/measure/profile"
	"ceiling/record"
)

// kindOf says how to sum up a kind of profile.
type kindOf struct {
	kind   string
	blame  profiles.Blame
	blocks bool // it is separated by block
}

func profileKinds() []kindOf {
	var list []kindOf
	for _, kind := range record.ProfileKinds() {
		k := kindOf{kind, profiles.Waiting, kind != record.ProfileHeap && kind != record.ProfileGoroutine}
		if kind == record.ProfileOnCPU || kind == record.ProfileGoCPU {
			k.blame = profiles.Innermost
		}
		list = append(list, k)
	}
	return list
}

// result sums up the profiles; on and off are the kernel's, or nil. kernel reports whether the
// kernel provided stacks; if not, the run says why.
func (r *rotation) result(on, off *pprof.Profile, kernel bool) (*record.Profiling, map[string][]byte) {
	if r == nil {
		return nil, nil
	}
	for _, p := range r.last["heap"] {
		p.Block = -1
		r.add(record.ProfileHeap, []profiles.Part{p})
	}
	out := &record.Profiling{Blocks: r.blocks, Profiles: []record.ProfileOf{}, Scheduler: r.latency}
	if r.gc[0] != nil && r.gc[1] != nil {
		out.GC = r.gc[1].Since(r.gc[0])
	}
	if r.profiled == 0 {
		r.lose("profiles", "the window was too short for one, or ended early; give a longer -d")
	} else if on == nil && kernel {
		r.lose("CPU profile", "the server's processes used no CPU that was sampled")
	}
	files := map[string][]byte{}
	for _, k := range profileKinds() {
		p := map[string]*pprof.Profile{record.ProfileOnCPU: on, record.ProfileOffCPU: off}[k.kind]
		if parts := r.parts[k.kind]; len(parts) > 0 {
			var err error
			p, err = profiles.Merge(parts)
			r.note(k.kind+" profile", err)
		}
		if p == nil {
			continue
		}
		switch k.kind {
		case record.ProfileGoCPU:
			r.goCPU = p
		case record.ProfileOnCPU:
		default:
			profiles.WithoutProfilers(p)
		}
		value, err := profiles.ValueNamed(p, record.ProfileValue(k.kind))
		if err != nil {
			r.lose(k.kind+" profile", err.Error())
			continue
		}
		one := profileOf(k, p, value, r.profiled)
		if k.kind == record.ProfileOffCPU {
			one.SeenNs = p.DurationNanos
		}
		packed, err := packedProfile(p)
		r.note(k.kind+" profile", err)
		if packed != nil {
			one.File = record.ProfileFile(k.kind)
			files[one.File] = packed
		}
		out.Profiles = append(out.Profiles, one)
	}
	return out, files
}

// cpuProfile sums up Go's CPU profile as that of the whole window; none if there is none.
func (r *rotation) cpuProfile() []record.Profile {
	if r == nil || r.goCPU == nil {
		return nil
	}
	sum, err := profile.SummaryOf(record.ProfileCPU, r.goCPU)
	if err != nil {
		r.note("Go's CPU profile", err)
		return nil
	}
	return []record.Profile{sum}
}

// packedMost bounds a profile saved with the run, in bytes.
const packedMost = 8 << 20

func packedProfile(p *pprof.Profile) ([]byte, error) {
	b, err := profiles.Bytes(p)
	if err != nil {
		return nil, err
	}
	if len(b) > packedMost {
		return nil, fmt.Errorf("it has %s, more than the %s that are kept; its functions are", unit.FormatBytesIEC(int64(len(b))),
			unit.FormatBytesIEC(packedMost))
	}
	return b, nil
}

// Limits on what a record has of a profile.
const (
	processPartsMost = 64
	selfMost         = 60
	totalMost        = 20
)

// foremost selects the functions that a record keeps: those with the largest self time, and of the
// others those with the largest cumulative time. A caller whose work the compiler inlined, or that
// only calls, has little self time.
func foremost(all []profiles.Function) []profiles.Function {
	kept, others := all[:min(len(all), selfMost)], all[min(len(all), selfMost):]
	callers := slices.SortedStableFunc(slices.Values(others), func(a, b profiles.Function) int { return cmp.Compare(b.Total, a.Total) })
	return slices.Concat(kept, callers[:min(len(callers), totalMost)])
}

func profileOf(k kindOf, p *pprof.Profile, value, blocks int) record.ProfileOf {
	if !k.blocks {
		blocks = 0
	}
	s := profiles.Summarize(p, value, blocks, k.blame)
	out := record.ProfileOf{Kind: k.kind, Unit: s.Unit, Total: s.Total, Functions: []record.ProfileFunction{},
		Whole: len(s.Functions) <= selfMost+totalMost}
	for name, v := range s.Processes {
		out.Processes = append(out.Processes, record.ProcessPart{Process: name, Value: v})
	}
	slices.SortFunc(out.Processes, func(a, b record.ProcessPart) int {
		return cmp.Or(cmp.Compare(b.Value, a.Value), cmp.Compare(a.Process, b.Process))
	})
	out.Processes = out.Processes[:min(len(out.Processes), processPartsMost)]
	for _, f := range foremost(s.Functions) {
		if f.Self == 0 {
			f.Blocks = nil
		}
		out.Functions = append(out.Functions, record.ProfileFunction{Name: f.Name, File: f.File, Line: f.Line, Through: f.Through, Self: f.Self,
			Total: f.Total, Blocks: f.Blocks})
	}
	return out
}

// keepProfiling adds the profiling to the record, with the series' figures for each block.
func keepProfiling(w *record.Writer, r *record.Run, f *ServerInfo, series *record.Series) error {
	r.Profiling = f.Profiling
	if r.Profiling == nil {
		return nil
	}
	for i := range r.Profiling.Blocks {
		measureBlock(&r.Profiling.Blocks[i], series)
	}
	r.Profiling.Cost = profilingCost(r.Profiling.Blocks)
	var err error
	for _, p := range r.Profiling.Profiles {
		if p.File != "" {
			err = errors.Join(err, w.Attach(p.File, f.ProfileFiles[p.File]))
		}
	}
	return err
}

// measureBlock takes from the series what was completed in a block, and the server's CPU time for
// it: from the rows inside it or, if these cover less than half of a short block, from the
// overlapping parts of rows.
func measureBlock(b *record.ProfilingBlock, series *record.Series) {
	length := float64(b.ToNs - b.FromNs)
	for _, cut := range []bool{false, true} {
		inside := func(tNs, widthNs int64) float64 { return partWithin(b, tNs, widthNs, cut) }
		var completed, loaded, used float64
		for i := range series.Load {
			if row := &series.Load[i]; !row.Warmup {
				part := inside(row.TNs, row.WidthNs)
				completed += part * float64(row.Completed)
				loaded += part * float64(row.WidthNs)
			}
		}
		watched := map[int]float64{} // by process
		for _, row := range series.Observed.Processes {
			if row.Role == record.RoleSubject {
				part := inside(row.TNs, row.WidthNs)
				used += part * float64(row.CPUNs)
				watched[row.PID] += part * float64(row.WidthNs)
			}
		}
		longest := 0.0
		for _, ns := range watched {
			longest = max(longest, ns)
		}
		if completed == 0 || !cut && (loaded < length/2 || longest < length/2 && len(watched) > 0) {
			continue
		}
		b.Requests = completed / loaded * length
		if longest > 0 {
			b.CPUNsPerRequest = used / longest / (completed / loaded)
		}
		return
	}
}

// partWithin returns the share of a row that lies in a block; cut counts rows that overlap it
// partly, too.
func partWithin(b *record.ProfilingBlock, tNs, widthNs int64, cut bool) float64 {
	from, to := max(tNs-widthNs, b.FromNs), min(tNs, b.ToNs)
	switch {
	case widthNs <= 0 || to <= from, !cut && to-from < widthNs:
		return 0
	}
	return float64(to-from) / float64(widthNs)
}

// costConfidence is the confidence level of the profiles' cost.
const costConfidence = 0.95

// profilingCost compares each block with its neighbour.
func profilingCost(blocks []record.ProfilingBlock) *record.ProfileCost {
	var c record.ProfileCost
	var logs, with, without []float64
	for i := 0; i+1 < len(blocks); i += 2 {
		a, b := blocks[i], blocks[i+1]
		if a.Profiled {
			a, b = b, a
		}
		if a.Profiled == b.Profiled || !(a.CPUNsPerRequest > 0) || !(b.CPUNsPerRequest > 0) {
			continue
		}
		logs = append(logs, math.Log(b.CPUNsPerRequest/a.CPUNsPerRequest))
		with, without = append(with, b.CPUNsPerRequest), append(without, a.CPUNsPerRequest)
	}
	if len(logs) == 0 {
		return nil
	}
	c.Pairs, c.WithNs, c.WithoutNs = len(logs), stat.Middle(with), stat.Middle(without)
	c.Needed = stat.LeastBlocks(costConfidence, 1)
	d, err := stat.Paired(logs, costConfidence, 1)
	if err != nil || len(logs) < c.Needed {
		mid := stat.Relative(stat.Middle(logs))
		c.Relative = record.Estimate{Mid: mid, Low: stat.Relative(slices.Min(logs)), High: stat.Relative(slices.Max(logs))}
		return &c
	}
	c.Relative = record.Estimate{Mid: stat.Relative(d.Value), Low: stat.Relative(d.Low), High: stat.Relative(d.High), Confidence: d.Confidence}
	return &c
}
