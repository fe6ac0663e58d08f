package plan

import "ceiling/record"

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
