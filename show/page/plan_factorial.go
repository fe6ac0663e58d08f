package page

import (
	"fmt"
	"math"
	"slices"
	"strings"

	"ceiling/internal/unit"
	"ceiling/record"
	"ceiling/show/chart"
	"ceiling/show/report"
	"ceiling/verdict/prose"
)

// factorialSections are the effects of each metric, then the cells that they are
// from.
func factorialSections(f *record.Factorial) []Section {
	effects := Section{ID: "effects", Title: "Effects"}
	cells := Section{ID: "cells", Title: "Cells"}
	for _, metric := range report.EffectMetrics(f) {
		t := tableOf("Every effect on "+report.MetricName(metric), report.EffectTable(f, metric))
		if d, ok := EffectForest(f, metric); ok {
			d.Table = &t
			effects.Blocks = append(effects.Blocks, d)
		} else {
			effects.Blocks = append(effects.Blocks, t)
		}
		cells.Blocks = append(cells.Blocks, cellGraphs(f, metric)...)
	}
	cells.Blocks = append(cells.Blocks, tableOf("Every cell", report.CellTable(f)))
	return []Section{effects, cells}
}

// factorialCard counts what was found.
func factorialCard(f *record.Factorial) *Verdict {
	significant, none := 0, 0
	for i := range f.Effects {
		switch f.Effects[i].Decision {
		case record.Higher, record.Lower:
			significant++
		case record.NoChange:
			none++
		}
	}
	told := significant + none
	left := len(f.Effects) - told
	v := &Verdict{Outcome: "inconclusive", Mood: mood(told > 0), Gloss: "needs more blocks", Figure: fmt.Sprint(significant),
		Unit: fmt.Sprintf("of %s significant", unit.Plural(len(f.Effects), "effect", "effects")), Because: sentence(prose.Sentence(f.Answer[:min(1, len(f.Answer))]))}
	switch {
	case told == len(f.Effects) && told > 0:
		v.Outcome, v.Gloss = "conclusive", "every effect is significant or within the margin"
	case told > 0:
		v.Outcome, v.Gloss = "partly conclusive", unit.Plural(left, "effect needs", "effects need")+" more blocks"
	}
	v.Spread = fmt.Sprintf("%s × %s", unit.Plural(f.Blocks, "block", "blocks"), unit.Plural(len(f.Cells), "cell", "cells"))
	return v
}

// effectTone is the colour of an effect: better, worse, none, inconclusive.
func effectTone(x *record.Effect) int {
	better := record.Lower
	if x.Metric == "rps" {
		better = record.Higher
	}
	switch x.Decision {
	case better:
		return 3
	case record.Higher, record.Lower:
		return 1
	case record.NoChange:
		return 0
	}
	return 7
}

// EffectForest is every effect on a metric with its interval, around none.
func EffectForest(f *record.Factorial, metric string) (Drawing, bool) {
	var rows []chart.Estimated
	for i := range f.Effects {
		x := &f.Effects[i]
		if x.Metric != metric {
			continue
		}
		var each []float64
		for _, ratio := range x.PerBlock {
			each = append(each, math.Expm1(ratio))
		}
		rows = append(rows, chart.Estimated{Each: each, Name: redact(report.EffectName(f, x)) + ": " + shortDecision(x), Value: effectText(x),
			Mid: x.Relative.Mid, Low: x.Relative.Low, High: x.Relative.High, Tone: effectTone(x), None: !report.EffectMeasured(x)})
	}
	forest, ok := chart.NewForest("Effects on "+report.MetricName(metric), "effect", chart.Signed, rows, []chart.Limit{{Name: "none", At: 0}},
		false)
	forest.Says = rowsSay(rows)
	return forestOf("effects-"+metric, forest, fmt.Sprintf("Line: no effect. Dots: each block. Bars: intervals over blocks, %s for all %d effects together. × is how a factor changes the effect of another.",
		unit.Percent(f.Confidence), f.Comparisons)), ok
}

func effectText(x *record.Effect) string { return relative(&x.Relative, report.EffectMeasured(x)) }

// shortDecision leaves what would decide it to the words beside it.
func shortDecision(x *record.Effect) string {
	if x.Decision == record.CannotTell && x.Blocks > 0 {
		return "inconclusive"
	}
	return report.EffectDecision(x)
}

// cellMetric is a metric's figure of a cell.
func cellMetric(c *record.FactorialCell, metric string) *record.Estimate {
	switch metric {
	case "rps":
		return &c.PerS
	case "p99":
		return &c.P99Ns
	}
	return &c.ServerCPUNs
}

// cellGraphs are the interaction plots of a metric: the levels of one factor across,
// and a line for each combination of the others. Where lines keep their ratio, the
// factors do not interact.
func cellGraphs(f *record.Factorial, metric string) []Block {
	across := 0
	for i := range f.Factors {
		if len(f.Factors[i].Levels) > len(f.Factors[across].Levels) {
			across = i
		}
	}
	lines := cellLines(f, metric, across)
	var blocks []Block
	for at := 0; at < len(lines); at += linesMost {
		group := lines[at:min(at+linesMost, len(lines))]
		y := chart.Axis{Name: report.MetricName(metric), Unit: chart.PerSecond}
		if metric != "rps" {
			y.Unit = chart.Nanoseconds
		}
		title := fmt.Sprintf("%s by %s", report.MetricName(metric), redact(f.Factors[across].Name))
		g, ok := chart.NewGraph(title, chart.Axis{Name: redact(f.Factors[across].Name)}, y, group)
		if !ok {
			continue
		}
		g.X = levelAxis(&f.Factors[across])
		g.Says = "The same as in the table."
		blocks = append(blocks, graphOf(fmt.Sprintf("cells-%s%s", metric, groupTag(at/linesMost, (len(lines)+linesMost-1)/linesMost)), g,
			"Dots: median of a cell's runs, with its 95% interval. Hollow: left out of the effects. Lines that keep their ratio from place to place: the factors do not interact."))
	}
	return blocks
}

// levelAxis has a place for each level, half a place in from the sides.
func levelAxis(f *record.FactorLevels) chart.Axis {
	a := chart.Axis{Name: redact(f.Name), Min: -.5, Max: float64(len(f.Levels)) - .5}
	for i, name := range f.Levels {
		a.Ticks = append(a.Ticks, chart.Tick{At: float64(i), Label: redact(name)})
	}
	return a
}

func cellLines(f *record.Factorial, metric string, across int) []chart.Measured {
	var lines []chart.Measured
	index := map[string]int{}
	for i := range f.Cells {
		c := &f.Cells[i]
		e := cellMetric(c, metric)
		if across >= len(c.Levels) || !(e.Mid > 0 && e.Mid <= math.MaxFloat64) {
			continue
		}
		name := othersName(f, c, across)
		at, there := index[name]
		if !there {
			at = len(lines)
			index[name] = at
			line := chart.Measured{Name: name, Joined: true}
			line.Tone, line.Dashed = toneOf(at)
			lines = append(lines, line)
		}
		lines[at].Places = append(lines[at].Places, chart.Place{X: float64(c.Levels[across]), Y: e.Mid, Low: min(e.Low, e.Mid),
			High: max(e.High, e.Mid), Hollow: c.LeftOut})
	}
	for i := range lines {
		slices.SortFunc(lines[i].Places, func(a, b chart.Place) int { return int(a.X - b.X) })
	}
	return lines
}

// othersName is the levels of a cell but those of one factor.
func othersName(f *record.Factorial, c *record.FactorialCell, but int) string {
	var parts []string
	for n, level := range c.Levels {
		if n != but && n < len(f.Factors) && level >= 0 && level < len(f.Factors[n].Levels) {
			parts = append(parts, f.Factors[n].Name+" "+f.Factors[n].Levels[level])
		}
	}
	return redact(strings.Join(parts, ", "))
}
