package page

import (
	"fmt"

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
			b.Rows = append(b.Rows, []Cell{{Text: term.Term}, {Text: TermValue(term.Term, term.Value)},
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
	d, ok := marks(Drawing{ID: "tried", Tall: true}, "Every attempt: "+name+" by target rate", p.Runs, targetRate(),
		chart.Axis{Name: name, Unit: chart.Nanoseconds}, limit, func(m *record.Measured) (chart.Place, bool) {
			at := chart.Place{Y: float64(of(&m.Response))}
			if m.StoppedEarly != "" {
				if name == "p99" && m.P99AtLeastNs > 0 {
					at.Y = float64(m.P99AtLeastNs)
				}
				early, at.Label = true, "≥ "+unit.FormatNsFloat(at.Y)
			}
			return at, m.Response.Count > 0 && m.Outcome != record.Valid
		})
	if !ok {
		return Drawing{}, false
	}
	s := p.Search
	if s.Capacity.High > s.Capacity.Low && s.Capacity.Low > 0 {
		d.Graph.Spans = []chart.Span{{Name: "capacity", From: s.Capacity.Low, To: s.Capacity.High, Tone: 0}}
	}
	d.Graph.Says = prose.Text(s.Says)
	d.Note = fmt.Sprintf("One mark for each run: %s of its response times.", name)
	if early {
		d.Note += " Triangles were ended early, when the SLO could not be met any more: the " + name + " is at least theirs."
	}
	d.Note += " Band: interval of the capacity."
	return d, true
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
