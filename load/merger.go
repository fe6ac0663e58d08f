package load

import "time"

// Merger draws the tallies of several agents into the rows and the one result of
// their run, the way the coordinator of an engine does with its workers: a row
// is closed at a time that every agent has reached, counts and histograms are
// added, and nothing is ever a percentile of percentiles. It belongs to one
// goroutine.
type Merger struct{}

// NewMerger of a run with so many agents, numbered from 0, and targets. Its
// Observer is told of the rows (Interval) from within Take, Lost and End; of
// Connected and Window the owner of the agents tells it.
func NewMerger(agents, targets int, interval time.Duration, o Observer) *Merger { return &Merger{} }

// Spare is an empty tally to decode into and to give to Take.
func (m *Merger) Spare() *Tally { return nil }

// Take takes a tally of one agent, which is the Merger's from then on. Times are
// on the run's clock: 0 is where the window opens. It refuses, and drops, one
// that begins before the agent's last one has ended (a row that came twice), one
// of another number of targets, and any of an agent that has ended or is lost.
func (m *Merger) Take(agent int, t *Tally) error { return errSoon }

// Lost says that no more will come of an agent: rows go on without it, and what
// came of it counts.
func (m *Merger) Lost(agent int) {}

// End gives an agent's own account, after the last of its tallies. The Merger
// keeps r and does not change it.
func (m *Merger) End(agent int, r *Result) error { return errSoon }

// Agent is the account of one agent: what End gave, or what its tallies come to.
// It is nil of one that nothing came of.
func (m *Merger) Agent(agent int) *Result { return nil }

// Result is what all agents came to: sums; the longest window; every worker, with
// its agent's number.
func (m *Merger) Result() *Result { return nil }
