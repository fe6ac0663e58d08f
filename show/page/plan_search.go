package page

import (
	"fmt"
	"slices"

	"ceiling/experiment/spec"
	"ceiling/internal/unit"
	"ceiling/record"
	"ceiling/show/chart"
	"ceiling/show/report"
	"ceiling/verdict/prose"
)

// searchSection shows the rates that were tried, and which of them passed.
func searchSection(p *record.Plan) Section {
	s := Section{ID: "rates", Title: "Tested rates"}
	t := tableOf("Every rate", report.SearchTable(p.Search.Rates))
	d, ok := RatesGraph(p)
	if !ok {
		s.Blocks = []Block{t}
		return s
	}
	d.Table = &t
	s.Blocks = []Block{d}
	if d, ok := bracketGraph(p); ok {
		s.Blocks = append(s.Blocks, d)
	}
	if len(p.Search.Failed) > 0 {
		b := Table{Caption: "SLO terms that fail first above the highest passing rate",
			Columns: []Column{{Name: "term"}, {Name: "measured", Figure: true}, {Name: "met"}}}
		for _, term := range p.Search.Failed {
			least := map[bool]string{true: "≥ "}[term.AtLeast]
			b.Rows = append(b.Rows, []Cell{{Text: term.Term}, {Text: least + TermValue(term.Term, term.Value)},
				{Text: map[bool]string{true: "yes", false: "no"}[term.Met]}})
		}
		s.Blocks = append(s.Blocks, b)
	}
	return s
}

// TermValue formats a measured value of an SLO term, in the unit of its limit.
func TermValue(term string, value float64) string {
	list, err := spec.ParseSLO(term)
	if err != nil || len(list) != 1 {
		return unit.FormatSI(value)
	}
	switch list[0].Metric {
	case spec.MetricErrors:
		return unit.Percent(value)
	case spec.MetricRate:
		return unit.FormatRate(value)
	}
	return nanoseconds(value)
}

// termShown returns the percentile on the y axis of a search's graph: the SLO's first that the
// record has for every rate, else p99.
func termShown(slo spec.SLO) (name string, of func(*record.Quantiles) int64, limit float64) {
	p99 := func(q *record.Quantiles) int64 { return q.P99Ns }
	for _, t := range slo {
		if t.Metric != spec.MetricResponse {
			continue
		}
		switch t.Quantile {
		case .5:
			return "p50", func(q *record.Quantiles) int64 { return q.P50Ns }, t.Limit
		case .9:
			return "p90", func(q *record.Quantiles) int64 { return q.P90Ns }, t.Limit
		case .99:
			return "p99", p99, t.Limit
		case .999:
			return "p99.9", func(q *record.Quantiles) int64 { return q.P999Ns }, t.Limit
		}
	}
	return "p99", p99, 0
}

// RatesGraph draws every attempt of a search: target rate and response time.
func RatesGraph(p *record.Plan) (Drawing, bool) {
	name, of, limit := termShown(p.Experiment.SLO)
	early := false
	d, ok := marks("tried", "Every attempt: "+name+" by target rate", p.Runs, limit,
		chart.Axis{Name: name, Unit: chart.Nanoseconds}, func(m *record.Measured) chart.Place {
			at := chart.Place{X: m.TargetPerS, Y: float64(of(&m.Response))}
			if m.StoppedEarly != "" && m.Response.Count > 0 {
				if name == "p99" && m.P99AtLeastNs > 0 {
					at.Y = float64(m.P99AtLeastNs)
				}
				early, at.Label = true, "≥ "+unit.FormatNsFloat(at.Y)
			}
			return at
		})
	if !ok {
		return Drawing{}, false
	}
	s := p.Search
	if s.Capacity.High > s.Capacity.Low && s.Capacity.Low > 0 {
		d.Graph.Spans = []chart.Span{{Name: "capacity", From: s.Capacity.Low, To: s.Capacity.High, Tone: 0}}
	}
	d.Graph.X.Name, d.Graph.Says, d.Tall = "target rate, requests/s", prose.Text(s.Says), true
	d.Note = fmt.Sprintf("One mark for each run: %s of its response times.", name)
	if early {
		d.Note += " Triangles were ended early, when the SLO could not be met any more: the " + name + " is at least theirs."
	}
	d.Note += " Band: interval of the capacity."
	return d, true
}

// marks draws a mark for each run, by its outcome; a triangle if it was ended early. limit is a level on the y axis, 0
// for none. place has the position and the label of a mark; one at 0 is left out.
func marks(id, title string, runs []record.Measured, limit float64, y chart.Axis,
	place func(m *record.Measured) chart.Place) (Drawing, bool) {
	lines := []chart.Measured{{Name: "pass", Tone: 3}, {Name: "valid", Tone: 3}, {Name: "fail", Tone: 1}, {Name: "invalid", Tone: 7}}
	for i := range runs {
		at := place(&runs[i])
		at.Low, at.High, at.Early = at.Y, at.Y, runs[i].StoppedEarly != ""
		for l := range lines {
			if lines[l].Name == string(runs[i].Outcome) && at.X > 0 && at.Y > 0 {
				lines[l].Places = append(lines[l].Places, at)
			}
		}
	}
	lines = slices.DeleteFunc(lines, func(l chart.Measured) bool { return len(l.Places) == 0 })
	g, ok := chart.NewGraph(title, chart.Axis{}, y, lines)
	if !ok {
		return Drawing{}, false
	}
	d := Drawing{ID: id, Plot: Legend{Title: title}, Graph: &g}
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
	return d, true
}

// Marks draws the runs of a plan in progress: the rate and the p99 of each, over the load that they differ in.
func Marks(runs []record.Measured, slo spec.SLO) []Block {
	runs = slices.DeleteFunc(slices.Clone(runs), func(m record.Measured) bool { return m.WarmupRun })
	load, of := "the number of the run", func(m *record.Measured) float64 { return float64(m.Number) }
	for i := range runs {
		if runs[i].TargetPerS > 0 {
			load, of = "its target rate", func(m *record.Measured) float64 { return m.TargetPerS }
			break
		}
		if runs[i].Connections != runs[0].Connections {
			load, of = "its connections", func(m *record.Measured) float64 { return float64(m.Connections) }
		}
	}
	limit := 0.0
	if name, _, at := termShown(slo); name == "p99" {
		limit = at
	}
	rates, measured := marks("run-rates", "Requests per second", runs, 0, chart.Axis{Unit: chart.PerSecond},
		func(m *record.Measured) chart.Place { return chart.Place{X: of(m), Y: m.CompletedPerS} })
	times, answered := marks("run-times", "p99 of the response time", runs, limit, chart.Axis{Unit: chart.Nanoseconds},
		func(m *record.Measured) chart.Place { return chart.Place{X: of(m), Y: float64(m.Response.P99Ns)} })
	if !measured {
		return nil
	}
	rates.Note = "A mark for each run, over " + load + ". Triangles were ended early."
	if !answered {
		return []Block{rates}
	}
	return []Block{Columns{[][]Block{{rates}, {times}}}}
}

// bracketGraph draws how the search converged: after each rate, the highest known to pass and the
// lowest known to fail.
func bracketGraph(p *record.Plan) (Drawing, bool) {
	standing := map[float64]*record.TriedRate{}
	for i := range p.Search.Rates {
		standing[p.Search.Rates[i].PerS] = &p.Search.Rates[i]
	}
	var rows []chart.Estimated
	low, high := 0.0, 0.0
	seen := map[float64]bool{}
	for i := range p.Runs {
		r := standing[p.Runs[i].TargetPerS]
		if r == nil || seen[r.PerS] {
			continue
		}
		seen[r.PerS] = true
		outcome := report.TriedOutcome(r)
		switch {
		case outcome == record.Pass:
			low = max(low, r.PerS)
		case outcome == record.Fail && (high == 0 || r.PerS < high):
			high = r.PerS
		}
		row := chart.Estimated{Name: unit.FormatRate(r.PerS) + ": " + string(outcome), Mid: r.PerS, Low: low, High: high,
			Tone: map[record.Outcome]int{record.Pass: 3, record.Fail: 1, record.Invalid: 7}[outcome]}
		row.Value = "above " + unit.FormatSI(low)
		if high > 0 {
			row.Value = unit.FormatSI(low) + " to " + unit.FormatSI(high)
		} else {
			row.High = r.PerS
		}
		row.Low, row.High = min(row.Low, r.PerS), max(row.High, r.PerS)
		rows = append(rows, row)
	}
	if len(rows) < 2 {
		return Drawing{}, false
	}
	f, ok := chart.NewForest("Search steps", "requests/s", chart.PerSecond, rows, nil, true)
	f.Says = rowsSay(rows)
	return forestOf("bracket", f, "Rates in the order in which they were tried. Bars: between the highest rate known to pass and the lowest known to fail."), ok
}
