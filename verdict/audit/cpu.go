package audit

import (
	"math"
	"strconv"
	"strings"

	"ceiling/record"
)

// pointCPU is the CPU use of one side's host over a run, as shares of all its CPUs.
type pointCPU struct {
	side   string // "server" or "client", as in the keys
	stated bool
	// low and high bound the busy share. They differ if the printed row omits categories and idle
	// is one of them.
	low, high float64
	refused   record.Statement // why the printed figure is incomplete, if it is
	broken    bool             // the row contradicts itself: no bound is left
	// capacity is the share of its host's CPUs that the side can fill, 1 unless known to be less.
	capacity float64
}

func (c *pointCPU) pctKey() string    { return c.side + "_cpu_pct" }
func (c *pointCPU) detailKey() string { return c.side + "_cpu_detail" }

func (c *pointCPU) known() bool { return c.stated && !c.broken }

// whole reports whether the printed figure omits nothing.
func (c *pointCPU) whole() bool { return c.refused.Code == "" }

// use returns the lower bound of the side's CPU use, as a share of its capacity.
func (c *pointCPU) use() float64 { return math.Min(c.low/c.capacity, 1) }

func (c *pointCPU) isServer() bool { return c.side == "server" }

func (c *pointCPU) lacks() []missingFigure {
	switch {
	case !c.stated:
		return []missingFigure{{[]string{c.pctKey()}, say("point.cpu.missing", with{"server": c.isServer(), "key": c.pctKey()})}}
	case c.broken, !c.whole():
		return []missingFigure{{[]string{c.pctKey(), c.detailKey()},
			say("point.cpu.unknown", with{"server": c.isServer(), "why": c.refused})}}
	}
	return nil
}

func (c *pointCPU) evidence() record.Statement {
	return say("point.cpu.used", with{"server": c.isServer(), "share": c.low})
}

// cpuTolerance is how far a row of n categories may be from 100: each is rounded, and samplers
// lose a little.
func cpuTolerance(n int) float64 { return math.Max(1, 0.5*float64(n)) }

// newPointCPU reads what is stated about one side and checks the percentage against the row.
func newPointCPU(side string, pct record.Figure, detail string) (c pointCPU, found contradictions) {
	c = pointCPU{side: side, stated: pct.Known, low: pct.Value / 100, high: pct.Value / 100, capacity: 1}
	row := readCPURow(detail)
	if len(row) == 0 {
		return c, nil
	}
	note := func(says record.Statement) { found.note(KindCPU, says, c.pctKey(), c.detailKey()) }
	sum, idle, hasIdle := 0.0, 0.0, false
	var parts []record.Statement
	for _, part := range row {
		sum += part.pct
		parts = append(parts, say("point.cpu.part", with{"category": part.name, "percent": part.pct}))
		if part.name == "idle" {
			idle, hasIdle = part.pct, true
		}
	}
	tolerance := cpuTolerance(len(row))
	of := with{"server": c.isServer(), "row": parts, "sum": sum, "unnamed": 100 - sum, "busy": 100 - idle, "named_busy": sum - idle}
	switch {
	case !hasIdle:
		note(say("point.cpu.row-part", of))
		if pct.Known && pct.Value <= sum+tolerance {
			c.high, c.refused = 1, say("point.cpu.part-only", with{"key": c.pctKey(), "row": parts})
		}
	case sum < 100-tolerance:
		note(say("point.cpu.row-below", of))
	case sum > 100+tolerance:
		note(say("point.cpu.row-above", of))
		c.broken, c.refused = true, say("point.cpu.adds-up", with{"key": c.detailKey(), "sum": sum})
	}
	if hasIdle && pct.Known && math.Abs(pct.Value-(100-idle)) > math.Max(1, pct.Step()) {
		note(say("point.cpu.not-idle", with{"server": c.isServer(), "idle": idle, "busy": 100 - idle, "key": c.pctKey(), "percent": pct.Value}))
		c.broken, c.refused = true, say("point.cpu.contradicts", with{"percentage": c.pctKey(), "row": c.detailKey()})
	}
	return c, found
}

// cpuPart is one category of a printed CPU row.
type cpuPart struct {
	name string
	pct  float64
}

// readCPURow finds the categories of mpstat, top and vmstat that are followed by a number, each
// once; it omits guest time, which is part of user time.
func readCPURow(detail string) []cpuPart {
	canonical := map[string]string{
		"usr": "usr", "user": "usr", "us": "usr", "nice": "nice", "ni": "nice", "sys": "sys", "system": "sys", "sy": "sys",
		"iowait": "iowait", "wa": "iowait", "irq": "irq", "hi": "irq", "soft": "soft", "softirq": "soft", "si": "soft",
		"steal": "steal", "st": "steal", "idle": "idle", "id": "idle",
	}
	words := strings.FieldsFunc(detail, func(r rune) bool { return strings.ContainsRune(" \t\n,:=%/", r) })
	var row []cpuPart
	seen := map[string]bool{}
	for i := 0; i+1 < len(words); i++ {
		name, ok := canonical[strings.ToLower(words[i])]
		if !ok || seen[name] {
			continue
		}
		v, err := strconv.ParseFloat(strings.TrimRight(words[i+1], ";.)"), 64)
		if err != nil || !(v >= 0 && v <= 1e6) {
			continue
		}
		seen[name] = true
		row = append(row, cpuPart{name, v})
	}
	return row
}

// pointServer is the server's CPU and how much of its host it can use.
type pointServer struct {
	pointCPU
	cpus, allowed float64 // of the host; those that the server may use
}

// full reports whether the server had no CPU left. A refused figure does not show that.
func (s *pointServer) full() bool { return s.known() && s.whole() && s.use() >= pointFull }

// part returns the CPUs that the server may use, 0 if it may use all.
func (s *pointServer) part() float64 {
	if s.capacity < 1 {
		return s.allowed
	}
	return 0
}

func (s *pointServer) evidence() []record.Evidence {
	if !s.known() {
		return nil
	}
	says := s.pointCPU.evidence()
	if s.capacity < 1 {
		says = say("point.cpu.server-part", with{"used": says, "allowed": s.allowed, "cpus": s.cpus, "share": s.use()})
	}
	return []record.Evidence{record.NewEvidence(s.pctKey(), 100*s.low, "%", says)}
}

// Bounds for server_cpus_used: usedSame is how near a fractional figure may be to the busy CPUs
// before it counts as the measured use itself; usedOver is how many times the allowed CPUs may be
// busy (the kernel serves interrupts on any).
const (
	usedSame = 0.03
	usedOver = 1.10
)

// newPointServer reads the server's CPU and the CPUs that it may use, and checks these against
// the busy ones.
func newPointServer(p *record.Point) (s pointServer, found contradictions) {
	s.pointCPU, found = newPointCPU("server", p.ServerCPUPct, p.ServerCPUDetail)
	if !p.ServerCPUsUsed.Known || !p.VCPUs.Known {
		return s, found
	}
	s.allowed, s.cpus = p.ServerCPUsUsed.Value, p.VCPUs.Value
	if s.allowed > s.cpus {
		found.note(KindCPU, say("point.server.cpus-above-host", with{"allowed": s.allowed, "cpus": s.cpus}), "server_cpus_used", "vcpus")
		return s, found
	}
	busy := s.low * s.cpus
	note := func(says record.Statement) { found.note(KindCPU, says, "server_cpus_used", "vcpus", s.pctKey()) }
	if s.stated && s.allowed != math.Trunc(s.allowed) && math.Abs(busy-s.allowed) <= usedSame*s.allowed {
		note(say("point.server.cpus-measured", with{"allowed": s.allowed, "percent": p.ServerCPUPct.Value, "cpus": s.cpus}))
		return s, found
	}
	s.capacity = s.allowed / s.cpus
	if s.stated && busy > usedOver*s.allowed {
		s.refused = say("point.server.others-busy", with{"busy_cpus": busy, "allowed": s.allowed})
		note(s.refused)
	}
	return s, found
}

// pointGenerator is the generator's CPU and how much of its host it can use.
type pointGenerator struct {
	pointCPU
	// capacityLacks names the keys without which the capacity is unknown.
	capacityLacks []string
	workers, cpus float64
}

func newPointGenerator(p *record.Point) (g pointGenerator, found contradictions) {
	g.pointCPU, found = newPointCPU("client", p.ClientCPUPct, p.ClientCPUDetail)
	g.workers, g.cpus = p.ClientWorkers.Value, p.ClientVCPUs.Value
	if !p.ClientWorkers.Known {
		g.capacityLacks = append(g.capacityLacks, "client_workers")
	}
	if !p.ClientVCPUs.Known {
		g.capacityLacks = append(g.capacityLacks, "client_vcpus")
	}
	if len(g.capacityLacks) == 0 {
		g.capacity = math.Min(g.workers/g.cpus, 1)
	}
	return g, found
}

// full reports whether the generator had no CPU left. A figure that omits categories is a lower
// bound, which suffices.
func (g *pointGenerator) full() bool { return g.known() && g.use() >= pointFull }

// free reports whether the generator clearly had CPU left. If the number of threads sharing the
// work is unknown, one of them may be full.
func (g *pointGenerator) free() bool {
	return g.known() && len(g.capacityLacks) == 0 && g.high/g.capacity <= pointFree
}

func (g *pointGenerator) lacks() []missingFigure {
	list := g.pointCPU.lacks()
	if len(list) == 0 && len(g.capacityLacks) > 0 && !g.full() {
		list = append(list, missingFigure{g.capacityLacks,
			say("point.generator.capacity-missing", with{"missing": keysMissing(g.capacityLacks)})})
	}
	return list
}

func (g *pointGenerator) evidence() []record.Evidence {
	if !g.known() {
		return nil
	}
	says := g.pointCPU.evidence()
	if g.capacity < 1 {
		says = say("point.cpu.generator-part", with{"used": says, "workers": g.workers, "capacity": g.capacity, "cpus": g.cpus,
			"share": g.use()})
	}
	return []record.Evidence{record.NewEvidence(g.pctKey(), 100*g.low, "%", says)}
}
