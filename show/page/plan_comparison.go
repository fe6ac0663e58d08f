package page

import (
	"fmt"
	"math"

	"ceiling/internal/unit"
	"ceiling/record"
	"ceiling/show/chart"
	"ceiling/show/report"
	"ceiling/verdict/prose"
)

func comparisonSays(c *record.Comparison) []string {
	if c.Incomparable != nil {
		return []string{upperFirst(prose.Text(c.Says))}
	}
	says := []string{prose.Text(c.Says)}
	for i := range c.Changes {
		says = append(says, prose.Text(c.Changes[i].Says))
	}
	for _, g := range c.Gate {
		says = append(says, fmt.Sprintf("%s %s: %s", g.Condition, g.Result, prose.Text(g.Says)))
	}
	return says
}

// comparisonSections shows the changes first, then the differences between the two sides.
func comparisonSections(p *record.Plan) []Section {
	c := p.Comparison
	differences := Section{ID: "differences", Title: "What differed", Blocks: []Block{differenceTable(c)}}
	if len(c.Differences) == 0 {
		differences.Blocks = []Block{Paragraph{Text: "Nothing recorded except the result."}}
	}
	changes := Section{ID: "changes", Title: "What changed from A to B"}
	changes.Blocks = append(changes.Blocks, Paragraph{Text: fmt.Sprintf("A is %s. B is %s.", redact(c.A), redact(c.B))})
	if sides := sideForests(p); len(sides) > 0 {
		changes.Blocks = append(changes.Blocks, sides...)
	}
	t := tableOf("Every metric", report.ChangeTable(c))
	if d, ok := ChangeForest(c); ok {
		d.Table = &t
		changes.Blocks = append(changes.Blocks, d)
	} else {
		changes.Blocks = append(changes.Blocks, t)
	}
	list := []Section{changes, differences}
	if len(c.Profiles) > 0 {
		list = append(list, profileDifferences(c))
	}
	return list
}

// profileDifferences shows which functions became more expensive.
func profileDifferences(c *record.Comparison) Section {
	s := Section{ID: "profiles", Title: "What costs more"}
	for i := range c.Profiles {
		d := &c.Profiles[i]
		t := tableOf(upperFirst(report.ProfileName(d.Kind))+" of one request", report.FunctionTable(d, len(d.Functions)))
		s.Blocks = append(s.Blocks, Paragraph{Text: upperFirst(prose.ProfileDifference(d)) + "."}, t)
	}
	return s
}

func changeText(c *record.Change) string { return relative(&c.Relative, c.Measured()) }

// relative formats a ratio − 1 and its interval.
func relative(e *record.Estimate, measured bool) string {
	if !measured {
		return "not measured"
	}
	return around(e, unit.Change)
}

// ChangeForest draws every metric's change with its interval, around no change.
func ChangeForest(c *record.Comparison) (Drawing, bool) {
	var rows []chart.Estimated
	for i := range c.Changes {
		ch := &c.Changes[i]
		tone := map[string]int{record.Better: 3, record.Worse: 1, record.NoChange: 0}[ch.Decision]
		if ch.Decision == record.CannotTell {
			tone = 7
		}
		var each []float64
		for _, ratio := range ch.PerBlock {
			each = append(each, math.Expm1(ratio))
		}
		rows = append(rows, chart.Estimated{Name: report.MetricName(ch.Metric) + ": " + ch.Decision, Each: each, Value: changeText(ch),
			Mid: ch.Relative.Mid,
			Low: ch.Relative.Low, High: ch.Relative.High,
			Tone: tone, BandLow: -ch.Floor, BandHigh: ch.Floor, None: !ch.Measured()})
	}
	f, ok := chart.NewForest("Change from A to B", "change", chart.Signed, rows, []chart.Limit{{Name: "no change", At: 0}}, false)
	f.Says = rowsSay(rows)
	return forestOf("change", f, fmt.Sprintf("Line: no change. Dots: each block. Bars: intervals over %s. Grey band: A-vs-A noise (%s).",
		unit.Plural(c.Blocks, "block", "blocks"), unit.Plural(c.NoiseBlocks, "block", "blocks"))), ok
}

func changeValue(v float64, of string) string {
	switch {
	case !(v > 0):
		return "–"
	case of == "ns":
		return nanoseconds(v)
	}
	return unit.FormatRate(v)
}

func differenceTable(c *record.Comparison) Table {
	t := Table{Caption: "Configuration differences, most important first",
		Columns: []Column{{Name: "what"}, {Name: "A"}, {Name: "B"}, {Name: "weight"}, {Name: "why"}}}
	reasons := false
	for _, d := range c.Differences {
		why := prose.Text(d.Why)
		reasons = reasons || why != ""
		t.Rows = append(t.Rows, []Cell{{Text: d.What}, {Text: redact(d.A)}, {Text: redact(d.B)}, {Text: d.Weight}, {Text: why}})
	}
	if !reasons {
		t.Columns = t.Columns[:len(t.Columns)-1]
		for i := range t.Rows {
			t.Rows[i] = t.Rows[i][:len(t.Columns)]
		}
	}
	return t
}
