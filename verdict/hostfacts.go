package verdict

import (
	"math"
	"slices"

	"ceiling/experiment/spec"
	"ceiling/record"
)

// hostFacts is the CPU use of one host over the window, per core.
type hostFacts struct {
	known bool
	name  string
	cores []coreUse
	rows  int // per-core rows seen
	bad   int // of these, discarded as inconsistent
}

// coreUse is one core's time in ticks.
type coreUse struct {
	cpu                        int
	total, idle, steal         float64 // idle includes iowait
	user, system, irq, softirq float64 // user includes nice
	// missing is the time that the kernel charged to no category. It was not idle, which is measured, and
	// counts as busy.
	missing float64
}

// missingLeast are the ticks that rounding may lose: one for each of the eight categories, at both ends.
const missingLeast = 16

// missingSaid is the share of a CPU's time that is worth a caveat.
const missingSaid = 0.1

// shareOut spreads the missing time over the busy categories in the proportion of the ticks that they
// have, as the kernel does with a process's user and system time (cputime_adjust in kernel/sched/cputime.c).
func (c *coreUse) shareOut() {
	charged := busy(c)
	if c.missing <= missingLeast {
		c.missing = 0
		return
	}
	c.total += c.missing
	if charged <= 0 {
		c.system += c.missing
		return
	}
	grown := 1 + c.missing/charged
	for _, part := range []*float64{&c.user, &c.system, &c.irq, &c.softirq} {
		*part *= grown
	}
}

// hostOf sums the CPU rows of one host. It discards an inconsistent row entirely, since its other
// categories are not trustworthy either.
func hostOf(rows []*record.CPURow, name string) hostFacts {
	h := hostFacts{name: name}
	by := map[int]*coreUse{}
	for _, row := range rows {
		if row.Host != name {
			continue
		}
		for i := range row.Cores {
			c := &row.Cores[i]
			h.rows++
			total := float64(c.User) + float64(c.Nice) + float64(c.System) + float64(c.Idle) + float64(c.IOWait) +
				float64(c.IRQ) + float64(c.SoftIRQ) + float64(c.Steal)
			if c.Bad != "" || min(c.User, c.Nice, c.System, c.Idle, c.IOWait, c.IRQ, c.SoftIRQ, c.Steal) < 0 {
				h.bad++
				continue
			}
			use := by[c.CPU]
			if use == nil {
				use = &coreUse{cpu: c.CPU}
				by[c.CPU] = use
			}
			use.total += total
			use.missing += float64(c.Missing)
			use.idle += float64(c.Idle) + float64(c.IOWait)
			use.irq += float64(c.IRQ)
			use.softirq += float64(c.SoftIRQ)
			use.steal += float64(c.Steal)
			use.user += float64(c.User) + float64(c.Nice)
			use.system += float64(c.System)
		}
	}
	for _, use := range by {
		if use.shareOut(); use.total > 0 {
			h.cores = append(h.cores, *use)
		}
	}
	slices.SortFunc(h.cores, func(a, b coreUse) int { return a.cpu - b.cpu })
	h.known = len(h.cores) > 0 && float64(h.bad) < badRowsMost*float64(h.rows)
	return h
}

// numbers returns the CPUs seen.
func (h *hostFacts) numbers() []int {
	list := make([]int, len(h.cores))
	for i := range h.cores {
		list[i] = h.cores[i].cpu
	}
	return list
}

// over sums a figure over some CPUs, each as a share of its time: in cores.
func (h *hostFacts) over(cpus []int, of func(*coreUse) float64) float64 {
	sum := 0.0
	for i := range h.cores {
		if c := &h.cores[i]; slices.Contains(cpus, c.cpu) {
			sum += of(c) / c.total
		}
	}
	return sum
}

func idle(c *coreUse) float64   { return c.idle }
func stolen(c *coreUse) float64 { return c.steal }
func busy(c *coreUse) float64   { return c.total - c.idle - c.steal }
func soft(c *coreUse) float64   { return c.softirq + c.irq }

// had returns the CPU time that there was for this host's programs, in cores: what the hypervisor
// took (steal) is neither used nor idle.
func (h *hostFacts) had(cpus []int) float64 {
	return h.over(cpus, func(c *coreUse) float64 { return c.total - c.steal })
}

// stolenOf returns the share of the CPUs' time that the hypervisor took; 0 where that is too little
// to matter.
func (h *hostFacts) stolenOf(cpus []int) float64 {
	if share := h.over(cpus, stolen) / math.Max(float64(len(cpus)), 1); share >= stealMatters {
		return share
	}
	return 0
}

// full reports whether some CPUs had nothing left.
func (h *hostFacts) full(cpus []int) bool {
	had := h.had(cpus)
	return had > 0 && h.over(cpus, idle) <= coresIdle*had
}

// allowedOf returns the seen CPUs that a list allows; all of them if there is no list.
func (h *hostFacts) allowedOf(lists ...string) []int {
	all := h.numbers()
	for _, list := range lists {
		cpus, err := spec.ParseCPUList(list)
		if list == "" || err != nil {
			continue
		}
		some := slices.DeleteFunc(slices.Clone(all), func(cpu int) bool { return !slices.Contains(cpus, cpu) })
		if len(some) > 0 {
			return some
		}
	}
	return all
}

// common returns what two lists share.
func common(a, b []int) []int {
	return slices.DeleteFunc(slices.Clone(a), func(cpu int) bool { return !slices.Contains(b, cpu) })
}
