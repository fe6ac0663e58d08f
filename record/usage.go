package record

import "math"

// WindowS returns how long requests were due, in seconds: of an open loop without the drain, which
// ElapsedS includes.
func (r *Run) WindowS() float64 {
	elapsed := 0.0
	if r.ElapsedS > 0 && r.ElapsedS < math.MaxInt64/1e9 {
		elapsed = r.ElapsedS
	}
	if d := r.Spec.Duration.Seconds(); d > 0 && d < elapsed {
		return d
	}
	return elapsed
}

// windowSlackNs is half an interval of the series: a row that ends with the window may be late.
const windowSlackNs = 50e6

// WindowEndNs returns up to when rows belong to the measured window, on the run's clock.
func (r *Run) WindowEndNs() int64 {
	return int64(math.Min(r.WindowS()*1e9, 1e18)) + windowSlackNs
}

// InWindow reports whether a row belongs to the measured window. Its middle decides, so a row that
// straddles an edge counts where most of it lies; a gauge is a point and counts at its own time.
func (r *Run) InWindow(h *ObservedHead) bool {
	middle := h.TNs - h.WidthNs/2
	return h.WidthNs >= 0 && 0 <= middle && middle <= r.WindowEndNs()
}

// ProcessID identifies a process among those of all hosts.
type ProcessID struct {
	Host string
	PID  int
}

// ProcessUsage is what processes used over some rows. Their time is the longest that any of them was
// observed: one that started or ended within it used nothing for the rest.
type ProcessUsage struct {
	WholeNs float64
	By      map[ProcessID]*ProcessUse
}

// ProcessUse is what one process used, in ns.
type ProcessUse struct {
	ObservedNs, CPUNs, UserNs, SystemNs float64
	// QueueNs is how long its threads were runnable without a CPU; NaN if a row does not have it.
	QueueNs float64
	// Threads are by TID, each as a sum. A thread that is not among the busiest of a row counts as idle
	// there, which can only understate it.
	Threads map[int]*ThreadUse
}

// ProcessUsageOf sums the rows of some processes.
func ProcessUsageOf(rows []*ProcessRow) ProcessUsage {
	all := ProcessUsage{By: map[ProcessID]*ProcessUse{}}
	for _, row := range rows {
		if row.WidthNs <= 0 {
			continue
		}
		id := ProcessID{row.Host, row.PID}
		if all.By[id] == nil {
			all.By[id] = &ProcessUse{Threads: map[int]*ThreadUse{}}
		}
		all.By[id].add(row)
		all.WholeNs = math.Max(all.WholeNs, all.By[id].ObservedNs)
	}
	return all
}

func (u *ProcessUse) add(row *ProcessRow) {
	u.ObservedNs += float64(row.WidthNs)
	u.CPUNs += max(float64(row.CPUNs), 0)
	u.UserNs += max(float64(row.UserNs), 0)
	u.SystemNs += max(float64(row.SystemNs), 0)
	if row.QueueNs < 0 {
		u.QueueNs = math.NaN()
	}
	u.QueueNs += float64(row.QueueNs)
	for i := range row.Busiest {
		t := &row.Busiest[i]
		sum := u.Threads[t.TID]
		if sum == nil {
			sum = &ThreadUse{TID: t.TID, Comm: t.Comm}
			u.Threads[t.TID] = sum
		}
		sum.RunNs += max(t.RunNs, 0)
		if t.QueueNs < 0 || sum.QueueNs < 0 {
			sum.QueueNs = -1
		} else {
			sum.QueueNs += t.QueueNs
		}
	}
}

// Busiest returns the share of the process's time that its busiest thread ran.
func (u *ProcessUse) Busiest() (most float64) {
	for _, t := range u.Threads {
		most = max(most, float64(t.RunNs)/u.ObservedNs)
	}
	return most
}

// Cores returns what one process used, in cores.
func (u *ProcessUsage) Cores(id ProcessID) float64 {
	if p := u.By[id]; p != nil {
		return p.CPUNs / u.WholeNs
	}
	return 0
}
