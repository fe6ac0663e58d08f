// Package live is what can be seen of a run while it goes on. A Board is fed
// with what a run tells, row by row, or with the rows of a record as it grows,
// and answers snapshots, of which a terminal and a web page are made. It has no
// clock of its own: the same rows give the same snapshots. What it keeps is
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

// Board is what is known of a run, or of the runs of a plan, until now. Its
// methods may be called from several goroutines; feeding it takes microseconds
// and never waits for who looks at it.
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
	response  *hist.Hist // of the window; nil where a record is followed
	formed    *Formed
	ended     *record.Run
	killed    bool
	quietS    float64

	plan *Plan
	done []Done
}

// Phase is what a run does.
type Phase int

// Phases, in their order.
const (
	Waiting    Phase = iota // for a run to begin
	Connecting              // its connections are being opened
	WarmingUp
	Running
	Between // two runs of a plan
	Ended
)

// sums are of the window.
type sums struct {
	handshakes              uint64 // of TLS
	handshakeNs             int64  // of CPU for them
	completed, failed, sent uint64
	widthNs                 int64
	late, intervals         int
	maxNs                   int64
	batchNs                 float64 // of all intervals
}

// Plan is where a plan stands.
type Plan struct {
	// Kind as in "sweep"; Number of the run that goes on, of All (0: not known,
	// as in a search, where LeftRuns is a guess).
	Kind          string
	Number        int
	All, LeftRuns int
	// LeftS is how long the rest took when this run began, seconds.
	LeftS float64
	// Doing says what this run is.
	Doing string
	// Answer is what the plan came to, once it has ended.
	Answer string
}

// Done is a run of a plan that is over.
type Done struct {
	record.Measured
	Doing string
}

// NewBoard makes an empty one.
func NewBoard() *Board { return &Board{} }

// Began tells that a run begins. What was known of the last one is gone. Whoever
// looks sees no secrets, also of a run whose record has them.
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

// Connected tells how many of the connections stand.
func (b *Board) Connected(established, asked int) {
	b.mu.Lock()
	defer b.mu.Unlock()
	b.connected, b.asked = established, asked
}

// Interval tells of an interval of the generator. response has its response
// times and is read during the call only; nil where they are not known.
// batchMeanNs is how long a batch of answers took, 0 not known.
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

// Agent tells of an interval of one of several agents, which the row's Host
// names. The run's own intervals are told besides, by Interval.
func (b *Board) Agent(row record.LoadRow) {
	b.mu.Lock()
	defer b.mu.Unlock()
	if row.WidthNs > 0 {
		b.rows.addAgent(&row)
	}
}

// Observed tells of an observed row, which nobody changes any more.
func (b *Board) Observed(row record.ObservedRow) {
	b.mu.Lock()
	defer b.mu.Unlock()
	b.rows.addObserved(row)
}

// Rows tells of a stretch of a record, in the order of time.
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

// Lost tells of something that is not measured.
func (b *Board) Lost(n record.NotMeasured) {
	b.mu.Lock()
	defer b.mu.Unlock()
	if len(b.rows.lost) < rowsMost {
		b.rows.lost = append(b.rows.lost, n)
	}
}

// Quiet tells for how many seconds nothing more has come of a run that has not
// ended.
func (b *Board) Quiet(seconds float64) {
	b.mu.Lock()
	defer b.mu.Unlock()
	b.quietS = seconds
}

// Step tells where a plan stands; its next run begins, or is about to.
func (b *Board) Step(p Plan) {
	p.Doing = secret.Plain().Shell(p.Doing)
	b.mu.Lock()
	defer b.mu.Unlock()
	if b.plan == nil || *b.plan != p {
		b.plan = &p
	}
}

// Measured tells of a run of a plan that is over.
func (b *Board) Measured(d Done) {
	d.Doing = secret.Plain().Shell(d.Doing)
	b.mu.Lock()
	defer b.mu.Unlock()
	d.Histogram = nil // 70 KiB that nobody looks at here
	b.phase = Between
	b.done = append(b.done, d)
}

// RunEnded tells of the end of a run, with its verdict.
func (b *Board) RunEnded(r *record.Run) {
	if e, ok := b.evidence(); ok {
		b.stretch(e, cmp.Or(r.Verdict.StationsBy, record.BySocketSamples), true) // older records had no other
	}
	b.mu.Lock()
	defer b.mu.Unlock()
	b.track.finish()
	b.ended, b.phase = r, Ended
	b.formed = &Formed{Verdict: r.Verdict, Final: !r.Unfinished, OverS: r.ElapsedS, Quantiles: true, Path: r.Path()}
}

// PlanEnded tells of the end of a plan.
func (b *Board) PlanEnded(p *record.Plan) {
	b.mu.Lock()
	defer b.mu.Unlock()
	b.track.finish()
	b.phase = Ended
	next := Plan{Kind: p.Experiment.Kind, Number: len(p.Runs), All: len(p.Runs), Answer: secret.Plain().Text(prose.Text(p.Says()))}
	if next.Answer == "" {
		next.Answer = p.Ended
	}
	b.plan = &next
}

// Killed tells that who made the run or the plan has gone without ending it.
func (b *Board) Killed() {
	var f Formed
	if e, ok := b.evidence(); ok {
		f, _ = e.form() // of less than a second there is no path
		b.stretch(e, f.Verdict.StationsBy, true)
	}
	b.mu.Lock()
	defer b.mu.Unlock()
	b.track.finish()
	if b.phase < Between {
		f.lost(record.Run{Spec: b.start.Spec, ElapsedS: max(float64(b.track.last())/1e9, 0)})
		b.formed = &f
	}
	b.killed, b.phase = true, Ended
}

// Look tells that somebody looks, until release is called: a verdict is formed
// for lookers only.
func (b *Board) Look() (release func()) {
	b.lookers.Add(1)
	return sync.OnceFunc(func() { b.lookers.Add(-1) })
}

// Lookers is how many look.
func (b *Board) Lookers() int { return int(b.lookers.Load()) }

// Spent adds CPU time that the view took in this process.
func (b *Board) Spent(ns int64) { b.costNs.Add(ns) }

// CostNs is the CPU time that the view has taken, nanoseconds.
func (b *Board) CostNs() int64 { return b.costNs.Load() }

// Form judges what is there of the run that goes on, and keeps the answer for
// the snapshots. It holds nobody up meanwhile. False: there is nothing to judge.
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
		return false // it is over meanwhile
	}
	b.formed = &f
	return true
}

// evidence is a copy of what the verdict is formed from.
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

// Points answers the points from a place on, for who has seen those before it
// in this generation; of another generation all of them. The copy is the
// caller's.
func (b *Board) Points(generation, from int) (points []Point, now int) {
	b.mu.Lock()
	defer b.mu.Unlock()
	if generation != b.track.generation || from > len(b.track.points) {
		from = 0
	}
	return slices.Clone(b.track.points[from:]), b.track.generation
}

// Done answers the finished runs of a plan from a place on.
func (b *Board) Done(from int) []Done {
	b.mu.Lock()
	defer b.mu.Unlock()
	return slices.Clone(b.done[min(max(from, 0), len(b.done)):])
}
