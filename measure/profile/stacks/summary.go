//go:build linux

package stacks

import (
	"cmp"
	"fmt"
	"maps"
	"slices"
	"strings"

	"ceiling/internal/profiles"
	"ceiling/measure/profile/symbol"
	"ceiling/record"
)

// Limits on what is kept.
const (
	listMax      = 20
	processesMax = 32
	missingMax   = 8
	// foldedMax stacks, and foldedBytes of them, go into the file.
	foldedMax   = 200
	foldedBytes = 96 << 10
)

// named is a stack with names.
type named struct {
	*counted
	frames   []symbol.Frame // innermost first
	inKernel int
	reason   string // for a wait
	idle     bool
}

// name symbolizes every stack of a table, the largest first.
func (t *table) name(frames map[symbol.Address]symbol.Frame) []named {
	list := make([]named, 0, len(t.counts))
	for _, c := range t.counts {
		n := named{counted: c, inKernel: len(c.kernel)}
		c.each(func(a symbol.Address) {
			if f := frames[a]; f.Mapped {
				n.frames = append(n.frames, f)
			}
		})
		list = append(list, n)
	}
	slices.SortFunc(list, func(a, b named) int {
		return cmp.Or(cmp.Compare(b.value, a.value), cmp.Compare(a.space.PID, b.space.PID), cmp.Compare(a.thread, b.thread),
			slices.Compare(a.kernel, b.kernel), slices.Compare(a.user, b.user))
	})
	return list
}

// Summarize symbolizes the samples. It reads the programs' files, which may take some tenths of a
// second: call it after Stop and after the window, while the processes exist.
func Summarize(t *Tables, c *CPUSampler, o *OffSampler) Summary {
	var out Summary
	s := &record.Stacks{}
	var addresses []symbol.Address
	var missing []string
	var m *members
	if c != nil {
		addresses, m = c.table.addresses(), c.members
	}
	if o != nil {
		addresses, m = append(addresses, o.addresses()...), o.members
	}
	if m == nil {
		return out
	}
	frames, missing := t.names.Resolve(addresses)
	s.Processes = m.list()
	peers := map[*peer]*record.PeerStacks{}
	if c != nil {
		stacks := c.table.name(frames)
		for who, list := range m.apart(stacks) {
			if who == nil {
				s.CPU, out.CPU = c.figures(list, c.table.all-valueOf(stacks)+valueOf(list)), fold(list, 1)
				out.OnProfile = c.profile(list)
				continue
			}
			one := m.peerStacks(peers, who)
			one.Samples = valueOf(list)
			one.Packages = packagesOf(list, float64(one.Samples))
		}
		missing = append(missing, c.missing()...)
	}
	if o != nil {
		var stacks []named
		var waits map[*peer][]record.StackWait
		s.OffCPU, stacks, waits = o.figures(frames)
		for who, list := range waits {
			m.peerStacks(peers, who).Waits = list
		}
		out.OffCPU = fold(stacks, 1000)
		out.OffProfile = o.profile(stacks)
		missing = append(missing, o.missing()...)
	}
	for _, one := range peers {
		s.Peers = append(s.Peers, *one)
	}
	slices.SortFunc(s.Peers, func(a, b record.PeerStacks) int { return cmp.Compare(a.PID, b.PID) })
	for pid, err := range m.failed {
		missing = append(missing, fmt.Sprintf("names of process %d: %v", pid, err))
	}
	slices.Sort(missing)
	s.Missing = missing[:min(len(missing), missingMax)]
	out.Stacks = s
	return out
}

func (c *CPUSampler) missing() (list []string) {
	if c.err != nil {
		list = append(list, c.err.Error())
	}
	if c.table.spare > 0 {
		list = append(list, fmt.Sprintf("the stacks of %d samples: more than %d different ones", c.table.spare, stacksMax))
	}
	return list
}

func (o *OffSampler) missing() (list []string) {
	if o.err != nil {
		list = append(list, o.err.Error())
	}
	if o.lost > 0 {
		list = append(list, fmt.Sprintf("the stacks of %d waits: two at one place of the kernel's table, or more threads and stacks than are kept", o.lost))
	}
	return list
}

// apart groups stacks by their peer; the server's are always among them.
func (m *members) apart(list []named) map[*peer][]named {
	of := map[*peer][]named{nil: nil}
	for i := range list {
		who := m.peerOf(list[i].space.PID)
		of[who] = append(of[who], list[i])
	}
	return of
}

func valueOf(list []named) int {
	sum := 0
	for i := range list {
		sum += int(list[i].value)
	}
	return sum
}

// peerStacks returns the entry of a peer.
func (m *members) peerStacks(of map[*peer]*record.PeerStacks, who *peer) *record.PeerStacks {
	if of[who] == nil {
		m.mu.Lock()
		defer m.mu.Unlock()
		of[who] = &record.PeerStacks{PID: who.root, Packages: []record.StackPackage{}, Waits: []record.StackWait{}}
		if s := m.spaces[who.root]; s != nil {
			of[who].Comm, of[who].Runtime = s.Comm, s.Runtime
		}
	}
	return of[who]
}

// list returns the server's processes for the record.
func (m *members) list() []record.StackProcess {
	m.mu.Lock()
	defer m.mu.Unlock()
	list := []record.StackProcess{}
	for _, pid := range slices.Sorted(maps.Keys(m.spaces)) {
		if s := m.spaces[pid]; s != nil && m.peers[pid] == nil && len(list) < processesMax {
			list = append(list, record.StackProcess{PID: pid, Comm: s.Comm, Runtime: s.Runtime})
		}
	}
	return list
}

func (c *CPUSampler) figures(stacks []named, samples int) *record.CPUStacks {
	out := &record.CPUStacks{
		Method: c.method(), Hz: c.hz, DurationNs: int64(c.lasted), Samples: samples, Lost: c.lost, CostNs: c.costNs, Events: c.opened,
		Packages: []record.StackPackage{}, Functions: []record.StackFunction{},
	}
	all := float64(samples)
	if all == 0 {
		return out
	}
	kernel := 0.0
	for i := range stacks {
		if stacks[i].inKernel > 0 {
			kernel += float64(stacks[i].value)
		}
	}
	out.KernelShare = kernel / all
	out.Packages = packagesOf(stacks, all)
	out.Functions = functionsOf(stacks, all)
	return out
}

// packagesOf sums up which code the samples work for.
func packagesOf(stacks []named, all float64) []record.StackPackage {
	type entry struct {
		name   string
		caller symbol.Frame
	}
	sums := map[string]*record.StackPackage{}
	entries := map[string]map[entry]float64{}
	of := func(name string) *record.StackPackage {
		if sums[name] == nil {
			sums[name] = &record.StackPackage{Name: name}
			entries[name] = map[entry]float64{}
		}
		return sums[name]
	}
	for i := range stacks {
		s := &stacks[i]
		share := float64(s.value) / all
		b := blameOf(s.thread, s.frames, min(s.inKernel, len(s.frames)))
		of(b.pkg).Share += share
		entries[b.pkg][entry{b.entry, b.caller}] += share
		under := map[string]bool{b.pkg: true}
		for _, f := range s.frames {
			under[f.Package] = true
		}
		for name := range under {
			of(name).Under += share
		}
	}
	list := []record.StackPackage{}
	for name, p := range sums {
		if p.Share == 0 {
			continue
		}
		best, most := entry{}, 0.0
		for e, share := range entries[name] {
			if share > most || share == most && cmp.Or(cmp.Compare(e.name, best.name), cmp.Compare(e.caller.Name, best.caller.Name),
				cmp.Compare(e.caller.Line, best.caller.Line)) < 0 {
				best, most = e, share
			}
		}
		p.Entry, p.Caller, p.File, p.Line = best.name, best.caller.Name, best.caller.File, best.caller.Line
		list = append(list, *p)
	}
	slices.SortFunc(list, func(a, b record.StackPackage) int {
		return cmp.Or(cmp.Compare(b.Share, a.Share), cmp.Compare(a.Name, b.Name))
	})
	return list[:min(len(list), listMax)]
}

// functionsOf sums up the functions, by self samples.
func functionsOf(stacks []named, all float64) []record.StackFunction {
	type key struct{ pkg, name string }
	sums := map[key]*record.StackFunction{}
	for i := range stacks {
		s := &stacks[i]
		share := float64(s.value) / all
		seen := map[key]bool{}
		for at, f := range s.frames {
			if f.Name == "" && at > 0 {
				continue
			}
			k := key{f.Package, cmp.Or(f.Name, "unknown")}
			sum := sums[k]
			if sum == nil { // the stacks with the most samples come first
				sum = &record.StackFunction{Name: k.name, Package: k.pkg, File: f.File, Line: f.Line}
				sums[k] = sum
			}
			if at == 0 {
				if sum.Self == 0 {
					sum.File, sum.Line = f.File, f.Line
				}
				sum.Self += share
			}
			if !seen[k] {
				seen[k] = true
				sum.Total += share
			}
		}
	}
	list := []record.StackFunction{}
	for _, f := range sums {
		list = append(list, *f)
	}
	slices.SortFunc(list, func(a, b record.StackFunction) int {
		return cmp.Or(cmp.Compare(b.Self, a.Self), cmp.Compare(b.Total, a.Total), cmp.Compare(a.Package, b.Package), cmp.Compare(a.Name, b.Name))
	})
	return list[:min(len(list), listMax)]
}

// fold writes the largest stacks, one per line: "thread;outermost;…;innermost 12" (Gregg's folded
// format), their values divided by unit.
func fold(stacks []named, unit int64) []byte {
	var b strings.Builder
	lines := map[string]int64{}
	var order []string
	for i := range stacks {
		s := &stacks[i]
		b.Reset()
		b.WriteString(profiles.Foldable(cmp.Or(s.thread, s.space.Comm, "unknown")))
		for _, f := range slices.Backward(s.frames) {
			b.WriteByte(';')
			b.WriteString(profiles.Foldable(cmp.Or(f.Name, "["+f.Package+"]")))
		}
		line := b.String()
		if _, had := lines[line]; !had {
			order = append(order, line)
		}
		lines[line] += s.value
	}
	slices.SortStableFunc(order, func(a, b string) int { return cmp.Compare(lines[b], lines[a]) })
	var out []byte
	for _, line := range order[:min(len(order), foldedMax)] {
		if len(out)+len(line)+24 > foldedBytes {
			break
		}
		if lines[line] >= unit {
			out = fmt.Appendf(out, "%s %d\n", line, lines[line]/unit)
		}
	}
	return out
}
