package plan

import (
	"ceiling/experiment/spec"
	"ceiling/internal/stat"
	"ceiling/record"
)

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
