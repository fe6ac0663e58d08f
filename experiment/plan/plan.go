// Package plan decides which run comes next. A sweep, a proof, a comparison and a
// factorial experiment are spelled out beforehand; a search chooses by what has been
// measured. Both are pure functions of the experiment and of the runs made so far, so
// that a plan that was broken off goes on from its record. What the runs say together
// is concluded here too.
package plan

import (
	"slices"

	"ceiling/experiment/spec"
	"ceiling/internal/stat"
	"ceiling/record"
)

// with is what a statement speaks of, by name; the name has the figure's unit.
type with = record.Values

// say makes one statement. The sentences are package prose's.
func say(code string, values with) record.Statement { return record.State(code, values) }

// warned are the warnings of a figure.
func warned(list []stat.Warning) []record.Statement {
	var out []record.Statement
	for _, w := range list {
		out = append(out, record.State(w.Code, w.With))
	}
	return out
}

// Decision is what comes next in a plan.
type Decision struct {
	// Next is the run to make; nil at the end.
	Next *record.Step
	// Ended and Because say how and why the plan ended, where Next is nil.
	Ended   string
	Because record.Statement
	// Left is how many runs are still to come, Next among them; of a search it
	// is a guess.
	Left int
}

// Next decides by what was asked and what was measured so far. The experiment
// is one that Complete has been over.
func Next(e *spec.Experiment, done []record.Measured) Decision {
	if e.Kind == spec.KindFind {
		return nextRate(e, done)
	}
	steps := Spell(e)
	if len(done) >= len(steps) {
		return Decision{Ended: record.EndedComplete, Because: say("plan.complete", with{"runs": len(steps)})}
	}
	return Decision{Next: &steps[len(done)], Left: len(steps) - len(done)}
}

// Spell is every run of a plan that is known beforehand; nil for a search.
func Spell(e *spec.Experiment) []record.Step {
	var steps []record.Step
	switch e.Kind {
	case spec.KindSweep:
		steps = spellSweep(e)
	case spec.KindProve:
		steps = spellProof(e)
	case spec.KindCompare:
		steps = spellComparison(e)
	case spec.KindFactorial:
		steps = spellFactorial(e)
	}
	for i := range steps {
		steps[i].Number = i + 1
	}
	return steps
}

// Conclude answers the plan's question from the runs it has, and sets the exit
// code. It may be called before the plan has ended.
func Conclude(p *record.Plan) {
	switch p.Experiment.Kind {
	case spec.KindSweep:
		concludeSweep(p)
	case spec.KindFind:
		concludeSearch(p)
	case spec.KindProve:
		concludeProof(p)
	case spec.KindCompare:
		concludeComparison(p)
	case spec.KindFactorial:
		concludeFactorial(p)
	}
	if caveat := disturbed(p.Runs); !caveat.IsZero() {
		for _, caveats := range caveatLists(p) {
			*caveats = append(*caveats, caveat)
		}
		if p.Factorial != nil {
			p.Factorial.Caveats = append(p.Factorial.Caveats, record.State("said", record.Values{"text": caveat}))
		}
	}
}

// disturbedCores is how much of the host other programs may use before a plan
// caveats itself: a tenth of a core is an idle desktop.
const disturbedCores = 0.25

// disturbed says that other programs were at work during the runs.
func disturbed(runs []record.Measured) record.Statement {
	var others []float64
	for i := range runs {
		if runs[i].Run != "" {
			others = append(others, runs[i].OtherCores)
		}
	}
	slices.Sort(others)
	if len(others) == 0 || others[len(others)/2] < disturbedCores {
		return record.Statement{}
	}
	return say("plan.disturbed", with{"cores": others[len(others)/2], "most_cores": others[len(others)-1]})
}

// caveatLists are the lists of caveats in a plan's answer.
func caveatLists(p *record.Plan) []*[]record.Statement {
	var all []*[]record.Statement
	switch {
	case p.Search != nil:
		all = append(all, &p.Search.Caveats)
	case p.Proof != nil:
		all = append(all, &p.Proof.Caveats)
	case p.Comparison != nil:
		all = append(all, &p.Comparison.Caveats)
	case p.Sweep != nil:
		for i := range p.Sweep.Curves {
			all = append(all, &p.Sweep.Curves[i].Caveats)
		}
	}
	return all
}
