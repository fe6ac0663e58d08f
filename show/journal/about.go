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

// Blocks about the runs of a condition.

// ends returns CPU use of both ends during a point, and what their link carried.
func ends(c condition, to *answer) error {
	to.blocks = []page.Block{perEnd(c)}
	if hosts := hostsOf(c); len(hosts) > 0 { // none in records made before it was measured
		t := page.HostTable(hosts)
		t.Caption += c.called() + ", mean of " + unit.Plural(len(c.runs), "run", "runs")
		to.blocks = append(to.blocks, t)
	}
	return nil
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
		page.Cells("generator", c.over(generatorCores).formatted(kindTwo.format), perRequest(generatorCores),
			share(func(r *chart.Run) float64 { return r.Generator.BusiestWorker }),
			share(func(r *chart.Run) float64 { return r.Generator.RunDelay })),
		page.Cells("server", c.over(serverCores).formatted(kindTwo.format), perRequest(serverCores), "–", "–"),
		page.Cells("other programs, server's host", c.over(func(r *chart.Run) float64 { return r.Verdict.OtherCores }).formatted(kindTwo.format), "–", "–", "–"),
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
func workers(c condition, to *answer) error {
	t := page.Table{Caption: fmt.Sprintf("Workers%s: the busiest of each run first, over %s%s", c.called(),
		unit.Plural(len(c.runs), "run", "runs"), sharing(c.runs[0])),
		Columns: columns("worker", "connections", "cores used", "share of the server's CPU")}
	for _, list := range []struct {
		name string
		of   func(r *chart.Run) []worker
	}{{"process", processes}, {"generator's thread", threads}} {
		most := 0
		for _, r := range c.runs {
			most = max(most, len(list.of(r)))
		}
		for i := range most {
			row := []string{fmt.Sprintf("%s %d", list.name, i+1)}
			for k, format := range []func(float64) string{rounded, kindTwo.format, unit.Percent} {
				row = append(row, c.over(func(r *chart.Run) float64 {
					if all := list.of(r); i < len(all) {
						return all[i][k]
					}
					return math.NaN()
				}).formatted(format))
			}
			t.Rows = append(t.Rows, page.Cells(row...))
		}
		if len(t.Rows) == 0 {
			return errors.New("the server's processes were not measured")
		}
	}
	to.blocks = []page.Block{t}
	return nil
}

// worker is a process of the server or a thread of the generator: its connections, the cores that it
// used, and its share of the server's CPU. NaN is unknown: of connections, if the record's series, or
// its copy, lacks them.
type worker [3]float64

// processes returns the server's processes, busiest first.
func processes(r *chart.Run) (list []worker) {
	if r.Subject == nil {
		return nil
	}
	held := chart.ConnectionsOf(r)
	for _, p := range r.Subject.Processes {
		connections, cores := math.NaN(), over(float64(p.CPUNs)/1e9, r.ElapsedS)
		if n, there := held[p.PID]; there || len(held) > 0 {
			connections = float64(n)
		}
		list = append(list, worker{connections, cores, over(cores, serverCores(r))})
	}
	slices.SortStableFunc(list, func(a, b worker) int { return cmp.Compare(b[1], a[1]) })
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

// pathOf is the path of a request, as the boxes of every other view. Those of a single run
// lead to the charts of its page.
func pathOf(c condition, to *answer) (err error) {
	var runs []*record.Run
	for _, r := range c.runs {
		runs = append(runs, r.Run)
	}
	p, ok := page.PathOf(runs)
	if !ok {
		return errors.New("where the time goes was not measured")
	}
	if c.name != "" {
		p.Says += " · " + c.name
	}
	address, d := "", page.Document{}
	if len(c.runs) == 1 {
		address = recordPage(c.runs[0].ID)
		d, err = page.Runs([]chart.Run{*c.runs[0]})
	}
	to.blocks = []page.Block{p.On(address, d.Sections)}
	return err
}

// columns are those of a table whose first column has names and the others figures.
func columns(names ...string) []page.Column {
	var list []page.Column
	for i, name := range names {
		list = append(list, page.Column{Name: name, Figure: i > 0})
	}
	return list
}

// Arithmetic blocks: a law computed with a run's own figures and checked against another figure
// of the record. A mismatch fails the build.

// arithmetic is a law as the page shows it: terms, each after its sign, and the result.
type arithmetic struct {
	// Law is its name, Of the point that it applies to.
	Law, Of string
	Terms   []term
	// Says is what the result was compared with; Runs is the number of runs.
	Says string
	Runs int
}

// term is one figure of a sum.
type term struct{ Sign, Value, Name string }

// little is Little's law: requests in flight = rate × response time.
func little(c condition) (arithmetic, error) {
	n, s, w := c.sum(answers), c.sum(elapsed), c.sum(waited)
	if !(n > 0) || !(s > 0) {
		return arithmetic{}, errors.New("no response time was measured")
	}
	got := w / 1e9 / s
	out := arithmetic{Law: "Little's law", Terms: []term{{"", unit.FormatRate(n / s), "rate"}, {"×", unit.FormatNsFloat(w / n), "mean response time"},
		{"=", unit.FormatSI(got), "requests in flight"}}, Says: "An open loop has no fixed number of requests to hold this against."}
	if want := slots(c.runs[0]); !math.IsNaN(want) {
		if c.over(slots).deviation > 0 {
			return arithmetic{}, errors.New("its runs differ in their slots")
		}
		off := got/want - 1
		if math.Abs(off) > record.LittleWithin {
			return arithmetic{}, fmt.Errorf("rate × response time is %s requests in flight, %+.0f%% off the %s that the loop keeps: the record contradicts itself",
				unit.FormatSI(got), 100*off, unit.FormatCount(int64(want)))
		}
		r := c.runs[0]
		out.Says = fmt.Sprintf("The loop keeps %s × %d = %s in flight: %.1f%% off.", unit.Plural(r.Load.Connections, "connection", "connections"),
			max(r.Load.Pipelining, 1), unit.FormatCount(int64(want)), 100*math.Abs(off))
	}
	return out, nil
}

// shareOfLink is the share of a link's speed that the responses take. The link is the record's,
// or a named one for a projection.
func shareOfLink(of any, links ...string) (answer, error) {
	if len(links) > 1 {
		return answer{}, errors.New("it takes one link speed")
	}
	return sumOf(func(c condition) (arithmetic, error) {
		speed, says := c.runs[0].Spec.LinkBitsPerSecond, "The record gives the link speed."
		if c.linkBits > 0 {
			speed, says = c.linkBits, "The experiment gives the link speed."
		}
		if len(links) == 1 {
			bits, err := unit.ParseBits(links[0])
			if err != nil {
				return arithmetic{}, err
			}
			if speed > 0 && speed != float64(bits) {
				return arithmetic{}, fmt.Errorf("the record's link has %s, not %s", unit.FormatBits(unit.BitsPerSecond(speed)), links[0])
			}
			if speed == 0 {
				says = "An assumed link: the record has no link speed."
			}
			speed = float64(bits)
		}
		if !(speed > 0) {
			return arithmetic{}, errors.New(`the record has no link speed; assume one, as in {{shareOfLink (run "NAME") "10Gbit/s"}}`)
		}
		n, s, b := c.sum(finished), c.sum(elapsed), c.sum(bytesIn)
		if !(n > 0) || !(s > 0) {
			return arithmetic{}, errors.New("no requests were completed")
		}
		share := 8 * b / s / speed
		if share > 1 {
			says += " It would be the bottleneck."
		}
		return arithmetic{Law: "Share of a link", Terms: []term{{"", unit.FormatRate(n / s), "rate"}, {"×", unit.FormatBytesSI(int64(b/n + .5)), "read per request"},
			{"=", unit.FormatBits(unit.BitsPerSecond(8 * b / s)), "above TCP"}, {"÷", unit.FormatBits(unit.BitsPerSecond(speed)), "link"},
			{"=", unit.Percent(share), "of the link"}}, Says: says}, nil
	})(of)
}

// utilization is the utilization law: cores in use = rate × CPU time per request, at either end.
func utilization(c condition) (arithmetic, error) {
	n, s := c.sum(finished), c.sum(elapsed)
	used := c.sum(func(r *chart.Run) float64 { return serverCores(r) * r.ElapsedS })
	switch {
	case !(n > 0) || !(s > 0):
		return arithmetic{}, errors.New("no requests were completed")
	case math.IsNaN(used):
		return arithmetic{}, errors.New("the server's CPU was not measured")
	}
	out := arithmetic{Law: "Utilization law", Terms: []term{{"", unit.FormatRate(n / s), "rate"}, {"×", unit.FormatNsFloat(used / n * 1e9), "server CPU per request"},
		{"=", unit.FormatSI(used / s), "cores in use by the server"}}}
	r := c.runs[0]
	if cores := r.Environment.CoresAllowed; cores > 0 && r.Subject.Host == r.Environment.Host {
		if used/s > 1.02*float64(cores) {
			return arithmetic{}, fmt.Errorf("the server used %s of %d cores: the record contradicts itself", unit.FormatSI(used/s), cores)
		}
		out.Says = fmt.Sprintf("The machine has %s: %s of it.", unit.Plural(cores, "core", "cores"), unit.Percent(used/s/float64(cores)))
	}
	return out, nil
}

// sumOf applies a law to what a reference names.
func sumOf(law func(condition) (arithmetic, error)) func(of any) (answer, error) {
	return about(func(c condition, to *answer) error {
		s, err := law(c)
		if err != nil {
			return err
		}
		s.Says, s.Of, s.Runs = page.Text(s.Says), c.name, len(c.runs)
		to.html, err = execute("sum", s)
		return err
	})
}
