package report

import (
	"cmp"
	"fmt"
	"strconv"
	"strings"

	"github.com/charmbracelet/x/ansi"

	"ceiling/experiment/spec"
	"ceiling/internal/unit"
	"ceiling/record"
)

// Progress is the table of a plan's runs while they are made: what they have in common
// once above it, and columns for what they differ in.
type Progress struct {
	layout Layout
	title  string
	cols   []col
	widths []int
	cells  []func(*record.Measured) string
}

// NewProgress makes the table of an experiment that is complete.
func NewProgress(e *spec.Experiment, l Layout) *Progress {
	g := &Progress{layout: l, title: common(e)}
	g.column(col{name: "run", right: true}, 3, func(m *record.Measured) string { return strconv.Itoa(m.Number) })
	g.conditions(e)
	perS, p99 := col{name: "req/s", right: true}, col{name: "p99", right: true}
	switch e.Kind { // what says the least on a narrow screen
	case spec.KindFind:
		perS.drop = 2
	case spec.KindProve:
		p99.drop = 2
	}
	g.column(perS, 9, func(m *record.Measured) string { return unit.FormatCount(int64(m.CompletedPerS + 0.5)) })
	g.column(p99, 9, tail)
	outcome := len(record.Invalid)
	if e.Kind == spec.KindFind {
		outcome = len(record.Fail) + len(early)
	}
	g.column(col{name: "verdict"}, outcome, func(m *record.Measured) string {
		if m.StoppedEarly != "" && m.Outcome == record.Fail {
			return string(m.Outcome) + early
		}
		return string(m.Outcome)
	})
	g.column(col{name: "bottleneck", least: 14}, 22, func(m *record.Measured) string {
		switch {
		case m.NotRun != "":
			return "not run: " + m.NotRun
		case m.WarmupRun:
			return "discarded"
		}
		return bottleneck(m.Outcome, m.Bottleneck)
	})
	l.fit(g.cols, g.widths)
	return g
}

// early marks a run that was ended before its time.
const early = ", early"

func (g *Progress) column(c col, width int, cell func(*record.Measured) string) {
	g.cols, g.widths = append(g.cols, c), append(g.widths, max(width, ansi.StringWidth(c.name)))
	g.cells = append(g.cells, cell)
}

// conditions are the columns of what the runs differ in.
func (g *Progress) conditions(e *spec.Experiment) {
	searches := e.Kind == spec.KindFind
	if len(e.Servers) > 1 && e.Kind != spec.KindCompare {
		labels := make([]string, len(e.Servers))
		for i := range e.Servers {
			labels[i] = e.Servers[i].Label()
		}
		g.column(col{name: "server", least: 8}, widest(labels), func(m *record.Measured) string { return labels[m.Server] })
	}
	if len(e.Requests) > 1 {
		labels := make([]string, len(e.Requests))
		for i := range e.Requests {
			labels[i] = e.Requests[i].Label()
		}
		g.column(col{name: "requests", least: 8}, widest(labels), func(m *record.Measured) string { return labels[m.Mix] })
	}
	if len(e.Load.Connections) != 1 {
		g.column(col{name: "conns", right: true, drop: map[bool]int{true: 1}[searches]}, 6,
			func(m *record.Measured) string { return unit.FormatCount(int64(m.Connections)) })
	}
	if len(e.Load.Pipelining) > 1 {
		g.column(col{name: "pipe", right: true}, 4, func(m *record.Measured) string { return strconv.Itoa(m.Pipelining) })
	}
	if len(e.Load.Rate) > 1 || searches {
		g.column(col{name: "rate", right: true}, 7, rate)
	}
	if e.Kind == spec.KindSweep || searches {
		return
	}
	wide := map[string]int{spec.KindCompare: len("warm-up"), spec.KindProve: len("-25% concurrency")}[e.Kind]
	if wide == 0 {
		g.column(col{name: "part", least: 10}, 34, func(m *record.Measured) string {
			return strings.Trim(e.CellLabel(m.Cell)+", "+m.Part(), ", ")
		})
		return
	}
	g.column(col{name: "block", right: true, drop: 3}, 5, func(m *record.Measured) string {
		if m.Block == 0 {
			return "-"
		}
		return strconv.Itoa(m.Block)
	})
	g.column(col{name: "part"}, wide, part)
}

// part is what a run of a comparison or of a proof is for, in a word or two: A/A measures
// the noise, and a proof takes a share of a resource away.
func part(m *record.Measured) string {
	switch {
	case m.WarmupRun:
		return "warm-up"
	case m.Noise:
		return "A/A"
	case m.Side != "":
		return m.Side
	case m.Perturb.Resource != "":
		return fmt.Sprintf("-%.0f%% %s", 100*m.Perturb.Share, m.Perturb.Resource)
	}
	return "undisturbed"
}

func widest(texts []string) (most int) {
	for _, text := range texts {
		most = max(most, ansi.StringWidth(text))
	}
	return most
}

// rate is the one that was asked for.
func rate(m *record.Measured) string {
	switch {
	case m.Rate.IsZero():
		return "-"
	case m.Rate.Constant():
		return unit.FormatCount(int64(m.Rate.PerSecond() + 0.5))
	}
	return m.Rate.String()
}

// tail is a run's p99. Of one that was ended early it is what it would have been at
// least, where that is known, or else what it was until then.
func tail(m *record.Measured) string {
	if m.P99AtLeastNs > 0 {
		return "≥ " + unit.FormatNs(m.P99AtLeastNs)
	}
	return times(m.Response.Count, m.Response.P99Ns)
}

// bottleneck names what limited a run. A rate that was reached is none of a run that
// failed.
func bottleneck(outcome record.Outcome, of record.Bottleneck) string {
	if outcome == record.Fail && of == record.TargetRate {
		return "none (SLO missed)"
	}
	return string(of)
}

// common is what all runs of an experiment share: whom they load, and with what.
func common(e *spec.Experiment) string {
	parts := []string{unit.Plural(len(e.Servers), "server", "servers")}
	server, mix := e.Servers[0].Label(), e.Requests[0].Label()
	switch {
	case len(e.Servers) == 1 && len(e.Requests) == 1:
		parts[0] = spec.Loaded(server, mix)
	case len(e.Servers) == 1:
		parts[0] = server
	case e.Kind == spec.KindCompare:
		parts[0] = "A is " + spec.Loaded(server, mix) + ", B is " + spec.Loaded(e.Servers[1].Label(), mix)
	}
	if c := e.Load.Connections; len(c) == 1 {
		parts = append(parts, unit.Plural(int(c[0]), "connection", "connections"))
	}
	if p := e.Load.Pipelining; len(p) == 1 && p[0] > 1 {
		parts = append(parts, fmt.Sprintf("%d in flight on each", p[0]))
	}
	if r := e.Load.Rate; len(r) == 1 && !r[0].IsZero() {
		parts = append(parts, "open loop at "+r[0].String()+"/s")
	}
	if slo := e.SLO.String(); slo != "" {
		parts = append(parts, slo)
	}
	return strings.Join(parts, " · ")
}

// Head is what all runs have in common, and the names of the columns.
func (g *Progress) Head() []string {
	names := make([]string, len(g.cols))
	for i, c := range g.cols {
		names[i] = c.name
	}
	return append(g.layout.wrap(g.title, g.layout.columns()), g.layout.row(g.cols, g.widths, names))
}

// Run is a finished run in a line, and where all is told why it ended early.
func (g *Progress) Run(m *record.Measured) []string {
	cells := make([]string, len(g.cols))
	for i, cell := range g.cells {
		cells[i] = cell(m)
		if g.layout.Screen && g.cols[i].least == 0 && g.widths[i] > 0 {
			cells[i] = ansi.Truncate(cells[i], max(g.widths[i], 9), "…")
		}
	}
	lines := []string{strings.TrimRight(g.layout.row(g.cols, g.widths, cells), " ")}
	if why := cmp.Or(m.StoppedEarly, m.NotRun); why != "" && g.layout.Verbose {
		for _, text := range g.layout.wrap("ended early: "+why, g.layout.columns()-5) {
			lines = append(lines, "     "+text)
		}
	}
	return lines
}
