// Package pipeline presents what a pipeline measured of a change: as text for its log, and as Markdown
// for its summary.
package pipeline

import (
	"fmt"
	"strings"

	"ceiling/experiment/plan"
	"ceiling/internal/unit"
	"ceiling/record"
	"ceiling/verdict/prose"
)

// Outcome is the result of all loads.
type Outcome struct {
	// Base and Change say what was compared: "1a2b3c4 (merge-base with origin/main)".
	Base   string `json:"base"`
	Change string `json:"change"`
	// Machine in a few words.
	Machine string         `json:"machine"`
	Loads   []plan.Checked `json:"loads"`
}

// Result is the worst of the loads'.
func (o *Outcome) Result() string {
	worst := plan.GatePassed
	for i := range o.Loads {
		worst = plan.Worst(worst, o.Loads[i].Result)
	}
	return worst
}

// says is what came of a condition, with the measurement behind it.
func says(c *plan.Check) string {
	text := fmt.Sprintf("%s %s", c.Condition, c.Result)
	if why := prose.Text(c.Says); why != "" {
		text += ": " + why
	}
	return text
}

// metric is one row or cell: a figure on both sides, and its change.
type metric struct{ name, a, b, change, interval, noise, decision string }

// metrics are those of a comparison.
func metrics(c *plan.Checked) (list []metric) {
	if c.Plan == nil || c.Plan.Comparison == nil {
		return nil
	}
	for i := range c.Plan.Comparison.Changes {
		ch := &c.Plan.Comparison.Changes[i]
		m := metric{name: nameOf(ch.Metric), a: amount(ch.A, ch.Unit), b: amount(ch.B, ch.Unit), change: "not measured", decision: ch.Decision}
		if ch.Measured() {
			m.change = unit.Change(ch.Relative.Mid)
			m.interval = unit.Change(ch.Relative.Low) + " to " + unit.Change(ch.Relative.High)
			m.noise = "±" + unit.Percent(ch.Floor)
		}
		list = append(list, m)
	}
	return list
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

// caveats of a comparison, in words.
func caveats(c *plan.Checked) (list []string) {
	if c.Plan == nil || c.Plan.Comparison == nil {
		return nil
	}
	for _, s := range c.Plan.Comparison.Caveats {
		list = append(list, prose.Text(s))
	}
	return list
}

// summary is the last line: the result, and what decided it.
func (o *Outcome) summary() string {
	result := o.Result()
	var why []string
	for i := range o.Loads {
		for k := range o.Loads[i].Checks {
			if c := &o.Loads[i].Checks[k]; c.Result == result && result != plan.GatePassed {
				why = append(why, o.Loads[i].Name+": "+c.Condition)
			}
		}
	}
	if len(why) == 0 {
		return result
	}
	return result + ": " + strings.Join(why, "; ")
}
