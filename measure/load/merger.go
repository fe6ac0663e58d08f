package load

import (
	"errors"
	"fmt"
	"slices"
	"strings"
	"time"

	"ceiling/internal/hist"
)

// Merger merges the tallies of several agents into the rows and the one result of their run, as the
// coordinator of an engine does with its workers: it closes a row at a time that every agent has
// reached, adds counts and histograms, and never takes a percentile of percentiles. It belongs to
// one goroutine.
//
// While one agent is silent the others' tallies wait, 32 of each (3.2 s at 100 ms, 7.5 MB per agent
// with one target); beyond that it merges the oldest, and their row gets wider.
type Merger struct {
	intervalNs int64
	targets    int
	observer   Observer
	rows       *rowMerger
	agents     []account
	spare      []*Tally
}

// account is the state of one agent.
type account struct {
	own  *Result // the agent's own, once it has ended
	sum  *Result // of its tallies until then; nil before the first
	at   int64   // end of its last tally
	lost bool
}

// mergerKeeps is how many tallies of each agent may wait: agents deliver ten at a time, once a
// second, and one may be two deliveries ahead of another.
const mergerKeeps = 32

// NewMerger returns the Merger of a run with so many agents, numbered from 0, and targets. Take,
// Lost and End call the Observer's Interval for each row; the owner of the agents calls Connected
// and Window.
func NewMerger(agents, targets int, interval time.Duration, o Observer) *Merger {
	m := &Merger{
		intervalNs: int64(interval), targets: targets, observer: o,
		rows: newRowMerger(agents, mergerKeeps, targets), agents: make([]account, agents),
	}
	m.rows.taken = func(int, *Tally) {}
	m.rows.closed = func(row *Tally) { o.Interval(row, isLate(row, m.intervalNs)) }
	m.rows.free = func(_ int, t *Tally) {
		if len(m.spare) < 10*agents { // a second's worth of all
			m.spare = append(m.spare, t)
		}
	}
	return m
}

// Spare returns an empty tally to decode into and pass to Take. An unused one need not be returned.
func (m *Merger) Spare() *Tally {
	last := len(m.spare) - 1
	if last < 0 {
		return newTally(m.targets)
	}
	t := m.spare[last]
	m.spare = m.spare[:last]
	t.clear()
	return t
}

// Take takes ownership of one agent's tally. Times are on the run's clock: 0 is the opening of the
// window. It refuses and drops one that begins before the end of the agent's last one (a row that
// came twice), one with another number of targets, and any of an agent that has ended or is lost.
func (m *Merger) Take(agent int, t *Tally) error {
	a := &m.agents[agent]
	switch {
	case m.rows.ended[agent]:
		return a.over()
	case len(t.ByTarget) != len(m.rows.row.ByTarget):
		return fmt.Errorf("a row of %d targets, the run has %d", max(len(t.ByTarget), 1), m.targets)
	case t.EndNs < t.StartNs || a.sum != nil && t.StartNs < a.at:
		return fmt.Errorf("a row from %d to %d ns does not follow one to %d ns", t.StartNs, t.EndNs, a.at)
	case t.Warmup && t.EndNs > 0 || !t.Warmup && t.StartNs < 0:
		return fmt.Errorf("a row from %d to %d ns is on both sides of the window's opening, or on the wrong one", t.StartNs, t.EndNs)
	}
	if a.sum == nil {
		a.sum = NewResult(m.targets)
		a.sum.Established, a.sum.StartLateNs = t.Connected, -1
	}
	a.sum.include(t)
	if t.Warmup {
		a.sum.Carried = t.InFlight // in flight when the window opens, from the last
	} else {
		a.sum.Total.InFlight, a.sum.WindowNs = t.InFlight, t.EndNs
	}
	a.at = t.EndNs
	m.rows.add(agent, t)
	return nil
}

func (a *account) over() error {
	if a.lost {
		return errors.New("the agent is lost: nothing more of it counts")
	}
	return errors.New("the agent has ended")
}

// Lost marks that an agent delivers nothing more: rows continue without it, and what it delivered
// counts. It has no effect on an agent that has ended.
func (m *Merger) Lost(agent int) {
	if !m.rows.ended[agent] {
		m.agents[agent].lost = true
		m.rows.end(agent, nil)
	}
}

// End sets an agent's own result, after the last of its tallies. The Merger keeps r and does not
// change it.
func (m *Merger) End(agent int, r *Result) error {
	a := &m.agents[agent]
	if m.rows.ended[agent] {
		return a.over()
	}
	if len(r.Total.ByTarget) != len(m.rows.row.ByTarget) {
		return fmt.Errorf("an account of %d targets, the run has %d", max(len(r.Total.ByTarget), 1), m.targets)
	}
	a.own, a.sum = r, nil
	m.rows.end(agent, nil)
	return nil
}

// Agent returns the result of one agent: what End got or, until then and for a lost agent, the sum
// of its tallies, which lacks what only the agent knows: the requests asked, its CPU, its workers.
// It is nil if the agent delivered nothing.
func (m *Merger) Agent(agent int) *Result {
	if a := &m.agents[agent]; a.own != nil {
		return a.own
	}
	return m.agents[agent].sum
}

// Result returns the result of all agents: sums, the longest window, and every worker with its
// agent's number. Started is the earliest of the agents' wall clocks.
func (m *Merger) Result() *Result {
	all := NewResult(m.targets)
	all.StartLateNs, all.Edges = -1, &Edges{}
	first := true
	for i := range m.agents {
		r := m.Agent(i)
		if r == nil {
			continue
		}
		all.join(r)
		for _, w := range r.Workers {
			w.Agent = i
			all.Workers = append(all.Workers, w)
		}
		if r.Engine == "" {
			continue
		}
		if first {
			first, all.Engine, all.EngineWhy, all.EngineFeatures = false, r.Engine, r.EngineWhy, slices.Clone(r.EngineFeatures)
			continue
		}
		if !slices.Contains(strings.Split(all.Engine, ", "), r.Engine) {
			all.Engine += ", " + r.Engine
			all.EngineWhy += "; " + r.EngineWhy
		}
		all.EngineFeatures = slices.DeleteFunc(all.EngineFeatures, func(f string) bool { return !slices.Contains(r.EngineFeatures, f) })
	}
	return all
}

// join adds one agent's result.
func (r *Result) join(o *Result) {
	t := &o.Total
	r.Total.count(t)
	r.Total.InFlight += t.InFlight
	r.Total.CPUNs, r.Total.Busy = max(r.Total.CPUNs, t.CPUNs), max(r.Total.Busy, t.Busy)
	for f, n := range o.Setup {
		r.Setup[f] += n
	}
	if !o.Started.IsZero() && (r.Started.IsZero() || o.Started.Before(r.Started)) {
		r.Started = o.Started
	}
	r.WindowNs, r.StartLateNs = max(r.WindowNs, o.WindowNs), max(r.StartLateNs, o.StartLateNs)
	r.Carried += o.Carried
	r.AtEdges.join(&o.AtEdges)
	if o.Unloaded != nil {
		r.Unloaded = o.Unloaded // of the one agent that sent them
	}
	r.First = join(r.First, o.First, (*hist.Hist).Merge)
	r.Handshakes = join(r.Handshakes, o.Handshakes, (*Handshakes).add)
	r.H2 = join(r.H2, o.H2, (*H2Report).add)
	r.Streams = join(r.Streams, o.Streams, (*Streams).add)
	r.Asked += o.Asked
	r.Unsent += o.Unsent
	r.LateAtEnd += o.LateAtEnd
	r.Opened += o.Opened
	r.Established += o.Established
	r.UserNs += o.UserNs
	r.SystemNs += o.SystemNs
	r.AllocatedBytes += o.AllocatedBytes
	r.Interrupted = r.Interrupted || o.Interrupted
	r.FirstResponses.join(&o.FirstResponses)
}

// join returns the sum of both, changing neither, or the one that is not nil.
func join[T any](all, one *T, add func(sum, one *T)) *T {
	switch {
	case one == nil:
		return all
	case all == nil:
		return one
	}
	sum := *all
	add(&sum, one)
	return &sum
}
