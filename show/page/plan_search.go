package page

import (
	"fmt"

	"ceiling/experiment/spec"
	"ceiling/internal/unit"
	"ceiling/record"
	"ceiling/show/chart"
)

// searchSection is the rates that were tried, and which of them held.
func searchSection(p *record.Plan) Section {
	s := Section{ID: "rates", Title: "Tested rates"}
	t := rateTable(p.Search)
	d, ok := RatesGraph(p.Search, p.Experiment.SLO)
	if !ok {
		s.Blocks = []Block{t}
		return s
	}
	d.Table = &t
	s.Blocks = []Block{d}
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

// TermValue is what was measured of an SLO's term, in the unit of its limit.
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

// termShown is the percentile that a search's picture has on its y axis: the
// first of the SLO that the record keeps for every rate, else p99.
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

// RatesGraph is the response time of every rate that was tried: held, broke, or
// proved nothing.
func RatesGraph(s *record.Search, slo spec.SLO) (Drawing, bool) {
	name, of, limit := termShown(slo)
	lines := []chart.Measured{{Name: "pass", Tone: 3}, {Name: "fail", Tone: 1}, {Name: "mixed", Tone: 5}, {Name: "invalid", Tone: 7}}
	for i := range s.Rates {
		r := &s.Rates[i]
		if r.Response.Count == 0 {
			continue
		}
		y := float64(of(&r.Response))
		at := chart.Place{X: r.PerS, Y: y, Low: y, High: y}
		switch {
		case r.Pass > 0 && r.Fail == 0:
			lines[0].Places = append(lines[0].Places, at)
		case r.Fail > 0 && r.Pass == 0:
			lines[1].Places = append(lines[1].Places, at)
		case r.Pass+r.Fail > 0:
			lines[2].Places = append(lines[2].Places, at)
		default:
			lines[3].Places = append(lines[3].Places, at)
		}
	}
	var used []chart.Measured
	for _, l := range lines {
		if len(l.Places) > 0 {
			used = append(used, l)
		}
	}
	g, ok := chart.NewGraph("Response time by target rate", chart.Axis{Name: "target rate, requests/s", Unit: chart.PerSecond},
		chart.Axis{Name: name, Unit: chart.Nanoseconds}, used)
	if !ok {
		return Drawing{}, false
	}
	if limit >= g.Y.Min && limit <= g.Y.Max && limit > 0 {
		g.Limits = []chart.Limit{{Name: "asked", At: limit}}
	}
	if s.Capacity.High > s.Capacity.Low && s.Capacity.Low > 0 {
		g.Spans = []chart.Span{{Name: "meets the SLO", From: s.Capacity.Low, To: s.Capacity.High, Tone: 0}}
	}
	g.Says = s.Says
	return graphOf("tried", g, fmt.Sprintf("%s of the response times of all complete runs at a rate. A rate whose runs all ended early has no dot. Band: interval of the highest passing rate.", name)), true
}

func rateTable(s *record.Search) Table {
	t := Table{Caption: "Every rate", Columns: []Column{{Name: "rate", Figure: true}, {Name: "runs", Figure: true},
		{Name: "pass", Figure: true}, {Name: "fail", Figure: true},
		{Name: "invalid", Figure: true}, {Name: "ended early", Figure: true}, {Name: "p50", Figure: true}, {Name: "p99", Figure: true},
		{Name: "p99.9", Figure: true}, {Name: "bottleneck"}}}
	for i := range s.Rates {
		r := &s.Rates[i]
		t.Rows = append(t.Rows, []Cell{{Text: unit.FormatRate(r.PerS)}, {Text: fmt.Sprint(r.Runs)}, {Text: fmt.Sprint(r.Pass)},
			{Text: fmt.Sprint(r.Fail)}, {Text: fmt.Sprint(r.Invalid)},
			{Text: fmt.Sprint(r.StoppedEarly)}, {Text: quantileCell(&r.Response, r.Response.P50Ns)},
			{Text: quantileCell(&r.Response, r.Response.P99Ns)},
			{Text: quantileCell(&r.Response, r.Response.P999Ns)}, {Text: string(r.Bottleneck)}})
	}
	return t
}
