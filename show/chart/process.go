package chart

import (
	"cmp"
	"maps"
	"math"
	"slices"

	"ceiling/record"
)

// Process is one monitored process over the measured window.
type Process struct {
	Host, Role, Comm string
	PID              int
	// Cores is CPU time divided by the longest time that a process of its role was monitored: 1 is
	// one full core. User and System are its parts, from the kernel's ticks.
	Cores, User, System float64
	// Queue is run-queue delay in cores: the time its threads were runnable without a CPU. NaN if
	// not recorded.
	Queue float64
	// Busiest is its busiest thread, as a share of one core; NaN if unknown.
	Busiest float64
	Threads int // peak
	RSS     int64
	// Voluntary and Involuntary are context switches per second; NaN if not sampled.
	Voluntary, Involuntary float64
	// Waits is where its threads slept, mean numbers, largest first.
	Waits []Wait
	Over  Spark
}

// Wait is the mean number of threads asleep in one kernel function.
type Wait struct {
	Wchan   string
	Threads float64
}

// processKey identifies one process: the kernel may reuse a pid.
type processKey struct {
	host, role string
	pid        int
	start      uint64
}

// sparkPoints is the number of points of a sparkline.
const sparkPoints = 120

// Processes returns the run's processes by role (subject first), then by CPU.
func Processes(run *Run) []Process {
	by := map[processKey][]*record.ProcessRow{}
	end := map[processKey][]*record.ProcessRow{} // by host and role
	for _, r := range run.observed().Processes {
		if r.WidthNs > 0 {
			key := processKey{r.Host, r.Role, r.PID, r.StartTicks}
			by[key] = append(by[key], r)
			if key = (processKey{host: r.Host, role: r.Role}); run.InWindow(&r.ObservedHead) {
				end[key] = append(end[key], r)
			}
		}
	}
	var list []Process
	for key := range maps.Keys(by) {
		use := record.ProcessUsageOf(end[processKey{host: key.host, role: key.role}])
		list = append(list, processOf(run, by[key], use.WholeNs))
	}
	order := map[string]int{record.RoleSubject: -2, record.RoleGenerator: -1}
	slices.SortFunc(list, func(a, b Process) int {
		return cmp.Or(cmp.Compare(order[a.Role], order[b.Role]), cmp.Compare(b.Cores, a.Cores), cmp.Compare(a.PID, b.PID),
			cmp.Compare(a.Host, b.Host))
	})
	high := 1.0 // one core: the shared scale
	for i := range list {
		high = max(high, list[i].Over.Max)
	}
	for i := range list {
		list[i].Over.Max = high
	}
	return list
}

func processOf(run *Run, rows []*record.ProcessRow, wholeNs float64) Process {
	p := Process{Host: rows[0].Host, Role: rows[0].Role, PID: rows[0].PID, Comm: rows[0].Comm}
	var voluntary, involuntary, looked float64
	var inside []*record.ProcessRow
	var over []row
	for _, r := range rows {
		from, to := interval(r.TNs, r.WidthNs)
		if !(to > from) {
			continue
		}
		over = append(over, row{from, to, r.Late, []float64{float64(r.CPUNs) / float64(r.WidthNs)}})
		if !run.InWindow(&r.ObservedHead) {
			continue
		}
		inside = append(inside, r)
		p.Threads, p.RSS = max(p.Threads, r.Threads), max(p.RSS, r.RSSBytes)
		if r.Voluntary >= 0 && r.Involuntary >= 0 && r.SwitchesNs > 0 {
			voluntary, involuntary, looked = voluntary+float64(r.Voluntary), involuntary+float64(r.Involuntary), looked+float64(r.SwitchesNs)/1e9
		}
	}
	p.Cores, p.User, p.System, p.Queue, p.Busiest = math.NaN(), math.NaN(), math.NaN(), math.NaN(), math.NaN()
	if use := record.ProcessUsageOf(inside).By[record.ProcessID{Host: p.Host, PID: p.PID}]; use != nil {
		p.Cores, p.User, p.System, p.Queue = use.CPUNs/wholeNs, use.UserNs/wholeNs, use.SystemNs/wholeNs, use.QueueNs/wholeNs
		p.Busiest = use.Busiest()
	}
	p.Voluntary, p.Involuntary = ratio(voluntary, looked), ratio(involuntary, looked)
	p.Waits = waits(run, rows)
	p.Over = sparkOf(thin("", over, []Line{{Name: p.Comm}}, sparkPoints))
	return p
}

// ratio returns NaN if the divisor is 0.
func ratio(a, b float64) float64 {
	if !(b > 0) {
		return math.NaN()
	}
	return a / b
}

// waitsShown is the number of wait locations that fit in the table.
const waitsShown = 3

func waits(run *Run, rows []*record.ProcessRow) []Wait {
	sum := map[string]float64{}
	samples := 0.0
	for _, r := range rows {
		if !run.InWindow(&r.ObservedHead) || r.States == (record.ThreadCount{}) {
			continue
		}
		samples++
		for _, w := range r.Waits {
			sum[w.Wchan] += float64(w.Threads)
		}
	}
	var list []Wait
	for name, n := range sum {
		list = append(list, Wait{name, n / samples})
	}
	slices.SortFunc(list, func(a, b Wait) int {
		return cmp.Or(cmp.Compare(b.Threads, a.Threads), cmp.Compare(a.Wchan, b.Wchan))
	})
	return list[:min(len(list), waitsShown)]
}
