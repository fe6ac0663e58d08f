package doctor

import (
	"cmp"
	"io/fs"
	"slices"
	"strconv"

	"ceiling/internal/sys"
	"ceiling/record"
)

// A snapshot holds the counters that must be read twice, except those of the CPUs.
type snapshot struct {
	processes map[int]used
	throttles int64
	swapPages int64 // in and out since boot; -1 unknown
}

// used is a process's CPU time since its start.
type used struct {
	comm  string
	start uint64 // ticks since boot: identifies the process along with its pid
	ticks uint64
}

func takeSnapshot(root fs.FS) snapshot {
	h := host{root}
	s := snapshot{processes: map[int]used{}, throttles: h.throttles(), swapPages: -1}
	in, out := fieldCount(h.text("proc/vmstat"), "pswpin"), fieldCount(h.text("proc/vmstat"), "pswpout")
	if in >= 0 && out >= 0 {
		s.swapPages = in + out
	}
	entries, err := fs.ReadDir(root, "proc")
	if err != nil {
		return s
	}
	for _, e := range entries {
		pid, err := strconv.Atoi(e.Name())
		if err != nil {
			continue
		}
		// A process that has exited cannot be read.
		var p sys.PIDStat
		if sys.ParsePIDStat([]byte(h.text("proc/"+e.Name()+"/stat")), &p) == nil {
			s.processes[pid] = used{string(p.Comm), p.StartTicks, p.UserTicks + p.SystemTicks}
		}
	}
	return s
}

// activityOf computes the activity between two snapshots, with the CPU rows of the same period.
// own is this process, server the target's.
func activityOf(before, after snapshot, rows []*record.CPURow, own int, server []Process) Activity {
	a := Activity{Throttles: -1, SwapPages: -1}
	widthNs := int64(0)
	var elapsed, busy, steal int64
	for _, row := range rows {
		widthNs += row.WidthNs
		for i := range row.Cores {
			elapsed += row.Cores[i].Accounted()
			busy += row.Cores[i].Busy()
			steal += row.Cores[i].Steal
		}
	}
	if widthNs <= 0 || elapsed <= 0 {
		a.Err = "the host's CPUs were not read"
		return a
	}
	a.WidthS = float64(widthNs) / 1e9
	a.Cores = float64(len(rows[len(rows)-1].Cores))
	a.Busy = a.Cores * float64(busy) / float64(elapsed)
	a.Steal = a.Cores * float64(steal) / float64(elapsed)
	if before.throttles >= 0 && after.throttles >= 0 {
		a.Throttles = max(after.throttles-before.throttles, 0)
	}
	if before.swapPages >= 0 && after.swapPages >= 0 {
		a.SwapPages = max(after.swapPages-before.swapPages, 0)
	}
	for pid, now := range after.processes {
		a.IRQBalance = a.IRQBalance || now.comm == "irqbalance"
		was, there := before.processes[pid]
		ticks := now.ticks
		if there && was.start == now.start {
			ticks = max(now.ticks, was.ticks) - was.ticks
		}
		if ticks == 0 {
			continue
		}
		cores := float64(ticks) / record.TicksPerSecond / a.WidthS
		switch {
		case pid == own:
			a.Own = cores
		case slices.ContainsFunc(server, func(p Process) bool { return p.PID == pid }):
			a.Server += cores
		default:
			a.Foreign = append(a.Foreign, Process{PID: pid, Comm: now.comm, Cores: cores})
		}
	}
	slices.SortFunc(a.Foreign, func(x, y Process) int { return cmp.Or(cmp.Compare(y.Cores, x.Cores), x.PID-y.PID) })
	return a
}
