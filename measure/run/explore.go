package run

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"strings"
	"time"

	"ceiling/experiment/plan"
	"ceiling/experiment/spec"
	"ceiling/internal/exit"
	"ceiling/internal/hist"
	"ceiling/internal/pause"
	"ceiling/internal/secret"
	"ceiling/internal/unit"
	"ceiling/measure/perturb"
	"ceiling/measure/profile/stacks"
	"ceiling/record"
	"ceiling/verdict/prose"
)

// overhead is what a run takes beyond its measured time, warm-up and rest: opening the observers
// and connections, judging, and writing. 0.08 s on a quiet machine of 2 cores, 0.2 s on a busy one.
const overhead = 150 * time.Millisecond

// PlanProgress is the progress of a plan, during its run Number.
type PlanProgress struct {
	// Number of the run, and how many are Left including it; an estimate in a search.
	Number, Left int
	// LeftS is the time that they will take, in seconds.
	LeftS float64
	// Doing says what this run is.
	Doing string
}

// Explore does an experiment that is complete and checked: it starts the servers, does one run
// after the other as the plan decides, saves each, and concludes. A failure on the way ends the
// plan, and is part of the answer; the error is for what prevented any answer, or saving it.
func Explore(ctx context.Context, e spec.Experiment, o Options, told func(m record.Measured, doing string)) (*record.Plan, record.File,
	error) {
	o.veil = newRedactor(&o)
	p, file, err := begin(ctx, e, o, told)
	return p, file, o.veil.error(err)
}

func begin(ctx context.Context, e spec.Experiment, o Options, told func(record.Measured, string)) (p *record.Plan, _ record.File,
	err error) {
	if err := May(&e, !o.here()); err != nil {
		return nil, record.File{}, err
	}
	b, err := makeBed(ctx, &e, &o)
	if err != nil {
		return nil, record.File{}, err
	}
	defer func() { err = errors.Join(err, b.remove()) }()
	p = &record.Plan{
		ID: record.NewID(time.Now()), Created: time.Now(), Command: o.veil.command(o.Command),
		Environment: record.ReadEnvironment(o.Version),
	}
	if b.here {
		if p.CPUs, err = splitPlan(ctx, &e); err != nil {
			return nil, record.File{}, err
		}
	}
	p.Experiment, p.Hidden = o.veil.experiment(e)
	w, err := createPlan(p, &o)
	if err != nil {
		return nil, record.File{}, fmt.Errorf("%w: %w", exit.ErrRefused, err)
	}
	return explore(ctx, e, p, w, b, o, told)
}

func createPlan(p *record.Plan, o *Options) (*record.PlanWriter, error) {
	if o.Out != "" {
		return record.CreatePlan(o.Out, p)
	}
	store, err := storeAt(o.Store)
	if err != nil {
		return nil, err
	}
	return store.CreatePlan(p)
}

// Resume continues an interrupted plan, and calls told as Explore does.
func Resume(ctx context.Context, f record.File, o Options, told func(m record.Measured, doing string)) (p *record.Plan, _ record.File,
	err error) {
	p, err = record.OpenPlan(f)
	if err != nil {
		return nil, record.File{}, fmt.Errorf("%w: %w", exit.ErrRefused, err)
	}
	switch p.Ended {
	case "", record.EndedInterrupted, record.EndedFailed:
	default:
		return nil, record.File{}, fmt.Errorf("%w: %s is %s: %s; show it: ceiling show %s", exit.ErrRefused, p.ID, p.Ended, prose.Text(p.Because), p.ID)
	}
	if p.Hidden {
		return nil, record.File{}, fmt.Errorf("%w: %s: %s", exit.ErrRefused, p.ID, prose.Text(p.Onward()))
	}
	if err := May(&p.Experiment, !o.here()); err != nil {
		return nil, record.File{}, err
	}
	b, err := makeBed(ctx, &p.Experiment, &o)
	if err != nil {
		return nil, record.File{}, err
	}
	defer func() { err = errors.Join(err, b.remove()) }()
	if err := record.ReadHistograms(f, p.Runs); err != nil {
		return nil, record.File{}, err
	}
	w, err := record.ResumePlan(f, p)
	if err != nil {
		return nil, record.File{}, err
	}
	// A plan saved with its secrets continues that way.
	_, o.KeepSecrets = p.Experiment.Concealed(secret.Plain())
	o.veil = newRedactor(&o)
	return explore(ctx, p.Experiment, p, w, b, o, told)
}

// explore does the runs of e, of which the plan shows what others may see.
func explore(ctx context.Context, e spec.Experiment, p *record.Plan, w *record.PlanWriter, b *bed, o Options,
	told func(record.Measured, string)) (*record.Plan, record.File, error) {
	began := time.Now()
	p.Exit, p.Because = exit.Pass, record.Statement{}
	if o.here() {
		tables := stacks.NewTables()
		defer tables.Close()
		o.Work = Local{Version: o.Version, Compose: o.Compose, tables: tables}
	}
	x := &explorer{plan: p, experiment: &e, keep: w, bed: b, options: o,
		servers: servers{list: slices.Clone(e.Servers), dial: &e.Load.Dial, started: map[int]started{}, cpus: startCPUs(p.CPUs),
			in: b.in, on: b.on}}
	defer x.servers.stop()
	for p.Ended = ""; p.Ended == ""; {
		d := plan.Next(&e, p.Runs)
		if d.Next == nil {
			p.Ended, p.Because = d.Ended, d.Because
			break
		}
		m, err := x.step(ctx, &d)
		switch {
		case ctx.Err() != nil:
			p.Ended, p.Because = record.EndedInterrupted, p.Onward()
		case err != nil:
			p.Ended = record.EndedFailed
			p.Because = record.State("plan.failed", record.Values{"run": d.Next.Number,
				"error": o.veil.text(strings.ReplaceAll(err.Error(), "\n", "; ")), "onward": p.Onward()})
		default:
			p.Runs = append(p.Runs, *m)
			if err := w.Append(m); err != nil {
				err = errors.Join(err, w.Finish(p))
				return p, w.File(), err
			}
			if told != nil {
				told(*m, Doing(&p.Experiment, &m.Step))
			}
			if d := time.Duration(e.Load.Duration); len(p.Runs) == 1 && d > 0 && 2*m.Response.MinNs > int64(d) {
				// All runs would be as this one: a request or two on each connection, cut off at the edges.
				p.Ended = record.EndedEarly
				p.Because = record.State("plan.too-short", record.Values{"min_ns": m.Response.MinNs, "duration_ns": d})
			}
		}
	}
	p.TookS += time.Since(began).Seconds()
	if len(p.Runs) > 0 {
		plan.Conclude(p)
		if err := differences(p, w.File()); err != nil {
			p.Comparison.Caveats = append(p.Comparison.Caveats,
				record.State("comparison.differences-unknown", record.Values{"error": err.Error()}))
		}
	}
	switch {
	case p.Ended == record.EndedEarly && p.Search == nil: // a search knows itself what its end is worth
		p.Exit = exit.Invalid
	case p.Ended == record.EndedInterrupted:
		p.Exit = exit.Interrupted
	case p.Ended == record.EndedFailed:
		p.Exit = exit.Error
	}
	err := w.Finish(p)
	return p, w.File(), err
}

// differences adds to a comparison how its sides differ apart from the result, from the records of
// one run of each.
func differences(p *record.Plan, f record.File) error {
	if p.Comparison == nil {
		return nil
	}
	side := map[string][]plan.Kept{}
	for _, m := range p.Runs {
		if m.WarmupRun || m.Noise || m.Run == "" || side[m.Side] != nil {
			continue
		}
		r, _, err := record.Open(f.Of(m.Run))
		if err != nil {
			return err
		}
		side[m.Side] = []plan.Kept{{Run: r}}
	}
	if side[plan.SideA] == nil || side[plan.SideB] == nil {
		return nil
	}
	for _, d := range plan.CompareRuns(side[plan.SideA], side[plan.SideB]).Differences {
		known := slices.ContainsFunc(p.Comparison.Differences, func(o record.Difference) bool { return o.What == d.What })
		if !known && d.Weight != plan.WeightNoted {
			p.Comparison.Differences = append(p.Comparison.Differences, d)
		}
	}
	return nil
}

// here reports whether this machine does the runs.
func (o *Options) here() bool {
	_, local := o.Work.(Local)
	return o.Work == nil || local
}

// May rejects what this machine cannot do, or with agents what only it can do. A dry run asks as well.
func May(e *spec.Experiment, agents bool) error {
	if !agents {
		return mayPin(e)
	}
	if e.TakesAway() {
		return fmt.Errorf("%w: a proof takes CPUs, a link and slots of this machine away, and several agents load; run it where generator and server are: ceiling prove without --agents", exit.ErrRefused)
	}
	s := spec.Spec{Common: e.Load.Common, Settings: e.Load.Settings, Apart: e.Load.Apart != nil && *e.Load.Apart}
	if err := RefuseFar(&s); err != nil {
		return err
	}
	for _, c := range e.Cells() {
		if err := RefuseFar(&spec.Spec{Settings: c.Settings}); err != nil {
			return fmt.Errorf("%s: %w", e.CellLabel(c.Levels), err)
		}
	}
	if e.Limited() {
		return fmt.Errorf("%w: link: with --agents the load crosses the real network, which ceiling does not shape; leave out rate, packets and delay, or run it without --agents", exit.ErrRefused)
	}
	return nil
}

// explorer does the runs of one plan.
type explorer struct {
	plan       *record.Plan
	experiment *spec.Experiment // as executed, secrets included
	keep       *record.PlanWriter
	bed        *bed
	options    Options
	servers    servers
	scene      *perturb.Targets // of a proof, once it began
	unmet      string           // why the last run had no connection, and what to do; "": it had one
}

// step does one run. Its error is a server that is gone, or a failure of this side; the server's
// responses are in the measurement.
func (x *explorer) step(ctx context.Context, d *plan.Decision) (*record.Measured, error) {
	step := d.Next
	if step.Restart {
		x.servers.stop()
	}
	if step.Cell != nil {
		return x.cellRun(ctx, d)
	}
	return x.stepOn(ctx, d)
}

// stepOn does one run on a host prepared for the step.
func (x *explorer) stepOn(ctx context.Context, d *plan.Decision) (*record.Measured, error) {
	e, step := x.experiment, d.Next
	base, err := x.servers.base(ctx, step.Server, step.Noise && step.Side == "B")
	if err != nil {
		return nil, err
	}
	if len(x.plan.Runs) > 0 && !pause.For(ctx, time.Duration(e.Rest)) {
		return nil, ctx.Err()
	}
	s, err := e.Spec(base, step.Mix, &step.Condition)
	if err != nil {
		return nil, err
	}
	s.Seed = e.Seed + uint64(step.Number)
	splitOf(x.plan.CPUs, &e.Servers[step.Server], &s)
	cellSettings(e, step, &s)
	o := x.options
	o.plan, o.step = x.keep, x.progress(d)
	if d.MayStopEarly {
		earlyStop := plan.NewEarlyStop(e.SLO, step.Rate.PerSecond(), s.Duration, s.Arrivals)
		other := o.StopEarly
		o.StopEarly = func(row *record.LoadRow, h *hist.Hist) string {
			if other != nil {
				if why := other(row, h); why != "" {
					return why
				}
			}
			return earlyStop.Add(row, h)
		}
	}
	var m *record.Measured
	if e.TakesAway() {
		m, err = x.proofRun(ctx, step, base, s, o)
	} else {
		m, err = x.one(ctx, step, s, o)
	}
	if err != nil {
		return nil, err
	}
	lost := m.Run != "" && (m.Completed == 0 || m.BadShare > 0.5)
	if lost {
		if err := x.servers.ended(); err != nil {
			return m, err
		}
	}
	switch {
	case x.unmet != "" && ctx.Err() == nil:
		return m, errors.New(x.unmet)
	case lost && x.options.here():
		return m, x.servers.refuses(step.Server, base)
	}
	return m, nil
}

// one does a run and saves it.
func (x *explorer) one(ctx context.Context, step *record.Step, s spec.Spec, o Options) (*record.Measured, error) {
	began := time.Now()
	done, err := Do(ctx, s, o)
	if err != nil {
		return nil, err
	}
	m := measured(step, done)
	x.unmet = ""
	if v, l := &done.Run.Verdict, &done.Run.Load; l.Established == 0 && v.Outcome == record.Invalid {
		x.unmet = prose.Sentence(v.Because) + "; " + prose.Sentence(v.Next)
	}
	m.TookS = time.Since(began).Seconds()
	return m, errors.Join(done.KeepErr, done.RestoreErr)
}

// progress returns the plan's progress for its next run.
func (x *explorer) progress(d *plan.Decision) *PlanProgress {
	return &PlanProgress{
		Number: len(x.plan.Runs) + 1, Left: d.Left,
		LeftS: Takes(&x.plan.Experiment, d.Left).Seconds(), Doing: Doing(&x.plan.Experiment, d.Next),
	}
}

// Takes returns how long a number of runs of an experiment take.
func Takes(e *spec.Experiment, runs int) time.Duration {
	return time.Duration(runs) * (time.Duration(e.Load.Duration+e.Load.ConnectRamp+e.Rest) + e.Load.WarmupTime() + overhead)
}

// Doing describes a step in a few words.
func Doing(e *spec.Experiment, s *record.Step) string {
	if s.Cell != nil {
		return e.CellLabel(s.Cell) + ", " + s.Part()
	}
	text := fmt.Sprintf("%s, %d connections", spec.Loaded(e.Servers[s.Server].Label(), e.Requests[s.Mix].Label()), s.Connections)
	if s.Connections == 1 {
		text = strings.TrimSuffix(text, "s")
	}
	if s.Pipelining > 1 {
		text += fmt.Sprintf(" × %d", s.Pipelining)
	}
	if s.Threads > 0 {
		text += ", " + unit.Plural(s.Threads, "generator thread", "generator threads")
	}
	if !s.Rate.IsZero() {
		text += " at " + s.Rate.String() + "/s"
	}
	if part := s.Part(); part != "" {
		text += ", " + part
	}
	return text
}

// measured extracts what a plan needs from a run.
func measured(step *record.Step, done *Result) *record.Measured {
	r := &done.Run
	m := &record.Measured{
		Step: *step, Run: r.ID, Started: r.Started, ElapsedS: r.ElapsedS,
		TargetPerS: r.Load.TargetPerS, CompletedPerS: r.Rate.CompletedPerS,
		ReadBytesPerS: record.ReadPerS(r),
		Completed:     r.Requests.Completed, Failed: r.Requests.Failed,
		Response: r.Latency.Response, Service: r.Latency.Service,
		GeneratorCPUNs: r.Generator.CPUNsPerRequest,
		Profiles:       plan.RequestProfiles(r.Profiling), Waiting: r.Latency.Waiting, BadShare: r.BadShare(),
		StoppedEarly: r.StoppedEarly, Histogram: &done.Response,
	}
	m.Judged(r.Verdict)
	if expected := r.Load.TargetPerS * r.Spec.Duration.Seconds(); r.StoppedEarly != "" && expected > 0 {
		m.P99AtLeastNs = plan.AtLeast(.99, &done.Response, expected)
	}
	if r.Subject != nil {
		m.ServerCPUNs = r.Subject.CPUNsPerRequest
	}
	return m
}
