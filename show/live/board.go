// Package live is the model of a run's live view. A Board receives a run's events and rows, or
// the rows of a record as it grows, and returns snapshots that the terminal and the web page
// render. It has no clock of its own: the same rows give the same snapshots. Its memory is
// bounded, however long a run takes.
package live

import (
	"cmp"
	"slices"
	"sync"
	"sync/atomic"

	"ceiling/internal/hist"
	"ceiling/internal/secret"
	"ceiling/record"
	"ceiling/verdict/prose"
)

// Board is the current state of a run, or of the runs of a plan. It is safe for concurrent use;
// an update takes microseconds and never waits for a viewer.
type Board struct {
	lookers atomic.Int32
	costNs  atomic.Int64

	mu sync.Mutex

	start     record.Start
	phase     Phase
	connected int
	asked     int
	rows      rows
	track     track
	sums      sums
	over      stretches
	response  *hist.Hist // of the window; nil when following a record
	formed    *Formed
	ended     *record.Run
	killed    bool
	quietS    float64

	plan *Plan
	done []FinishedRun
}

// Phase is the phase of a run.
type Phase int

// Phases, in order.
const (
	Waiting    Phase = iota // for a run to start
	Connecting              // its connections are being opened
	WarmingUp
	Running
	Between // two runs of a plan
	Ended
)

// sums are over the window.
type sums struct {
	handshakes              uint64 // TLS handshakes
	handshakeNs             int64  // CPU time of the handshakes
	completed, failed, sent uint64
	widthNs                 int64
	late, intervals         int
	maxNs                   int64
	batchNs                 float64 // of all intervals
}

// Plan is the progress of a plan.
type Plan struct {
	// Kind is for example "sweep"; Number is the current run, out of All (0: unknown, as in a
	// search, where LeftRuns is an estimate).
	Kind          string
	Number        int
	All, LeftRuns int
	// LeftS is the estimated time left when this run started, in seconds.
	LeftS float64
	// Doing describes this run.
	Doing string
	// Answer is the plan's result in words, and Record its document, once it has ended.
	Answer string
	Record *record.Plan
}

// FinishedRun is a finished run of a plan.
type FinishedRun struct {
	record.Measured
	Doing string
}

// NewBoard returns an empty Board.
func NewBoard() *Board { return &Board{} }

// Began starts a run and discards the state of the previous one. Viewers see no secrets, even if
// the run's record has them.
func (b *Board) Began(s record.Start) {
	s = s.Concealed(secret.Plain())
	b.mu.Lock()
	defer b.mu.Unlock()
	b.start, b.phase = s, Connecting
	b.connected, b.asked = 0, s.Spec.Connections
	b.rows, b.sums, b.formed, b.ended, b.quietS = rows{}, sums{}, nil, nil, 0
	b.over = stretches{version: b.over.version + 1}
	b.response = nil
	b.track.reset()
}

// Connected sets how many connections are established.
func (b *Board) Connected(established, asked int) {
	b.mu.Lock()
	defer b.mu.Unlock()
	b.connected, b.asked = established, asked
}

// Interval adds an interval of the generator. response holds its response times and is read only
// during the call; nil if unknown. batchMeanNs is the mean time to process a batch of responses,
// 0 if unknown.
func (b *Board) Interval(row record.LoadRow, response *hist.Hist, batchMeanNs float64) {
	b.mu.Lock()
	defer b.mu.Unlock()
	if row.WidthNs <= 0 {
		return
	}
	b.quietS = 0
	b.connected = row.Connected
	b.rows.addLoad(&row)
	b.track.add(pointOf(&row))
	if row.Warmup {
		b.phase = max(b.phase, WarmingUp)
		return
	}
	b.phase = max(b.phase, Running)
	if response != nil {
		if b.response == nil {
			b.response = new(hist.Hist)
		}
		b.response.Merge(response)
	}
	b.sums.add(&row, batchMeanNs)
}

func (s *sums) add(row *record.LoadRow, batchMeanNs float64) {
	s.completed += row.Completed
	s.failed += row.Failed + row.Bad
	s.sent += row.Sent
	s.handshakes += row.Handshakes
	s.handshakeNs += row.HandshakeCPUNs
	s.widthNs += row.WidthNs
	s.maxNs = max(s.maxNs, row.MaxNs)
	s.intervals++
	if row.Late {
		s.late++
	}
	s.batchNs += batchMeanNs
}

// Agent adds an interval of one of several agents, named by the row's Host. The run's total
// arrives separately, through Interval.
func (b *Board) Agent(row record.LoadRow) {
	b.mu.Lock()
	defer b.mu.Unlock()
	if row.WidthNs > 0 {
		b.rows.addAgent(&row)
	}
}

// Observed adds an observed row, which must not change afterwards.
func (b *Board) Observed(row record.ObservedRow) {
	b.mu.Lock()
	defer b.mu.Unlock()
	b.rows.addObserved(row)
}

// Rows adds a part of a record, in time order.
func (b *Board) Rows(s *record.Series) {
	for _, row := range s.Agents {
		b.Agent(row)
	}
	observed := s.Observed.All()
	for _, row := range s.Load {
		for len(observed) > 0 && observed[0].Observed().TNs <= row.TNs {
			b.Observed(observed[0])
			observed = observed[1:]
		}
		b.Interval(row, nil, 0)
	}
	for _, row := range observed {
		b.Observed(row)
	}
	for _, n := range s.NotMeasured {
		b.Lost(n)
	}
}

// Lost adds a source that is not measured.
func (b *Board) Lost(n record.NotMeasured) {
	b.mu.Lock()
	defer b.mu.Unlock()
	if len(b.rows.lost) < rowsMost {
		b.rows.lost = append(b.rows.lost, n)
	}
}

// Quiet sets how many seconds an unfinished run has been silent.
func (b *Board) Quiet(seconds float64) {
	b.mu.Lock()
	defer b.mu.Unlock()
	b.quietS = seconds
}

// Step sets the progress of a plan whose next run starts or is about to.
func (b *Board) Step(p Plan) {
	p.Doing = secret.Plain().Shell(p.Doing)
	b.mu.Lock()
	defer b.mu.Unlock()
	if b.plan == nil || *b.plan != p {
		b.plan = &p
	}
}

// Measured adds a finished run of a plan.
func (b *Board) Measured(d FinishedRun) {
	d.Doing = secret.Plain().Shell(d.Doing)
	b.mu.Lock()
	defer b.mu.Unlock()
	d.Histogram = nil // 70 KiB that the view does not use
	b.phase = Between
	b.done = append(b.done, d)
}

// RunEnded ends a run, with its verdict.
func (b *Board) RunEnded(r *record.Run) {
	if e, ok := b.evidence(); ok {
		b.stretch(e, cmp.Or(r.Verdict.StationsBy, record.BySocketSamples), true) // older records had only these
	}
	b.mu.Lock()
	defer b.mu.Unlock()
	b.track.finish()
	b.ended, b.phase = r, Ended
	b.formed = &Formed{Run: *r, Final: !r.Unfinished, Quantiles: true}
}

// PlanEnded ends a plan.
func (b *Board) PlanEnded(p *record.Plan) {
	b.mu.Lock()
	defer b.mu.Unlock()
	b.track.finish()
	b.phase = Ended
	next := Plan{Kind: p.Experiment.Kind, Number: len(p.Runs), All: len(p.Runs), Record: p,
		Answer: secret.Plain().Text(prose.Text(p.Says()))}
	if next.Answer == "" {
		next.Answer = p.Ended
	}
	b.plan = &next
}

// Killed marks the run or plan as killed: its process exited without finishing it.
func (b *Board) Killed() {
	var f Formed
	if e, ok := b.evidence(); ok {
		f, _ = e.form() // a run under 1 s has no path
		b.stretch(e, f.Verdict.StationsBy, true)
	}
	b.mu.Lock()
	defer b.mu.Unlock()
	b.track.finish()
	if b.phase < Between {
		f.lost(b.start.Spec, max(float64(b.track.last())/1e9, 0))
		b.formed = &f
	}
	b.killed, b.phase = true, Ended
}

// Look registers a viewer until release is called: verdicts are formed only while there are
// viewers.
func (b *Board) Look() (release func()) {
	b.lookers.Add(1)
	return sync.OnceFunc(func() { b.lookers.Add(-1) })
}

// Lookers returns the number of viewers.
func (b *Board) Lookers() int { return int(b.lookers.Load()) }

// Spent adds CPU time used by the view in this process.
func (b *Board) Spent(ns int64) { b.costNs.Add(ns) }

// CostNs returns the view's CPU time, in nanoseconds.
func (b *Board) CostNs() int64 { return b.costNs.Load() }

// Form judges the run in progress and stores the verdict for snapshots, without blocking updates.
// It returns false if there is nothing to judge.
func (b *Board) Form() bool {
	e, ok := b.evidence()
	if !ok {
		return false
	}
	f, ok := e.form()
	if !ok {
		return false
	}
	b.stretch(e, f.Verdict.StationsBy, false)
	b.mu.Lock()
	defer b.mu.Unlock()
	if b.start.ID != e.start.ID || b.phase == Ended {
		return false // the run has ended in the meantime
	}
	b.formed = &f
	return true
}

// evidence returns a copy of the data that the verdict is formed from.
func (b *Board) evidence() (*evidence, bool) {
	b.mu.Lock()
	defer b.mu.Unlock()
	if b.phase != Running {
		return nil, false
	}
	e := &evidence{start: b.start, rows: b.rows}
	r := &e.rows
	r.load, r.agents = slices.Clip(r.load), slices.Clip(r.agents)
	r.firstLoad, r.lost = slices.Clip(r.firstLoad), slices.Clip(r.lost)
	if b.response != nil {
		e.response = new(hist.Hist)
		e.response.Merge(b.response)
	}
	if b.sums.intervals > 0 {
		e.batchMeanNs = b.sums.batchNs / float64(b.sums.intervals)
	}
	return e, true
}

// Points returns a copy of the points from an index on, for a viewer that has seen the earlier
// ones of this generation; for another generation, all points.
func (b *Board) Points(generation, from int) (points []Point, now int) {
	b.mu.Lock()
	defer b.mu.Unlock()
	if generation != b.track.generation || from > len(b.track.points) {
		from = 0
	}
	return slices.Clone(b.track.points[from:]), b.track.generation
}

// FinishedRun returns the finished runs of a plan from an index on.
func (b *Board) Done(from int) []FinishedRun {
	b.mu.Lock()
	defer b.mu.Unlock()
	return slices.Clone(b.done[min(max(from, 0), len(b.done)):])
}
