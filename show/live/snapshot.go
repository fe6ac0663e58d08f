package live

import (
	"time"

	"ceiling/experiment/spec"
	"ceiling/record"
)

// Snapshot is the state at one moment. It belongs to the caller.
type Snapshot struct {
	ID     string
	Target string // the first of Targets, without its secrets
	// Targets is the number of requests in the mix.
	Targets     int
	Spec        spec.Spec
	Phase       Phase
	Established int
	Asked       int
	Progress    Progress
	// Last is the last interval, nil if there is none; LastPerS is the rate over the last second.
	Last     *Point
	LastPerS float64
	SoFar    SoFar
	Formed   *Formed // immutable
	Ends     Hosts
	Links    []Link
	// Agents are the agents, by name, if there are several.
	Agents []Agent
	Plan   *Plan
	// Finished is the number of finished runs of the plan.
	Finished int
	// QuietS is how long the run has been silent, if known.
	QuietS float64
	// Interrupted, GaveUp and Unfinished belong to a finished run.
	Interrupted, Unfinished bool
	GaveUp                  string
	// Killed is set if the process exited without finishing the run.
	Killed bool
	Lost   []record.NotMeasured
}

// Progress of a run and of its plan.
type Progress struct {
	// Share of the run that is over, 0 to 1; -1 if unknown. LeftS is the time left; ElapsedS and
	// TotalS are of the window, seconds.
	Share, LeftS, ElapsedS, TotalS float64
	// PlanShare and PlanLeftS are the plan's; -1 without one.
	PlanShare, PlanLeftS float64
}

// SoFar is the window until now.
type SoFar struct {
	PerS float64
	// Completed and Failed requests; both include those with an unexpected status.
	Completed, Failed uint64
	Late, Intervals   int
	// HandshakesPerS is the rate of TLS handshakes, with the generator's CPU time for each; 0 if
	// none.
	HandshakesPerS float64
	HandshakeCPUNs int64
	// Response is exact; it is empty (Count 0) if only intervals are known.
	Response record.Quantiles
}

// Snapshot returns the current state.
func (b *Board) Snapshot() Snapshot {
	b.mu.Lock()
	defer b.mu.Unlock()
	s := Snapshot{
		ID: b.start.ID, Targets: len(b.start.Spec.Targets), Spec: b.start.Spec, Phase: b.phase,
		Established: b.connected, Asked: b.asked, Finished: len(b.done), QuietS: b.quietS, Killed: b.killed, Formed: b.formed,
		Lost: b.rows.lost[:len(b.rows.lost):len(b.rows.lost)],
	}
	if s.Targets > 0 {
		s.Target = b.start.Spec.Targets[0].URL
	}
	if b.plan != nil {
		p := *b.plan
		s.Plan = &p
	}
	if last, ok := b.track.lastPoint(); ok {
		s.Last, s.LastPerS = &last, b.rows.perS()
	}
	s.SoFar = b.soFar()
	s.Ends, s.Links = endsOf(&b.rows, b.homeHost()), linksOf(&b.rows, b.start.Spec.LinkBitsPerSecond)
	s.Agents = b.rows.agentsNow(b.start.Agents)
	if b.ended != nil {
		s.Interrupted, s.Unfinished, s.GaveUp = b.ended.Interrupted, b.ended.Unfinished, b.ended.StoppedEarly
	}
	s.Progress = b.progress()
	return s
}

// soFar adds up the window, or copies the run's own result.
func (b *Board) soFar() SoFar {
	s := SoFar{Completed: b.sums.completed, Failed: b.sums.failed, Late: b.sums.late, Intervals: b.sums.intervals}
	if b.sums.widthNs > 0 {
		s.PerS = float64(b.sums.completed) * 1e9 / float64(b.sums.widthNs)
		s.HandshakesPerS = float64(b.sums.handshakes) * 1e9 / float64(b.sums.widthNs)
		s.HandshakeCPUNs = b.sums.handshakeNs / int64(max(b.sums.handshakes, 1))
	}
	switch {
	case b.ended != nil && !b.ended.Unfinished:
		s.PerS, s.Completed, s.Response = b.ended.Rate.CompletedPerS, b.ended.Requests.Completed, b.ended.Latency.Response
	case b.response != nil:
		s.Response = record.QuantilesOf(b.response)
	}
	return s
}

// homeHost returns the name of the generator's host.
func (b *Board) homeHost() string {
	if n := len(b.rows.load); n > 0 {
		return b.rows.load[n-1].Host
	}
	return ""
}

// progress uses the run's own clock, so it stops when the rows stop.
func (b *Board) progress() Progress {
	s := &b.start.Spec
	p := Progress{Share: -1, LeftS: -1, PlanShare: -1, PlanLeftS: -1, TotalS: s.Duration.Seconds()}
	whole := (s.Warmup + s.Duration).Seconds()
	gone := 0.0
	if b.track.any() {
		p.ElapsedS = max(float64(b.track.last())/1e9, 0)
		gone = float64(b.track.last())/1e9 + s.Warmup.Seconds()
	}
	switch {
	case b.phase == Ended && !b.killed:
		p.Share, p.LeftS, gone = 1, 0, whole
	case s.Requests > 0:
		p.Share = min(float64(b.sums.completed+b.sums.failed)/float64(s.Requests), 1)
		if p.Share > 0 && p.ElapsedS > 0 {
			p.LeftS = p.ElapsedS * (1 - p.Share) / p.Share
		}
	case whole > 0:
		p.Share = min(max(gone/whole, 0), 1)
		p.LeftS = max(whole-gone, 0)
	}
	if b.plan != nil {
		b.planProgress(&p, gone)
	}
	return p
}

func (b *Board) planProgress(p *Progress, goneS float64) {
	if b.plan.Answer != "" {
		p.PlanShare, p.PlanLeftS = 1, 0
		return
	}
	p.PlanLeftS = max(b.plan.LeftS-max(goneS, 0), 0)
	if all := b.plan.Number - 1 + b.plan.LeftRuns; all > 0 {
		p.PlanShare = min((float64(b.plan.Number-1)+max(p.Share, 0))/float64(all), 1)
	}
}

// perS returns the rate over the last second of rows, or over the last row if that is wider.
func (r *rows) perS() float64 {
	completed, width := 0.0, 0.0
	for i := len(r.load) - 1; i >= 0 && width < secondNs; i-- {
		completed += float64(r.load[i].Completed)
		width += float64(r.load[i].WidthNs)
	}
	if width <= 0 {
		return 0
	}
	return completed * 1e9 / width
}

const secondNs = float64(time.Second)

// lastPoint returns the last interval or, in a long run, the last few.
func (t *track) lastPoint() (Point, bool) {
	if t.open.Intervals > 0 {
		return t.open, true
	}
	if n := len(t.points); n > 0 {
		return t.points[n-1], true
	}
	return Point{}, false
}
