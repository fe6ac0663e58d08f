package journal

import (
	"fmt"
	"math"
	"slices"

	"ceiling/internal/unit"
	"ceiling/record"
	"ceiling/show/chart"
	"ceiling/show/page"
)

// ends returns CPU use of both ends during a point, and what their link carried.
func (e *Entry) ends(of any) (answer, error) {
	out, err := blockOf(e, of, hostsOf)
	if err != nil || out.pending {
		return out, err
	}
	each, err := perEnd(e, of)
	if out.blocks[0] != nil { // nil in records made before it was measured
		each.blocks = append(each.blocks, out.blocks...)
	}
	return each, err
}

// hostsOf returns the CPU time of both ends by category, the mean of the runs.
func hostsOf(m measured) (page.Block, error) {
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
	if len(list) == 0 {
		return nil, nil
	}
	t := page.HostTable(list)
	t.Caption += m.called() + ", mean of " + unit.Plural(len(m.runs), "run", "runs")
	return t, nil
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
func perEnd(e *Entry, of any) (answer, error) {
	return blockOf(e, of, func(m measured) (page.Block, error) {
		t := page.Table{Caption: "Both ends" + m.called() + ": CPU over " + unit.Plural(len(m.runs), "run", "runs"),
			Columns: []page.Column{{Name: "end"}, {Name: "cores used", Figure: true}, {Name: "CPU per request", Figure: true},
				{Name: "busiest thread", Figure: true}, {Name: "runnable, waiting for CPU", Figure: true}}}
		ns := func(v float64) string { return unit.FormatNsFloat(v) }
		perRequest := func(cores func(*chart.Run) float64) spread {
			return m.over(func(r *chart.Run) float64 { return over(cores(r)*r.ElapsedS*1e9, finished(r)) })
		}
		known := func(v float64) float64 {
			if v < 0 {
				return math.NaN()
			}
			return v
		}
		t.Rows = [][]page.Cell{
			{{Text: "generator"}, {Text: m.over(generatorCores).formatted(twoDigits)}, {Text: perRequest(generatorCores).formatted(ns)},
				{Text: m.over(func(r *chart.Run) float64 { return known(r.Generator.BusiestWorker) }).formatted(unit.Percent)},
				{Text: m.over(func(r *chart.Run) float64 { return known(r.Generator.RunDelay) }).formatted(unit.Percent)}},
			{{Text: "server"}, {Text: m.over(serverCores).formatted(twoDigits)}, {Text: perRequest(serverCores).formatted(ns)}, {Text: "–"}, {Text: "–"}},
		}
		others := m.over(func(r *chart.Run) float64 { return r.Verdict.OtherCores })
		t.Rows = append(t.Rows, []page.Cell{{Text: "other programs, server's host"}, {Text: others.formatted(twoDigits)}, {Text: "–"}, {Text: "–"}, {Text: "–"}})
		if cores := m.runs[0].Environment.CoresAllowed; cores > 0 {
			t.Caption += fmt.Sprintf("; the generator's machine has %s", unit.Plural(cores, "core", "cores"))
		}
		return t, nil
	})
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
func (e *Entry) workers(of any) (answer, error) {
	return blockOf(e, of, func(m measured) (page.Block, error) {
		most := 0
		for _, r := range m.runs {
			if r.Subject != nil {
				most = max(most, len(r.Subject.Processes))
			}
		}
		if most == 0 {
			return page.Table{}, fmt.Errorf("the server's processes were not measured")
		}
		t := page.Table{Caption: fmt.Sprintf("Workers%s: the busiest of each run first, over %s%s", m.called(),
			unit.Plural(len(m.runs), "run", "runs"), sharing(m.runs[0])), Columns: []page.Column{{Name: "worker"}, {Name: "connections", Figure: true}, {Name: "cores used", Figure: true},
			{Name: "share of the server's CPU", Figure: true}}}
		for i := range most {
			at := func(figure func(w worker, all float64) float64) spread {
				return m.over(func(r *chart.Run) float64 {
					list, all := workersOf(r)
					if i >= len(list) {
						return math.NaN()
					}
					return figure(list[i], all)
				})
			}
			t.Rows = append(t.Rows, []page.Cell{{Text: fmt.Sprintf("process %d", i+1)},
				{Text: at(func(w worker, _ float64) float64 { return w.connections }).formatted(count)},
				{Text: at(func(w worker, _ float64) float64 { return w.cores }).formatted(twoDigits)},
				{Text: at(func(w worker, all float64) float64 { return over(w.cores, all) }).formatted(unit.Percent)}})
		}
		for i := range m.runs[0].Generator.Workers {
			at := func(figure func(r *chart.Run) float64) spread {
				return m.over(func(r *chart.Run) float64 {
					if i >= len(r.Generator.Workers) {
						return math.NaN()
					}
					return figure(r)
				})
			}
			t.Rows = append(t.Rows, []page.Cell{{Text: fmt.Sprintf("generator's thread %d", i+1)},
				{Text: at(func(r *chart.Run) float64 { return float64(r.Generator.Workers[i].Connections) }).formatted(count)},
				{Text: at(func(r *chart.Run) float64 { return r.Generator.Workers[i].Busy }).formatted(twoDigits)}, {Text: "–"}})
		}
		return t, nil
	})
}

func count(v float64) string { return unit.FormatCount(int64(math.Round(v))) }

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
	slices.SortStableFunc(list, func(a, b worker) int {
		switch {
		case a.cores > b.cores:
			return -1
		case a.cores < b.cores:
			return 1
		}
		return 0
	})
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

// blockOf returns a block about the runs that a reference names.
func blockOf(e *Entry, of any, block func(measured) (page.Block, error)) (answer, error) {
	m, pending, err := e.measuredOf(of)
	out := answer{isBlock: true}
	if m.of != nil {
		out.of = []*Record{m.of}
	}
	if err != nil || pending {
		out.pending, out.text = pending, "Not measured yet."
		return out, err
	}
	b, err := block(m)
	out.blocks = []page.Block{b}
	return out, err
}
