package report

import (
	"fmt"
	"strings"

	"ceiling/internal/unit"
	"ceiling/record"
	"ceiling/show/layout"
	"ceiling/verdict/prose"
)

// factorial writes the cells, every effect, and the conclusion.
func factorial(out *printer, f *record.Factorial) {
	factorialCells(out, f)
	out.line("")
	for _, metric := range metricsOf(f) {
		effects(out, f, metric)
	}
	for i, s := range f.Answer {
		out.fact([]string{"answer", ""}[min(i, 1)], prose.Text(s))
	}
	out.facts("caveats", prose.Texts(f.Caveats))
}

// factorialCells writes a table with a column per factor.
func factorialCells(out *printer, f *record.Factorial) {
	if out.err != nil {
		return
	}
	var t layout.Table
	for _, factor := range f.Factors {
		t.Columns = append(t.Columns, layout.Column{Name: factor.Name, Least: 8})
	}
	t.Columns = append(t.Columns, []layout.Column{{Name: "req/s"}, {Drop: 3}, {Name: "p99"}, {Name: "server", Drop: 2},
		{Name: "runs", Drop: 1}, {Name: "bottleneck", Least: 10}}...)
	for i := range f.Cells {
		c := &f.Cells[i]
		var cells []string
		for n, level := range c.Levels {
			cells = append(cells, levelName(f, n, level))
		}
		runs := fmt.Sprint(c.Runs)
		if c.Invalid > 0 {
			runs = fmt.Sprintf("%d of %d", c.Runs-c.Invalid, c.Runs)
		}
		bottleneck := string(c.Bottleneck)
		if c.LeftOut {
			bottleneck = "left out"
		}
		t.Rows = append(t.Rows, append(cells, amount(c.PerS.Mid, "/s"), reach(&c.PerS, unit.FormatSI), cpu(&c.P99Ns), cpu(&c.ServerCPUNs), runs,
			bottleneck))
	}
	out.table(&t)
}

// levelName is the name of a level of the n-th factor.
func levelName(f *record.Factorial, n, level int) string {
	if n >= len(f.Factors) || level < 0 || level >= len(f.Factors[n].Levels) {
		return fmt.Sprint(level)
	}
	return f.Factors[n].Levels[level]
}

// metricsOf returns the metrics of the effects, in order.
func metricsOf(f *record.Factorial) []string {
	var list []string
	for i := range f.Effects {
		if m := f.Effects[i].Metric; len(list) == 0 || list[len(list)-1] != m {
			list = append(list, m)
		}
	}
	return list
}

// effects writes the table of one metric.
func effects(out *printer, f *record.Factorial, metric string) {
	if out.err != nil {
		return
	}
	t := layout.Table{Columns: []layout.Column{{Name: EffectMetric(metric), Least: 16}, {Name: "effect", Right: true}, {Name: "interval"},
		{Name: "blocks", Right: true, Drop: 1}, {Name: "decision", Least: 12}}}
	for i := range f.Effects {
		x := &f.Effects[i]
		switch {
		case x.Metric != metric:
		case x.Blocks == 0:
			t.Rows = append(t.Rows, []string{EffectName(f, x), "-", "", "0", EffectDecision(x)})
		default:
			r := &x.Relative
			t.Rows = append(t.Rows, []string{EffectName(f, x), unit.Change(r.Mid), unit.Change(r.Low) + " to " + unit.Change(r.High),
				fmt.Sprint(x.Blocks), EffectDecision(x)})
		}
	}
	out.table(&t)
	out.line("")
}

// EffectMetric is the display name of an effect's metric.
func EffectMetric(metric string) string {
	if name := map[string]string{"rps": "req/s", "server_cpu": "server CPU/request"}[metric]; name != "" {
		return name
	}
	return metric
}

// EffectName names the contrast: "prefork on", if its first level is off, and "prefork on × route
// /compute".
func EffectName(f *record.Factorial, x *record.Effect) string {
	name := func(factor string, level int) string {
		for n := range f.Factors {
			if f.Factors[n].Name == factor {
				return factor + " " + levelName(f, n, level)
			}
		}
		return factor
	}
	parts := []string{name(x.Factor, x.Level)}
	if x.With != "" {
		parts = append(parts, name(x.With, x.WithLevel))
	}
	return strings.Join(parts, " × ")
}

// EffectDecision summarises an effect's decision.
func EffectDecision(x *record.Effect) string {
	switch {
	case x.Blocks == 0:
		return "not measured"
	case x.Decision == record.NoChange:
		return "no effect beyond ±" + unit.Percent(x.Within)
	case x.Decision == record.CannotTell && x.MoreBlocks > 0:
		return fmt.Sprintf("inconclusive: ±%s needs about %s", unit.Percent(x.Within), unit.Plural(x.MoreBlocks, "more block", "more blocks"))
	case x.Decision == record.CannotTell:
		return "inconclusive"
	}
	return x.Decision
}
