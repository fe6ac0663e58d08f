package journal

import (
	"cmp"
	"errors"
	"fmt"
	"math"
	"reflect"
	"slices"

	"ceiling/internal/unit"
	"ceiling/record"
	"ceiling/show/chart"
	"ceiling/show/page"
)

// ends returns CPU use of both ends during a point, and what their link carried.
func ends(of any) (answer, error) {
	return about(of, func(c condition, to *answer) error {
		to.blocks = []page.Block{perEnd(c)}
		if hosts := hostsOf(c); len(hosts) > 0 { // none in records made before it was measured
			t := page.HostTable(hosts)
			t.Caption += c.called() + ", mean of " + unit.Plural(len(c.runs), "run", "runs")
			to.blocks = append(to.blocks, t)
		}
		return nil
	})
}

// hostsOf returns the CPU time of both ends by category, the mean of the runs.
func hostsOf(c condition) []record.HostUse {
	var list []record.HostUse
	for _, r := range c.runs {
		for _, u := range r.Verdict.Hosts {
			if endIn(list, &u) == nil {
				list = append(list, u)
			}
		}
	}
	for i := range list {
		mean := reflect.ValueOf(&list[i]).Elem()
		for k := range mean.NumField() {
			if mean.Field(k).Kind() != reflect.Float64 {
				continue
			}
			mean.Field(k).SetFloat(c.over(func(r *chart.Run) float64 {
				if u := endIn(r.Verdict.Hosts, &list[i]); u != nil {
					return reflect.ValueOf(*u).Field(k).Float()
				}
				return math.NaN()
			}).mean)
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

// perEnd returns the CPU per request of both ends.
func perEnd(c condition) page.Table {
	t := page.Table{Caption: "Both ends" + c.called() + ": CPU over " + unit.Plural(len(c.runs), "run", "runs"),
		Columns: columns("end", "cores used", "CPU per request", "busiest thread", "runnable, waiting for CPU")}
	perRequest := func(cores func(*chart.Run) float64) string {
		return c.over(func(r *chart.Run) float64 { return over(cores(r)*r.ElapsedS*1e9, finished(r)) }).formatted(unit.FormatNsFloat)
	}
	share := func(of func(*chart.Run) float64) string { // below 0: not measured
		return c.over(func(r *chart.Run) float64 {
			if v := of(r); v >= 0 {
				return v
			}
			return math.NaN()
		}).formatted(unit.Percent)
	}
	t.Rows = [][]page.Cell{
		cells("generator", c.over(generatorCores).formatted(kindTwo.format), perRequest(generatorCores),
			share(func(r *chart.Run) float64 { return r.Generator.BusiestWorker }),
			share(func(r *chart.Run) float64 { return r.Generator.RunDelay })),
		cells("server", c.over(serverCores).formatted(kindTwo.format), perRequest(serverCores), "–", "–"),
		cells("other programs, server's host", c.over(func(r *chart.Run) float64 { return r.Verdict.OtherCores }).formatted(kindTwo.format), "–", "–", "–"),
	}
	if cores := c.runs[0].Environment.CoresAllowed; cores > 0 {
		t.Caption += fmt.Sprintf("; the generator's machine has %s", unit.Plural(cores, "core", "cores"))
	}
	return t
}

// called is the caption's suffix that names the point.
func (c *condition) called() string {
	if c.name == "" {
		return ""
	}
	return " of " + c.name
}

// workers returns how the server's processes and the generator's threads share the work.
func workers(of any) (answer, error) {
	return about(of, func(c condition, to *answer) error {
		t := page.Table{Caption: fmt.Sprintf("Workers%s: the busiest of each run first, over %s%s", c.called(),
			unit.Plural(len(c.runs), "run", "runs"), sharing(c.runs[0])),
			Columns: columns("worker", "connections", "cores used", "share of the server's CPU")}
		for _, list := range []struct {
			name string
			of   func(r *chart.Run) []worker
		}{{"process", processes}, {"generator's thread", threads}} {
			for i := 0; ; i++ {
				of := func(figure func(w worker) float64) spread {
					return c.over(func(r *chart.Run) float64 {
						if all := list.of(r); i < len(all) {
							return figure(all[i])
						}
						return math.NaN()
					})
				}
				used := of(func(w worker) float64 { return w.cores })
				if used.n == 0 {
					break
				}
				t.Rows = append(t.Rows, cells(fmt.Sprintf("%s %d", list.name, i+1), of(func(w worker) float64 { return w.connections }).formatted(rounded),
					used.formatted(kindTwo.format), of(func(w worker) float64 { return w.share }).formatted(unit.Percent)))
			}
			if len(t.Rows) == 0 {
				return errors.New("the server's processes were not measured")
			}
		}
		to.blocks = []page.Block{t}
		return nil
	})
}

// worker is a process of the server, with its share of the server's CPU, or a thread of the
// generator. NaN is unknown: of connections, if the record's series, or its copy, lacks them.
type worker struct{ connections, cores, share float64 }

// processes returns the server's processes, busiest first.
func processes(r *chart.Run) (list []worker) {
	if r.Subject == nil {
		return nil
	}
	held := chart.ConnectionsOf(r)
	for _, p := range r.Subject.Processes {
		w := worker{math.NaN(), over(float64(p.CPUNs)/1e9, r.ElapsedS), 0}
		if n, there := held[p.PID]; there || len(held) > 0 {
			w.connections = float64(n)
		}
		w.share = over(w.cores, serverCores(r))
		list = append(list, w)
	}
	slices.SortStableFunc(list, func(a, b worker) int { return cmp.Compare(b.cores, a.cores) })
	return list
}

func threads(r *chart.Run) (list []worker) {
	for _, w := range r.Generator.Workers {
		list = append(list, worker{float64(w.Connections), w.Busy, math.NaN()})
	}
	return list
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
