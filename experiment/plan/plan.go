// Package plan decides which run comes next, and derives the answer of all runs. A sweep, a
// proof, a comparison and a factorial experiment are listed in advance; a search chooses by
// previous results. Both are pure functions of the experiment and the runs so far, so that an
// interrupted plan can resume from its record.
package plan

import (
	"slices"

	"ceiling/experiment/spec"
	"ceiling/internal/stat"
	"ceiling/record"
)

// method is how one kind of experiment is carried out: its runs, if they are known in advance, and
// its answer.
type method struct {
	steps    func(*spec.Experiment) []record.Step
	conclude func(*record.Plan)
}

func methodOf(e *spec.Experiment) method {
	return map[string]method{
		spec.KindSweep:     {spellSweep, concludeSweep},
		spec.KindFind:      {nil, concludeSearch},
		spec.KindProve:     {enumerateProof, concludeProof},
		spec.KindCompare:   {spellComparison, concludeComparison},
		spec.KindFactorial: {spellFactorial, concludeFactorial},
	}[e.Kind]
}

// Next decides from the experiment and the runs so far. The experiment must have been through
// Complete.
func Next(e *spec.Experiment, done []record.Measured) Decision {
	if e.Searches() {
		return nextRate(e, done)
	}
	steps := Enumerate(e)
	if len(done) >= len(steps) {
		return Decision{Ended: record.EndedComplete, Because: say("plan.complete", with{"runs": len(steps)})}
	}
	return Decision{Next: &steps[len(done)], Left: len(steps) - len(done)}
}

// Enumerate lists every run of a plan that is known in advance; nil for a search.
func Enumerate(e *spec.Experiment) []record.Step {
	list := methodOf(e).steps
	if list == nil {
		return nil
	}
	steps := list(e)
	for i := range steps {
		steps[i].Number = i + 1
	}
	return steps
}

// Conclude derives the plan's answer from its runs, and sets the exit code. It may be called
// before the plan has ended.
func Conclude(p *record.Plan) {
	methodOf(&p.Experiment).conclude(p)
	for _, caveat := range []record.Statement{cutShort(p), disturbed(p.Runs)} {
		if caveat.IsZero() {
			continue
		}
		for _, caveats := range p.Answer().CaveatLists() {
			*caveats = append(*caveats, caveat)
		}
	}
}

// cutShort is the caveat that a plan of so many runs did not come to its end; a search says so itself.
func cutShort(p *record.Plan) record.Statement {
	if p.Ended == record.EndedFailed || p.Ended == record.EndedInterrupted {
		if of := len(Enumerate(&p.Experiment)); of > 0 {
			return say("plan.cut-short", with{"runs": len(p.Runs), "of": of})
		}
	}
	return record.Statement{}
}

// disturbedCores is the CPU use of other programs that becomes a caveat; an idle desktop uses a
// tenth of a core.
const disturbedCores = 0.25

// disturbed is the caveat that other programs were active during the runs.
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

// TooFewBlocks says that a plan of so few blocks has no answer, whatever they show; empty if it has enough.
func TooFewBlocks(e *spec.Experiment) record.Statement {
	switch e.Kind {
	case spec.KindCompare:
		return tooFewBlocks(e)
	case spec.KindFactorial:
		return fewComplete(FactorialBlocks(e), factorialComparisons(e))
	case spec.KindProve:
		n := 2 // rates: of generator and server, and of a link
		if e.Prove.Interface != "" {
			n++
		}
		if least := stat.LeastBlocks(confidence, n); ProofBlocks(e) < least {
			return say("proof.blocks", with{"blocks": ProofBlocks(e), "needed": least})
		}
	}
	return record.Statement{}
}
