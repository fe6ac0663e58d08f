package main

import (
	"fmt"
	"io"
	"strings"

	"ceiling/experiment/plan"
	"ceiling/internal/text"
	"ceiling/internal/unit"
	"ceiling/record"
	"ceiling/show/page"
	"ceiling/verdict/prose"
)

// ciAnswer is the result of all loads.
type ciAnswer struct {
	// base and change say what was compared: "1a2b3c4 (merge-base with origin/main)".
	base, change string
	machine      string // in a few words
	loads        []plan.Checked
}

// result is the worst of the loads'.
func (a *ciAnswer) result() string {
	worst := plan.GatePassed
	for i := range a.loads {
		worst = plan.Worst(worst, a.loads[i].Result)
	}
	return worst
}

// write writes it as Markdown, for a log, the summary of a pipeline or a comment on a change.
func (a *ciAnswer) write(w io.Writer) error {
	var b strings.Builder
	fmt.Fprintf(&b, "### ceiling: %s\n\nbase %s · change %s · %s\n", markdown(a.summary()), markdown(a.base), markdown(a.change), markdown(a.machine))
	for i := range a.loads {
		c := &a.loads[i]
		fmt.Fprintf(&b, "\n#### %s: %s\n\n", markdown(c.Name), c.Result)
		changes(&b, c)
		for k := range c.Checks {
			fmt.Fprintf(&b, "- %s\n", markdown(says(&c.Checks[k])))
		}
		if text := limits(c); text != "" {
			fmt.Fprintf(&b, "- %s\n", markdown(text))
		}
		if c.Plan == nil || c.Plan.Comparison == nil {
			continue
		}
		for _, s := range c.Plan.Comparison.Caveats {
			fmt.Fprintf(&b, "- caveat: %s\n", markdown(prose.Text(s)))
		}
	}
	_, err := io.WriteString(w, b.String())
	return err
}

// changes writes each figure on both sides, and its change.
func changes(b *strings.Builder, c *plan.Checked) {
	if c.Plan == nil || c.Plan.Comparison == nil || len(c.Plan.Comparison.Changes) == 0 {
		return
	}
	b.WriteString("| | base | change | difference | interval | noise A/A | |\n|---|--:|--:|--:|--:|--:|---|\n")
	for i := range c.Plan.Comparison.Changes {
		ch := &c.Plan.Comparison.Changes[i]
		change, interval, noise := "not measured", "", ""
		if ch.Measured() {
			change = unit.Change(ch.Relative.Mid)
			interval = unit.Change(ch.Relative.Low) + " to " + unit.Change(ch.Relative.High)
			noise = "±" + unit.Percent(ch.Floor)
		}
		fmt.Fprintf(b, "| %s | %s | %s | %s | %s | %s | %s |\n", nameOf(ch.Metric), amount(ch.A, ch.Unit), amount(ch.B, ch.Unit),
			change, interval, noise, ch.Decision)
	}
	b.WriteString("\n")
}

// says is what came of a condition, with the measurement behind it.
func says(c *plan.Check) string {
	text := fmt.Sprintf("%s %s", c.Condition, c.Result)
	if why := prose.Text(c.Says); why != "" {
		text += ": " + why
	}
	return text
}

func nameOf(metric string) string {
	switch metric {
	case "rps":
		return "requests/s"
	case "server_cpu":
		return "server CPU/request"
	}
	return metric
}

func amount(v float64, of string) string {
	switch {
	case !(v > 0):
		return "–"
	case of == "ns":
		return unit.FormatNs(int64(v + 0.5))
	}
	return unit.FormatCount(int64(v + 0.5))
}

// bottleneck is what most runs of one side were limited by; "" if there are none.
func bottleneck(c *plan.Checked, side string) string {
	counts, most := map[record.Bottleneck]int{}, record.Bottleneck("")
	if c.Plan == nil {
		return ""
	}
	for i := range c.Plan.Runs {
		if m := &c.Plan.Runs[i]; !m.Noise && !m.WarmupRun && m.Side == side {
			if counts[m.Bottleneck]++; counts[m.Bottleneck] > counts[most] {
				most = m.Bottleneck
			}
		}
	}
	return string(most)
}

// limits says what limited the two sides.
func limits(c *plan.Checked) string {
	a, b := bottleneck(c, "A"), bottleneck(c, "B")
	switch {
	case a == "" || b == "":
		return ""
	case a == b:
		return "bottleneck on both sides: " + a
	}
	return "bottleneck: " + a + " before, " + b + " with the change"
}

// summary is the first line: the result, and what decided it.
func (a *ciAnswer) summary() string {
	result := a.result()
	var why []string
	for i := range a.loads {
		for k := range a.loads[i].Checks {
			if c := &a.loads[i].Checks[k]; c.Result == result && result != plan.GatePassed {
				why = append(why, a.loads[i].Name+": "+c.Condition)
			}
		}
	}
	if len(why) == 0 {
		return result
	}
	return result + ": " + strings.Join(why, "; ")
}

// markdown escapes what Markdown or HTML would take as markup, or GitHub as a mention: names and paths are
// those of a change.
func markdown(s string) string {
	return strings.ReplaceAll(page.Escape(text.Line(s)), "@", "&#64;")
}
