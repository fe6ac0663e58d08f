package report

import (
	"fmt"
	"strings"
	"text/tabwriter"
	"unicode/utf8"

	"ceiling/internal/unit"
	"ceiling/record"
	"ceiling/verdict/prose"
)

// factorial writes the cells, then every effect, then what was found.
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

// factorialCells is a table with a column for each factor.
func factorialCells(out *printer, f *record.Factorial) {
	if out.err != nil {
		return
	}
	t := tabwriter.NewWriter(out.w, 0, 0, 2, ' ', 0)
	for _, factor := range f.Factors {
		fmt.Fprintf(t, "%s\t", factor.Name)
	}
	fmt.Fprintln(t, "req/s\t\tp99\tserver\truns\tbottleneck")
	for i := range f.Cells {
		c := &f.Cells[i]
		for n, level := range c.Levels {
			fmt.Fprintf(t, "%s\t", levelName(f, n, level))
		}
		runs := fmt.Sprint(c.Runs)
		if c.Invalid > 0 {
			runs = fmt.Sprintf("%d of %d", c.Runs-c.Invalid, c.Runs)
		}
		bottleneck := string(c.Bottleneck)
		if c.LeftOut {
			bottleneck = "left out"
		}
		fmt.Fprintf(t, "%s\t%s\t%s\t%s\t%s\t%s\n", amount(c.PerS.Mid, "/s"), reach(&c.PerS, unit.FormatSI), cpu(&c.P99Ns),
			cpu(&c.ServerCPUNs), runs, bottleneck)
	}
	out.err = t.Flush()
}

// levelName is a level of the n-th factor.
func levelName(f *record.Factorial, n, level int) string {
	if n >= len(f.Factors) || level < 0 || level >= len(f.Factors[n].Levels) {
		return fmt.Sprint(level)
	}
	return f.Factors[n].Levels[level]
}

// metricsOf are the metrics of the effects, in their order.
func metricsOf(f *record.Factorial) []string {
	var list []string
	for i := range f.Effects {
		if m := f.Effects[i].Metric; len(list) == 0 || list[len(list)-1] != m {
			list = append(list, m)
		}
	}
	return list
}

// effects is the table of one metric.
func effects(out *printer, f *record.Factorial, metric string) {
	width := utf8.RuneCountInString(EffectMetric(metric))
	for i := range f.Effects {
		width = max(width, utf8.RuneCountInString(EffectName(f, &f.Effects[i])))
	}
	out.line("%-*s %9s   %-20s %6s  %s", width, EffectMetric(metric), "effect", "interval", "blocks", "decision")
	for i := range f.Effects {
		x := &f.Effects[i]
		if x.Metric != metric {
			continue
		}
		if x.Blocks == 0 {
			out.line("%-*s %9s   %-20s %6d  %s", width, EffectName(f, x), "-", "", 0, EffectDecision(x))
			continue
		}
		out.line("%-*s %9s   %-20s %6d  %s", width, EffectName(f, x), signed(x.Relative.Mid),
			signed(x.Relative.Low)+" … "+signed(x.Relative.High), x.Blocks, EffectDecision(x))
	}
	out.line("")
}

// EffectMetric is what an effect is on.
func EffectMetric(metric string) string {
	if name := map[string]string{"rps": "req/s", "server_cpu": "server CPU/request"}[metric]; name != "" {
		return name
	}
	return metric
}

// EffectName is what is compared: "prefork on", where its first level is off, and
// "prefork on × route /compute".
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

// EffectDecision is an effect's decision in a few words.
func EffectDecision(x *record.Effect) string {
	switch {
	case x.Blocks == 0:
		return "not measured"
	case x.Decision == record.NoChange:
		return "no effect beyond ±" + unit.Percent(x.Within)
	case x.Decision == record.CannotTell && x.MoreBlocks > 0:
		return fmt.Sprintf("not settled: ±%s needs about %s", unit.Percent(x.Within), unit.Plural(x.MoreBlocks, "more block", "more blocks"))
	case x.Decision == record.CannotTell:
		return "not settled"
	}
	return x.Decision
}
