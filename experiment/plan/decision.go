package plan

import (
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
