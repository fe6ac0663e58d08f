package plan

import (
	"ceiling/experiment/spec"
	"ceiling/internal/stat"
	"ceiling/record"
)

// Decision is the next step of a plan.
type Decision struct {
	// Next is the next run; nil at the end.
	Next *record.Step
	// MayStopEarly: it may end as soon as it can no longer meet its SLO.
	MayStopEarly bool
	// Ended and Because are how and why the plan ended, if Next is nil.
	Ended   string
	Because record.Statement
	// Left is the number of remaining runs, including Next; for a search, an estimate.
	Left int
}

// with are the values of a statement, by name; the name includes the unit.
type with = record.Values

// say makes one statement. Package prose has the sentences.
func say(code string, values with) record.Statement { return record.State(code, values) }

// warned converts the warnings of a figure.
func warned(list []stat.Warning) []record.Statement {
	var out []record.Statement
	for _, w := range list {
		out = append(out, record.State(w.Code, w.With))
	}
	return out
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
