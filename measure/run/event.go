package run

import (
	"slices"

	"ceiling/record"
)

// Event is what a run tells while it goes on: one of these, the others are nil.
type Event struct {
	// Began comes once the record stands; on this machine that is before the
	// connections are opened.
	Began *record.Start
	// Progress is where the run stands, after every interval. It is valid during the
	// call only.
	Progress *Progress
	// Observed is a row of what a host did. Nobody may change it, and what the call
	// takes counts as the observer's cost.
	Observed record.ObservedRow
	// Agent is an interval of one of several agents.
	Agent *record.LoadRow
}

// Listen has every event of the run told to one more listener, which must return
// soon. Began and Progress come from one goroutine, Observed and Agent from others,
// one at a time.
func (o *Options) Listen(to func(Event)) { o.listeners = append(slices.Clip(o.listeners), to) }

func (o *Options) tell(e Event) {
	for _, listener := range o.listeners {
		listener(e)
	}
}
