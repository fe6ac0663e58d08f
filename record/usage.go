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

// ProcessCPU is what processes used over some rows. Their time is the longest that any of them was
// observed: one that started or ended within it used nothing for the rest.
type ProcessCPU struct {
	WholeNs float64
	UsedNs  map[ProcessID]float64
}

// ProcessCPUOf sums the rows of some processes.
func ProcessCPUOf(rows []*ProcessRow) ProcessCPU {
	use := ProcessCPU{UsedNs: map[ProcessID]float64{}}
	width := map[ProcessID]float64{}
	for _, row := range rows {
		if row.WidthNs <= 0 {
			continue
		}
		id := ProcessID{row.Host, row.PID}
		width[id] += float64(row.WidthNs)
		use.UsedNs[id] += math.Max(float64(row.CPUNs), 0)
		use.WholeNs = math.Max(use.WholeNs, width[id])
	}
	return use
}

// Cores returns what one process used, in cores.
func (u *ProcessCPU) Cores(id ProcessID) float64 {
	if u.WholeNs == 0 {
		return 0
	}
	return u.UsedNs[id] / u.WholeNs
}
