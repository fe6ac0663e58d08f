package journal

import (
	"cmp"
	"errors"
	"fmt"
	"math"
	"slices"

	"ceiling/internal/unit"
	"ceiling/record"
	"ceiling/show/chart"
	"ceiling/show/page"
)

// ends returns CPU use of both ends during a point, and what their link carried.
func ends(of any) (answer, error) {
	return about(of, func(m measured, to *answer) error {
		to.blocks = []page.Block{perEnd(m)}
		if hosts := hostsOf(m); len(hosts) > 0 { // none in records made before it was measured
			t := page.HostTable(hosts)
			t.Caption += m.called() + ", mean of " + unit.Plural(len(m.runs), "run", "runs")
			to.blocks = append(to.blocks, t)
		}
		return nil
	})
}

// hostsOf returns the CPU time of both ends by category, the mean of the runs.
func hostsOf(m measured) []record.HostUse {
	var list []record.HostUse
	for _, r := range m.runs {
		for _, u := range r.Verdict.Hosts {
			if endIn(list, &u) == nil {
				list = append(list, u)
			}
		}
	}
	for i := range list {
		mean := &list[i]
		for _, figure := range hostFigures() {
			*figure(mean) = m.over(func(r *chart.Run) float64 {
				if u := endIn(r.Verdict.Hosts, mean); u != nil {
					return *figure(u)
				}
				return math.NaN()
			}).mean
		}
	}
	return list
}

// endIn returns the row of the same end and link; nil if there is none.
func endIn(list []record.HostUse, of *record.HostUse) *record.HostUse {
	i := slices.IndexFunc(list, func(u record.HostUse) bool { return u.Name() == of.Name() && u.Link == of.Link })
	if i < 0 {
		return nil
	}
	return &list[i]
}

// hostFigures are the figures of a row that have a mean.
func hostFigures() []func(*record.HostUse) *float64 {
	return []func(*record.HostUse) *float64{
		func(u *record.HostUse) *float64 { return &u.User }, func(u *record.HostUse) *float64 { return &u.System },
		func(u *record.HostUse) *float64 { return &u.IRQ }, func(u *record.HostUse) *float64 { return &u.SoftIRQ },
		func(u *record.HostUse) *float64 { return &u.Steal }, func(u *record.HostUse) *float64 { return &u.Idle },
		func(u *record.HostUse) *float64 { return &u.RxBytesPerS }, func(u *record.HostUse) *float64 { return &u.TxBytesPerS },
		func(u *record.HostUse) *float64 { return &u.RxPacketsPerS }, func(u *record.HostUse) *float64 { return &u.TxPacketsPerS },
	}
}

// perEnd returns the CPU per request of both ends.
func perEnd(m measured) page.Table {
	t := page.Table{Caption: "Both ends" + m.called() + ": CPU over " + unit.Plural(len(m.runs), "run", "runs"),
		Columns: columns("end", "cores used", "CPU per request", "busiest thread", "runnable, waiting for CPU")}
	perRequest := func(cores func(*chart.Run) float64) string {
		return m.over(func(r *chart.Run) float64 { return over(cores(r)*r.ElapsedS*1e9, finished(r)) }).formatted(unit.FormatNsFloat)
	}
	share := func(of func(*chart.Run) float64) string { // below 0: not measured
		return m.over(func(r *chart.Run) float64 {
			if v := of(r); v >= 0 {
				return v
			}
			return math.NaN()
		}).formatted(unit.Percent)
	}
	t.Rows = [][]page.Cell{
		cells("generator", m.over(generatorCores).formatted(twoDigits), perRequest(generatorCores),
			share(func(r *chart.Run) float64 { return r.Generator.BusiestWorker }),
			share(func(r *chart.Run) float64 { return r.Generator.RunDelay })),
		cells("server", m.over(serverCores).formatted(twoDigits), perRequest(serverCores), "–", "–"),
		cells("other programs, server's host", m.over(func(r *chart.Run) float64 { return r.Verdict.OtherCores }).formatted(twoDigits), "–", "–", "–"),
	}
	if cores := m.runs[0].Environment.CoresAllowed; cores > 0 {
		t.Caption += fmt.Sprintf("; the generator's machine has %s", unit.Plural(cores, "core", "cores"))
	}
	return t
}

// called is the caption's suffix that names the point.
func (m *measured) called() string {
	if m.name == "" {
		return ""
	}
	return " of " + m.name
}

func twoDigits(v float64) string { return fmt.Sprintf("%.2f", v) }

// workers returns how the server's processes and the generator's threads share the work.
func workers(of any) (answer, error) {
	return about(of, func(m measured, to *answer) error {
		t := page.Table{Caption: fmt.Sprintf("Workers%s: the busiest of each run first, over %s%s", m.called(),
			unit.Plural(len(m.runs), "run", "runs"), sharing(m.runs[0])),
			Columns: columns("worker", "connections", "cores used", "share of the server's CPU")}
		for i := 0; ; i++ {
			var connections, used, shares []float64
			for _, r := range m.runs {
				if list, all := workersOf(r); i < len(list) {
					connections, used = append(connections, list[i].connections), append(used, list[i].cores)
					shares = append(shares, over(list[i].cores, all))
				}
			}
			if len(used) == 0 {
				break
			}
			t.Rows = append(t.Rows, cells(fmt.Sprintf("process %d", i+1), spreadOf(connections).formatted(rounded), spreadOf(used).formatted(twoDigits),
				spreadOf(shares).formatted(unit.Percent)))
		}
		if len(t.Rows) == 0 {
			return errors.New("the server's processes were not measured")
		}
		for i := range m.runs[0].Generator.Workers {
			var connections, busy []float64
			for _, r := range m.runs {
				if i < len(r.Generator.Workers) {
					connections = append(connections, float64(r.Generator.Workers[i].Connections))
					busy = append(busy, r.Generator.Workers[i].Busy)
				}
			}
			t.Rows = append(t.Rows, cells(fmt.Sprintf("generator's thread %d", i+1), spreadOf(connections).formatted(rounded),
				spreadOf(busy).formatted(twoDigits), "–"))
		}
		to.blocks = []page.Block{t}
		return nil
	})
}

// worker is a process of the server. Connections are NaN if the record's series, or its copy,
// lacks them.
type worker struct{ cores, connections float64 }

// workersOf returns the server's processes, busiest first, and their total CPU.
func workersOf(r *chart.Run) (list []worker, all float64) {
	if r.Subject == nil {
		return nil, 0
	}
	held := chart.ConnectionsOf(r)
	for _, p := range r.Subject.Processes {
		w := worker{over(float64(p.CPUNs)/1e9, r.ElapsedS), math.NaN()}
		if n, there := held[p.PID]; there {
			w.connections = float64(n)
		} else if len(held) > 0 {
			w.connections = 0
		}
		list, all = append(list, w), all+w.cores
	}
	slices.SortStableFunc(list, func(a, b worker) int { return cmp.Compare(b.cores, a.cores) })
	return list, all
}

// sharing describes how processes share a port, if the record has their listening sockets:
// several sockets on one address use SO_REUSEPORT.
func sharing(r *chart.Run) string {
	n, addr := chart.SharedListeners(r)
	if n == 0 {
		return ""
	}
	return fmt.Sprintf("; %d listening sockets share %s by SO_REUSEPORT", n, addr)
}
