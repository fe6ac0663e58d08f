package audit

import (
	"fmt"
	"math"
	"strconv"
	"strings"

	"ceiling/internal/unit"
	"ceiling/record"
)

// pointCPU is the CPU of one side's host over a run, as shares of all its CPUs.
type pointCPU struct {
	side   string // "server" or "client", as in the keys
	stated bool
	// low and high bound the busy share. They differ where the printed row
	// leaves categories out and idle is not among those it has.
	low, high float64
	refused   string // why the printed figure is not the whole, or ""
	broken    bool   // the row carries its own refutation: no bound is left
	// capacity is the share of its host's CPUs that the side can fill, 1 unless
	// it is known to be less.
	capacity float64
}

func (c *pointCPU) pctKey() string    { return c.side + "_cpu_pct" }
func (c *pointCPU) detailKey() string { return c.side + "_cpu_detail" }

func (c *pointCPU) known() bool { return c.stated && !c.broken }

// use is the least share of what it can use that the side used.
func (c *pointCPU) use() float64 { return math.Min(c.low/c.capacity, 1) }

// name is the side in words.
func (c *pointCPU) name() string {
	if c.side == "client" {
		return "generator"
	}
	return "server's CPU"
}

func (c *pointCPU) lacks() []missingFigure {
	switch {
	case !c.stated:
		return []missingFigure{{[]string{c.pctKey()}, "the " + c.name() + " was not measured (" + c.pctKey() + " is missing)"}}
	case c.broken, c.refused != "":
		return []missingFigure{{[]string{c.pctKey(), c.detailKey()}, "the " + c.name() + " is not known: " + c.refused}}
	}
	return nil
}

func (c *pointCPU) evidence(what string) record.Evidence {
	return record.NewEvidence(c.pctKey(), 100*c.low, "%", "%s at %s of its host's CPU", what, unit.Percent(c.low))
}

// cpuTolerance is how far a row of n categories may be from 100: each is
// rounded, and samplers lose a little.
func cpuTolerance(n int) float64 { return math.Max(1, 0.5*float64(n)) }

// newPointCPU reads what is stated of one side and holds the percentage
// against the row.
func newPointCPU(side string, pct record.Figure, detail string) (pointCPU, []Inconsistency) {
	c := pointCPU{side: side, stated: pct.Known, low: pct.Value / 100, high: pct.Value / 100, capacity: 1}
	row := readCPURow(detail)
	if len(row) == 0 {
		return c, nil
	}
	var found []Inconsistency
	tell := func(format string, args ...any) {
		found = append(found, Inconsistency{Kind: KindCPU, Keys: []string{c.pctKey(), c.detailKey()}, Says: fmt.Sprintf(format, args...)})
	}
	sum, idle, hasIdle := 0.0, 0.0, false
	var names []string
	for _, part := range row {
		sum += part.pct
		names = append(names, part.name+" "+plain(part.pct))
		if part.name == "idle" {
			idle, hasIdle = part.pct, true
		}
	}
	text := strings.Join(names, " + ")
	tolerance := cpuTolerance(len(row))
	switch {
	case !hasIdle:
		tell("%s CPU: %s is a part of the row: without idle and softirq it is not known how much was busy", side, text)
		if pct.Known && pct.Value <= sum+tolerance {
			c.high, c.refused = 1, fmt.Sprintf("%s is only %s, categories are missing", c.pctKey(), text)
		}
	case sum < 100-tolerance:
		tell("%s CPU: %s = %s, not 100: %s%% are in no named category (softirq?); busy is 100 - idle = %s, not %s",
			side, text, plain(sum), plain(100-sum), plain(100-idle), plain(sum-idle))
	case sum > 100+tolerance:
		tell("%s CPU: %s = %s, more than 100", side, text, plain(sum))
		c.broken, c.refused = true, fmt.Sprintf("%s adds up to %s", c.detailKey(), plain(sum))
	}
	if hasIdle && pct.Known && math.Abs(pct.Value-(100-idle)) > math.Max(1, pct.Step()) {
		tell("%s CPU: 100 - idle %s = %s, but %s is %s", side, plain(idle), plain(100-idle), c.pctKey(), plain(pct.Value))
		c.broken, c.refused = true, fmt.Sprintf("%s and %s contradict each other", c.pctKey(), c.detailKey())
	}
	return c, found
}

// cpuPart is one category of a printed CPU row.
type cpuPart struct {
	name string
	pct  float64
}

// readCPURow finds the categories of mpstat, top and vmstat that are followed
// by a number, each once; guest time is part of user time and left out.
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

// full tells whether the server had nothing left. A refused figure says nothing
// for it.
func (s *pointServer) full() bool { return s.known() && s.refused == "" && s.use() >= pointFull }

// all names the CPUs that the server may use.
func (s *pointServer) all() string {
	if s.capacity < 1 {
		return fmt.Sprintf("the %s CPUs that it may use", plain(s.allowed))
	}
	return "all its CPUs"
}

func (s *pointServer) evidence() record.Evidence {
	e := s.pointCPU.evidence("the server")
	if s.capacity < 1 {
		e.Says += fmt.Sprintf("; it may use %s of %s CPUs, so it used %s of what it can", plain(s.allowed), plain(s.cpus), unit.Percent(s.use()))
	}
	return e
}

// Bounds for server_cpus_used: usedSame is how near it may be to the busy CPUs
// before a figure that is no whole number is taken for the measured use itself;
// usedOver how many CPUs more than allowed may be busy (the kernel serves
// interrupts on any).
const (
	usedSame = 0.03
	usedOver = 1.10
)

// size takes the CPUs that the server may use, and holds them against those
// that were busy.
func (s *pointServer) size(p *record.Point) []Inconsistency {
	allowed := p.ServerCPUsUsed
	if !allowed.Known || !p.VCPUs.Known {
		return nil
	}
	s.allowed, s.cpus = allowed.Value, p.VCPUs.Value
	keys := []string{"server_cpus_used", "vcpus"}
	if s.allowed > s.cpus {
		return []Inconsistency{{Kind: KindCPU, Keys: keys,
			Says: fmt.Sprintf("the server may use %s CPUs, and its host has %s", plain(s.allowed), plain(s.cpus))}}
	}
	busy := s.low * s.cpus
	keys = append(keys, s.pctKey())
	if s.stated && s.allowed != math.Trunc(s.allowed) && math.Abs(busy-s.allowed) <= usedSame*s.allowed {
		return []Inconsistency{{Kind: KindCPU, Keys: keys,
			Says: fmt.Sprintf("server_cpus_used = %s is what %s%% of %s CPUs are, the measured use: it wants the CPUs that the server may use",
				plain(s.allowed), plain(p.ServerCPUPct.Value), plain(s.cpus))}}
	}
	s.capacity = s.allowed / s.cpus
	if s.stated && busy > usedOver*s.allowed {
		s.refused = fmt.Sprintf("%.3g CPUs were busy, more than the %s that the server may use: others worked on its host", busy,
			plain(s.allowed))
		return []Inconsistency{{Kind: KindCPU, Keys: keys, Says: s.refused}}
	}
	return nil
}

// pointGenerator is the generator's CPU and how much of its host it can use.
type pointGenerator struct {
	pointCPU
	// capacityLacks names what is missing to know the capacity.
	capacityLacks []string
	workers, cpus float64
}

func (g *pointGenerator) size(p *record.Point) {
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
}

// full tells whether the generator had nothing left. A figure that leaves
// categories out is a lower bound, which is enough for that.
func (g *pointGenerator) full() bool { return g.known() && g.use() >= pointFull }

// free tells whether the generator clearly had something left: as long as it
// is not known how many threads share the work, one of them may be full.
func (g *pointGenerator) free() bool {
	return g.known() && len(g.capacityLacks) == 0 && g.high/g.capacity <= pointFree
}

func (g *pointGenerator) lacks() []missingFigure {
	list := g.pointCPU.lacks()
	if len(list) == 0 && len(g.capacityLacks) > 0 && !g.full() {
		list = append(list, missingFigure{g.capacityLacks, "how much of its host the generator can use is not known (" +
			missingText(g.capacityLacks) + ")"})
	}
	return list
}

func (g *pointGenerator) evidence() []record.Evidence {
	if !g.known() {
		return nil
	}
	e := g.pointCPU.evidence("the generator")
	if g.capacity < 1 {
		e.Says += fmt.Sprintf("; its %s workers can fill %s of %s CPUs, so it used %s of what it can", plain(g.workers), unit.Percent(g.capacity),
			plain(g.cpus), unit.Percent(g.use()))
	}
	return []record.Evidence{e}
}
