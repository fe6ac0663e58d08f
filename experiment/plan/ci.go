package plan

import (
	"slices"
	"strings"

	"ceiling/experiment/spec"
	"ceiling/record"
)

// Checked is one load of a pipeline, and what came of it.
type Checked struct {
	Name string `json:"name"`
	// Plan is the comparison, or the change's runs where there was no base; nil: neither was made.
	Plan *record.Plan `json:"plan"`
	// Checks are the conditions of the gate, then the terms of the SLO.
	Checks []Check `json:"checks"`
	// Result is the worst of them: GatePassed, GateFailed or GateInconclusive.
	Result string `json:"result"`
}

// Check is one condition: of the change against the base, or an SLO of the change alone.
type Check struct {
	Condition string `json:"condition"`
	Result    string `json:"result"` // as of Checked
	// Says is the measurement behind it, or why there is none.
	Says record.Statement `json:"says"`
}

// CheckLoad holds what was measured of a load against its conditions. noBase is why there was no base to
// compare with; empty otherwise.
func CheckLoad(name string, p *record.Plan, change, noBase string) Checked {
	c := Checked{Name: name, Plan: p, Result: GatePassed}
	failed := p.Ended == record.EndedFailed
	switch {
	case noBase != "":
		c.add(Check{"base", GateInconclusive, say("ci.no-base", with{"why": noBase})})
	case failed && diedUnderLoad(p, change):
		c.add(Check{"runs to its end", GateFailed, p.Because})
	case failed || p.Ended == record.EndedInterrupted || p.Ended == record.EndedEarly:
		c.add(Check{"runs to its end", GateInconclusive, p.Because})
	}
	if p.Comparison != nil && !failed {
		for _, g := range p.Comparison.Gate {
			c.add(Check{g.Condition, g.Result, g.Says})
		}
		if len(p.Comparison.Gate) == 0 && len(p.Comparison.Incomparable) > 0 {
			c.add(Check{"comparable", GateInconclusive, p.Comparison.Says})
		}
	}
	for _, term := range p.Experiment.SLO {
		c.add(heldBy(term, ofChange(p)))
	}
	return c
}

func (c *Checked) add(k Check) {
	c.Checks = append(c.Checks, k)
	c.Result = Worst(c.Result, k.Result)
}

// Worst is the worse of two results.
func Worst(a, b string) string {
	order := []string{GatePassed, GateInconclusive, GateFailed}
	return order[max(slices.Index(order, a), slices.Index(order, b))]
}

// ExitOf is the exit code of a result.
func ExitOf(result string) int {
	switch result {
	case GateFailed:
		return exitFail
	case GateInconclusive:
		return exitInvalid
	}
	return 0
}

// diedUnderLoad reports whether the plan failed because the change's server ended.
func diedUnderLoad(p *record.Plan, change string) bool {
	text, _ := p.Because.With["error"].(string)
	return strings.Contains(text, change+": it ended")
}

// ofChange returns the counted runs of the change: side B, or all where there is one side.
func ofChange(p *record.Plan) (runs []*record.Measured) {
	for i := range p.Runs {
		if m := &p.Runs[i]; m.Run != "" && !m.WarmupRun && !m.Noise && m.Side != "A" {
			runs = append(runs, m)
		}
	}
	return runs
}

// heldShare of the runs must meet a term for it to be held; a machine with other work on it misses a
// quantile now and then. It is missed where most runs miss it.
const heldShare = 0.75

// heldBy judges a term of the SLO over the change's runs.
func heldBy(term spec.Term, runs []*record.Measured) Check {
	out := Check{Condition: term.String(), Result: GateInconclusive}
	var values []float64
	met := 0
	for _, m := range runs {
		at := slices.IndexFunc(m.SLO, func(t record.SLOTerm) bool { return t.Term == out.Condition })
		if at < 0 || m.Outcome == record.Invalid {
			continue
		}
		values = append(values, m.SLO[at].Value)
		if m.SLO[at].Met {
			met++
		}
	}
	if len(values) == 0 {
		out.Says = say("ci.slo-not-measured", with{"runs": len(runs)})
		return out
	}
	slices.Sort(values)
	share := float64(met) / float64(len(values))
	switch {
	case share >= heldShare:
		out.Result = GatePassed
	case share < 0.5:
		out.Result = GateFailed
	}
	out.Says = say("ci.slo", with{"metric": string(term.Metric), "met": met, "runs": len(values), "median": values[len(values)/2]})
	return out
}

// Unchecked is a load that nothing was sent for, since the change does not build, or does not start.
func Unchecked(name, condition, why string) Checked {
	c := Checked{Name: name, Result: GatePassed}
	c.add(Check{condition, GateFailed, say("ci.unchecked", with{"why": why})})
	return c
}
