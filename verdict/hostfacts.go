package verdict

import (
	"cmp"
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

// coreUse is one core's time in ticks, what the kernel charged to no category included.
type coreUse struct {
	cpu int
	record.CPUTime
	total, missing float64
}

// missingSaid is the share of a CPU's time that is worth a caveat.
const missingSaid = 0.1

// hostOf sums the CPU rows of one host. It discards an inconsistent row entirely, since its other
// categories are not trustworthy either.
func hostOf(rows []*record.CPURow, name string) hostFacts {
	h := hostFacts{name: name}
	by := map[int]*record.CPUSum{}
	for _, row := range rows {
		if row.Host != name {
			continue
		}
		for i := range row.Cores {
			c := &row.Cores[i]
			h.rows++
			sum := cmp.Or(by[c.CPU], new(record.CPUSum))
			if !sum.AddTicks(c, 1) {
				h.bad++
				continue
			}
			by[c.CPU] = sum
		}
	}
	for cpu, sum := range by {
		use := coreUse{cpu: cpu, CPUTime: sum.ByCategory(), missing: sum.Uncharged()}
		if use.total = use.Total(); use.total > 0 {
			h.cores = append(h.cores, use)
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

func idle(c *coreUse) float64   { return c.Free() }
func stolen(c *coreUse) float64 { return c.CPUTime[record.CPUSteal] }
func busy(c *coreUse) float64   { return c.Busy() }
func soft(c *coreUse) float64   { return c.CPUTime[record.CPUSoftIRQ] + c.CPUTime[record.CPUIRQ] }

// had returns the CPU time that there was for this host's programs, in cores: what the hypervisor
// took (steal) is neither used nor idle.
func (h *hostFacts) had(cpus []int) float64 {
	return h.over(cpus, func(c *coreUse) float64 { return c.total - stolen(c) })
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
