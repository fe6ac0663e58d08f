package report

import (
	"cmp"
	"fmt"
	"strconv"
	"strings"

	"ceiling/experiment/spec"
	"ceiling/internal/unit"
	"ceiling/record"
	"ceiling/show/layout"
)

// Progress is the table of a plan's runs in progress: their common settings once above it, and a
// column per setting that varies.
type Progress struct {
	layout Layout
	title  string
	cols   []layout.Column
	grid   *layout.Grid
	cells  []func(*record.Measured) string
}

// NewProgress returns the table of a complete experiment.
func NewProgress(e *spec.Experiment, l Layout) *Progress {
	g := &Progress{layout: l, title: common(e)}
	g.column(layout.Column{Name: "run", Right: true}, 3, func(m *record.Measured) string { return strconv.Itoa(m.Number) })
	g.conditions(e)
	perS, p99 := layout.Column{Name: "req/s", Right: true}, layout.Column{Name: "p99", Right: true}
	switch { // least informative columns first, for narrow screens
	case e.Searches():
		perS.Drop = 2
	case e.TakesAway():
		p99.Drop = 2
	}
	g.column(perS, 9, func(m *record.Measured) string { return unit.FormatCount(int64(m.CompletedPerS + 0.5)) })
	g.column(p99, 9, tail)
	outcome := len(record.Invalid)
	if e.Searches() {
		outcome = len(record.Fail) + len(early)
	}
	g.column(layout.Column{Name: "verdict"}, outcome, func(m *record.Measured) string {
		if m.StoppedEarly != "" && m.Outcome == record.Fail {
			return string(m.Outcome) + early
		}
		return string(m.Outcome)
	})
	g.column(layout.Column{Name: "bottleneck", Least: 14}, 22, func(m *record.Measured) string {
		switch {
		case m.NotRun != "":
			return "not run: " + m.NotRun
		case m.WarmupRun:
			return "discarded"
		}
		return Limit(m.Outcome, m.Bottleneck)
	})
	g.grid = layout.NewGrid(l.Output, g.cols)
	return g
}

// early marks a run that was stopped early.
const early = ", early"

func (g *Progress) column(c layout.Column, width int, cell func(*record.Measured) string) {
	c.Width = width
	g.cols, g.cells = append(g.cols, c), append(g.cells, cell)
}

// conditions adds the columns of the settings that vary.
func (g *Progress) conditions(e *spec.Experiment) {
	searches := e.Searches()
	if len(e.Servers) > 1 && !e.HasSides() {
		labels := make([]string, len(e.Servers))
		for i := range e.Servers {
			labels[i] = e.Servers[i].Label()
		}
		g.column(layout.Column{Name: "server", Least: 8}, widest(labels), func(m *record.Measured) string { return labels[m.Server] })
	}
	if len(e.Requests) > 1 {
		labels := make([]string, len(e.Requests))
		for i := range e.Requests {
			labels[i] = e.Requests[i].Label()
		}
		g.column(layout.Column{Name: "requests", Least: 8}, widest(labels), func(m *record.Measured) string { return labels[m.Mix] })
	}
	if len(e.Load.Connections) != 1 {
		g.column(layout.Column{Name: "conns", Right: true, Drop: map[bool]int{true: 1}[searches]}, 6,
			func(m *record.Measured) string { return unit.FormatCount(int64(m.Connections)) })
	}
	if len(e.Load.Pipelining) > 1 {
		g.column(layout.Column{Name: "pipe", Right: true}, 4, func(m *record.Measured) string { return strconv.Itoa(m.Pipelining) })
	}
	if len(e.Load.Threads) > 1 {
		g.column(layout.Column{Name: "threads", Right: true}, 4, func(m *record.Measured) string { return strconv.Itoa(m.Threads) })
	}
	if len(e.Load.Rate) > 1 || searches {
		g.column(layout.Column{Name: "rate", Right: true}, 7, rate)
	}
	var wide int
	switch {
	case e.HasSides():
		wide = len("warm-up")
	case e.TakesAway():
		wide = widest([]string{"−25% concurrency"})
	case len(e.Factorial.Factors) == 0:
		return
	default:
		var labels []string
		for _, c := range e.Cells() {
			labels = append(labels, e.CellLabel(c.Levels)+", block 99") // rarely more
		}
		g.column(layout.Column{Name: "part", Least: 10}, widest(labels), func(m *record.Measured) string {
			return strings.Trim(e.CellLabel(m.Cell)+", "+m.Part(), ", ")
		})
		return
	}
	g.column(layout.Column{Name: "block", Right: true, Drop: 3}, 5, func(m *record.Measured) string {
		if m.Block == 0 {
			return "-"
		}
		return strconv.Itoa(m.Block)
	})
	g.column(layout.Column{Name: "part"}, wide, part)
}

// part describes a run's role in a comparison or a proof: A/A measures the noise, and a proof
// perturbs one resource.
func part(m *record.Measured) string {
	switch {
	case m.WarmupRun:
		return "warm-up"
	case m.Noise:
		return "A/A"
	case m.Side != "":
		return m.Side
	case m.Perturb.Resource != "":
		return fmt.Sprintf("−%.0f%% %s", 100*m.Perturb.Share, m.Perturb.Resource)
	}
	return "undisturbed"
}

func widest(texts []string) (most int) {
	for _, text := range texts {
		most = max(most, layout.TextWidth(text))
	}
	return most
}

// rate formats the target rate.
func rate(m *record.Measured) string {
	switch {
	case m.Rate.IsZero():
		return "-"
	case m.Rate.Constant():
		return unit.FormatCount(int64(m.Rate.PerSecond() + 0.5))
	}
	return m.Rate.String()
}

// tail formats a run's p99. For a run that was stopped early it is the lower bound of its final
// value if known, else the value so far.
func tail(m *record.Measured) string {
	if m.P99AtLeastNs > 0 {
		return "≥ " + unit.FormatNs(m.P99AtLeastNs)
	}
	return times(&m.Response, .99)
}

// common describes what all runs of an experiment share: the target and the load.
func common(e *spec.Experiment) string {
	parts := []string{unit.Plural(len(e.Servers), "server", "servers")}
	server, mix := e.Servers[0].Label(), e.Requests[0].Label()
	switch {
	case len(e.Servers) == 1 && len(e.Requests) == 1:
		parts[0] = spec.Loaded(server, mix)
	case len(e.Servers) == 1:
		parts[0] = server
	case e.HasSides():
		parts[0] = "A is " + spec.Loaded(server, mix) + ", B is " + spec.Loaded(e.Servers[1].Label(), mix)
	}
	if c, ok := e.Same(spec.OverConnections); ok {
		parts = append(parts, unit.Plural(c.Connections, "connection", "connections"))
	}
	if c, ok := e.Same(spec.OverPipelining); ok && c.Pipelining > 1 {
		parts = append(parts, fmt.Sprintf("%d in flight on each", c.Pipelining))
	}
	if c, ok := e.Same(spec.OverRate); ok {
		parts = append(parts, "open loop at "+c.Rate.String()+"/s")
	}
	if slo := e.SLO.String(); slo != "" {
		parts = append(parts, slo)
	}
	return strings.Join(parts, " · ")
}

// Head returns the common settings and the column names.
func (g *Progress) Head() []string {
	return append(g.layout.Wrap(g.title, g.layout.Width()), g.grid.Head())
}

// Run formats a finished run in one line; a verbose layout adds why it was stopped early.
func (g *Progress) Run(m *record.Measured) []string {
	cells := make([]string, len(g.cells))
	for i, cell := range g.cells {
		cells[i] = cell(m)
	}
	lines := []string{g.grid.Row(g.grid.Bounded(cells, 9)...)}
	if why := cmp.Or(m.StoppedEarly, m.NotRun); why != "" && g.layout.Verbose {
		for _, text := range g.layout.Wrap("ended early: "+why, g.layout.Width()-5) {
			lines = append(lines, "     "+text)
		}
	}
	return lines
}
