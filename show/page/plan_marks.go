package page

import (
	"fmt"
	"slices"

	"ceiling/experiment/spec"
	"ceiling/record"
	"ceiling/show/chart"
)

// load is what the runs of a plan differ in, as an x axis.
type load struct {
	chart.Axis
	of func(m *record.Measured) float64
}

func targetRate() load {
	return load{chart.Axis{Name: "target rate, requests/s", Unit: chart.PerSecond}, func(m *record.Measured) float64 { return m.TargetPerS }}
}

// loadOf chooses the x axis of some runs.
func loadOf(runs []record.Measured) load {
	connections := load{chart.Axis{Name: "connections"}, func(m *record.Measured) float64 { return float64(m.Connections) }}
	switch {
	case slices.ContainsFunc(runs, func(m record.Measured) bool { return m.TargetPerS > 0 }):
		return targetRate()
	case slices.ContainsFunc(runs, func(m record.Measured) bool { return m.Connections != runs[0].Connections }):
		return connections
	}
	return load{chart.Axis{Name: "run"}, func(m *record.Measured) float64 { return float64(m.Number) }}
}

// marks draws a mark for each run over its load, by its outcome; a triangle if it was ended early. limit is a level on
// the y axis, 0 for none; place has the height and the label of a mark, false to leave it out.
func marks(d Drawing, title string, runs []record.Measured, x load, y chart.Axis, limit float64,
	place func(m *record.Measured) (chart.Place, bool)) (Drawing, bool) {
	lines := []chart.Measured{{Name: string(record.Pass), Tone: 3}, {Name: string(record.Valid), Tone: 3}, {Name: string(record.Fail), Tone: 1},
		{Name: string(record.Invalid), Tone: 7}}
	for i := range runs {
		m := &runs[i]
		at, counts := place(m)
		at.X, at.Low, at.High, at.Early = x.of(m), at.Y, at.Y, m.StoppedEarly != ""
		if line := slices.IndexFunc(lines, func(l chart.Measured) bool { return l.Name == string(m.Outcome) }); line >= 0 && counts && at.X > 0 {
			lines[line].Places = append(lines[line].Places, at)
		}
	}
	lines = slices.DeleteFunc(lines, func(l chart.Measured) bool { return len(l.Places) == 0 })
	g, ok := chart.NewGraph(title, x.Axis, y, lines)
	if !ok {
		return d, false
	}
	g.Near()
	for i := range lines {
		for _, at := range lines[i].Places {
			g.Reach(1.1 * at.Y) // otherwise the mark at the edge, and its label, are cut off
		}
		d.Areas = append(d.Areas, Swatch{lines[i].Name, fmt.Sprintf("dot-%d", lines[i].Tone)})
	}
	if limit > 0 {
		g.Reach(limit)
		g.Limits = []chart.Limit{{Name: "SLO", At: limit}}
	}
	d.Plot, d.Graph = Legend{Title: g.Title}, &g
	return d, true
}

// Marks draws the runs of a plan that goes on: the rate and the p99 of each, over what they differ in.
func Marks(runs []record.Measured, slo spec.SLO) []Block {
	runs = slices.DeleteFunc(slices.Clone(runs), func(m record.Measured) bool { return m.WarmupRun })
	x, limit := loadOf(runs), 0.0
	for _, t := range slo {
		if t.Metric == spec.MetricResponse && t.Quantile == .99 {
			limit = t.Limit
		}
	}
	says := func(name string) string {
		return fmt.Sprintf("%s of each run, over its %s. Triangles were ended early.", name, x.Name)
	}
	rates, ok := marks(Drawing{ID: "run-rates", Note: says("The rate")}, "Requests per second", runs, x, chart.Axis{Name: "req/s", Unit: chart.PerSecond}, 0,
		func(m *record.Measured) (chart.Place, bool) {
			return chart.Place{Y: m.CompletedPerS}, m.CompletedPerS > 0
		})
	if !ok {
		return nil
	}
	times, ok := marks(Drawing{ID: "run-times", Note: says("p99")}, "p99 of the response time", runs, x, chart.Axis{Name: "p99", Unit: chart.Nanoseconds}, limit,
		func(m *record.Measured) (chart.Place, bool) {
			return chart.Place{Y: float64(m.Response.P99Ns)}, m.Response.Count > 0
		})
	if !ok {
		return []Block{rates}
	}
	return []Block{Columns{[][]Block{{rates}, {times}}}}
}
