package verdict

import (
	"ceiling/internal/exit"
	"ceiling/record"
)

// ExitOf returns the exit code for a run.
func ExitOf(r *record.Run) int {
	switch {
	case r.Interrupted:
		return exit.Interrupted
	case r.Verdict.Outcome == record.Fail:
		return exit.Fail
	case r.Verdict.Outcome.Sound():
		return exit.Pass
	}
	return exit.Invalid
}
