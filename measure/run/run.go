// Package run does what a spec asks: it checks that the host can, starts the
// load, writes the record while facts arrive, and has the run judged.
package run

import (
	"context"
	"errors"
	"fmt"
	"os"
	"slices"
	"time"

	"ceiling/experiment/spec"
	"ceiling/internal/hist"
	"ceiling/internal/http1"
	"ceiling/internal/sys"
	"ceiling/measure/behind"
	"ceiling/measure/load"
	"ceiling/record"
	"ceiling/verdict"
)

// ErrRefused wraps what is wrong with the request itself, found before
// anything was sent: exit code 2.
var ErrRefused = errors.New("refused")

// Exit codes of a run; docs/record.md lists them.
const (
	ExitPass        = 0
	ExitError       = 1
	ExitRefused     = 2
	ExitFail        = 3
	ExitInvalid     = 4
	ExitInterrupted = 130
)

// Options are what does not belong to the measured condition.
type Options struct {
	// Out is where the record goes, a file or a directory as record.Create has it; ""
	// puts it into Store.
	Out string
	// Store is a directory of runs; "" is the person's own.
	Store string
	// Command line as typed, and the version of this program, for the record.
	Command []string
	Version string
	// Program has the verb hog, which a proof starts; "" is this program.
	Program string
	// GiveUp is asked after every interval, those of the warm-up too, with its
	// response times; an answer ends the run, and stands in its record as the
	// reason.
	StopEarly func(row *record.LoadRow, response *hist.Hist) string
	// Work does the run; nil is this machine.
	Work Work
	// Database is PostgreSQL's URL, which is asked during the run what its sessions wait for; "" is the one that a server
	// of ours on this host names. It is not in the record, but for its address.
	Database string
	// KeepSecrets leaves credentials and bodies as they are in all that is kept and
	// told.
	KeepSecrets bool
	listeners   []func(Event)
	veil        *veil              // of the plan that the run is part of
	plan        *record.PlanWriter // its record, which the run's goes into
	step        *PlanProgress      // which of its runs this is
}

// Progress is where a run stands.
type Progress struct {
	// Established of Asked connections stand.
	Established, Asked int
	// ElapsedS of the window, negative during the warm-up; TotalS of it, 0
	// where a number of requests ends the run.
	ElapsedS, TotalS float64
	// Row is the interval that just ended; Response has its response times and is
	// valid during the call only, BatchMeanNs is the time its batches took.
	Row         record.LoadRow
	Response    *hist.Hist
	BatchMeanNs float64
	// Completed of the window so far, of Requests where a number was asked.
	Completed, Requests uint64
	// Plan that the run is part of; nil for a single one.
	Plan *PlanProgress
}

// Result is a finished run and where it is kept.
type Result struct {
	Run record.Run
	// Response times of the whole window.
	Response hist.Hist
	// File of the record; KeepErr is what went wrong with keeping it, RestoreErr
	// what could not be restored of what a run had changed on the host.
	File       record.File
	KeepErr    error
	RestoreErr error
}

// Do does one run. An error that wraps ErrRefused names what the person has to
// change; any other is a failure of this side. What the server does wrong is in
// the record.
func Do(ctx context.Context, s spec.Spec, o Options) (*Result, error) {
	if o.veil == nil {
		o.veil = newVeil(&o)
	}
	done, err := doRun(ctx, s, o)
	return done, o.veil.error(err)
}

func doRun(ctx context.Context, s spec.Spec, o Options) (*Result, error) {
	if err := s.Check(); err != nil {
		return nil, fmt.Errorf("%w: %w", ErrRefused, err)
	}
	work := o.Work
	if work == nil {
		work = Local{Version: o.Version}
	}
	job, err := work.Prepare(ctx, &s)
	if err != nil {
		return nil, err
	}
	asked, err := openBehind(ctx, &s, job, &o)
	if err != nil {
		return nil, errors.Join(err, job.Close())
	}
	defer asked.Close()
	w, err := open(o)
	if err != nil {
		return nil, errors.Join(err, job.Close())
	}
	o.Command = o.veil.command(withoutPassword(o.Command, o.Database))
	done, err := keep(ctx, o.veil.spec(&s), job, w, asked, &o)
	left := job.Close()
	if err != nil {
		return nil, errors.Join(err, left, w.Close())
	}
	done.RestoreErr = left
	return done, nil
}

// keep does the job and has what comes of it kept and judged. Of the spec it has
// what others may see.
func keep(ctx context.Context, s *spec.Spec, job Job, w *record.Writer, asked *behind.Watch, o *Options) (*Result, error) {
	env := job.Environment()
	start := record.Start{Schema: record.Schema, ID: w.ID(), Created: time.Now(), Command: o.Command, Spec: *s}
	if several, are := job.(interface{ Agents() []record.Agent }); are {
		start.Agents = several.Agents()
	}
	keepErr := w.Start(start, env)
	o.tell(Event{Began: &start})
	ctx, end := context.WithCancel(ctx)
	defer end()
	rec := &recorder{writer: w, spec: s, host: env.Host, options: o, end: end, behind: asked}
	bucket := askQuorum(ctx, s)
	worked, err := job.Do(ctx, rec)
	asked.Stop()
	for _, n := range asked.NotMeasured() {
		rec.NotMeasured(n)
	}
	if err != nil {
		return nil, err
	}
	o.veil.worked(worked)
	done := &Result{Run: rec.assemble(worked, env)}
	done.Run.ID, done.Run.Command = w.ID(), o.Command
	done.Response.Merge(&worked.Result.Total.Response)
	done.KeepErr = errors.Join(keepErr, rec.histograms(worked.Result), keepProfiles(w, &done.Run, &worked.Found),
		keepStacks(w, &done.Run, &worked.Found), keepProfiling(w, &done.Run, &worked.Found, &rec.series), w.Err())
	done.Run.Subject = subjectOf(&done.Run, &rec.series, worked)
	identified(done.Run.Subject, worked.Identities)
	if bucket != nil {
		done.Run.Quorum = quorumOf(bucket, askQuorum(ctx, s))
	}
	done.Run.Verdict = verdict.Judge(&done.Run, &rec.series)
	done.Run.Exit = ExitOf(&done.Run)
	done.KeepErr = errors.Join(done.KeepErr, w.Finish(&done.Run))
	done.File = w.File()
	return done, nil
}

// ExitOf is the exit code that a run calls for.
func ExitOf(r *record.Run) int {
	switch {
	case r.Interrupted:
		return ExitInterrupted
	case r.Verdict.Outcome == record.Fail:
		return ExitFail
	case r.Verdict.Outcome.Sound():
		return ExitPass
	}
	return ExitInvalid
}

func open(o Options) (*record.Writer, error) {
	id := record.NewID(time.Now())
	if o.plan != nil {
		return o.plan.Create(id)
	}
	if o.Out != "" {
		w, err := record.Create(o.Out, id)
		if err != nil {
			return nil, fmt.Errorf("%w: %w", ErrRefused, err)
		}
		return w, nil
	}
	store, err := storeAt(o.Store)
	if err != nil {
		return nil, err
	}
	return store.Create(id)
}

// storeAt is the store in a directory, or the person's own.
func storeAt(dir string) (record.Store, error) {
	if dir == "" {
		return record.DefaultStore(os.Getenv)
	}
	return record.Store{Dir: dir}, nil
}

// configure turns the spec into what the engine takes for its share, and looks
// whether this host has the ports, descriptors and CPUs for it. Of one that does
// not load it answers the target alone.
func configure(ctx context.Context, s *spec.Spec, o *ShareOptions) (*load.Config, target, error) {
	var to target
	address, err := s.Address(s.Targets[0].URL)
	if err != nil {
		return nil, to, fmt.Errorf("%w: %w", ErrRefused, err)
	}
	to, err = resolve(ctx, address, o.Permit)
	to.secure = address.TLS
	if err != nil || !o.Load {
		return nil, to, err
	}
	own, err := checkShare(s, o)
	if err != nil {
		return nil, to, err
	}
	open, mix, err := opening(s)
	if err == nil && open == nil && s.GRPC == nil {
		mix, err = requests(s)
	}
	if err != nil {
		return nil, to, fmt.Errorf("%w: %w", ErrRefused, err)
	}
	c := &load.Config{
		Address: to.sockaddr, Mix: mix,
		Connections: s.Connections, Threads: min(s.Threads, own), Pipelining: s.Pipelining,
		Rate: s.Rate, Poisson: s.Arrivals == spec.Poisson, Seed: s.Seed,
		Lone: s.Lone(), Warmup: s.Warmup, Duration: s.Duration, Requests: s.Requests,
		ConnectRamp: s.ConnectRamp, Timeout: s.Timeout,
		NewConnections: s.NewConnections, Engine: s.Engine,
		Unexpected: unexpected(s.Expect), Share: o.Share, Ready: o.Ready, Start: o.Start,
	}
	if s.PinGenerator != "" {
		if c.CPUs, err = allowedCPUs(s.PinGenerator); err != nil {
			return nil, to, fmt.Errorf("%w: %w", ErrRefused, err)
		}
	}
	c.Protocol = protocolOf(s)
	if c.Threads == 0 {
		slots := s.Pipelining
		if c.Protocol == load.HTTP3 {
			slots *= quicWork
		}
		if c.Threads, err = threads(own, slots, to.local, c.CPUs); err != nil {
			return nil, to, err
		}
	}
	c.Opening = open
	if c.TLS, err = secured(ctx, s, address, to); err != nil {
		return nil, to, err
	}
	if c.GRPC = s.GRPC != nil; c.GRPC {
		if c.Mix, err = calls(ctx, s, c.TLS, to); err != nil {
			return nil, to, err
		}
	}
	if c.SourceIPs, err = sources(s, to, o.Share); err != nil {
		return nil, to, err
	}
	if err := checkLimits(own, len(c.SourceIPs), address); err != nil {
		return nil, to, fmt.Errorf("%w: %w", ErrRefused, err)
	}
	return c, to, nil
}

// unexpected is the status codes that count as errors, in the engine's form; nil
// where they are those that it takes for such by itself.
func unexpected(e spec.Expect) *[1000]bool {
	if len(e) == 0 {
		return nil
	}
	var list [1000]bool
	for status := range list {
		list[status] = !e.Has(status)
	}
	return &list
}

// slotsPerThread is the least number of requests in flight that are worth a
// further thread: below it a thread reaps one completion at a time, and its
// system calls cost more than it adds.
const slotsPerThread = 32

// quicWork is about how many times as much work a request is over HTTP/3.
const quicWork = 8

// threads chooses the number of load threads: as many as the slots are worth,
// but half the cores at most where the server shares them.
func threads(connections, pipelining int, local bool, pinned []int) (int, error) {
	cores := len(pinned)
	if cores == 0 {
		allowed, err := sys.AllowedCPUs(0)
		if err != nil {
			return 0, err
		}
		if cores = len(allowed); local {
			cores = max(1, cores/2)
		}
	}
	return max(1, min(cores, connections*pipelining/slotsPerThread, connections)), nil
}

// allowedCPUs checks a CPU list against the CPUs this process may use.
func allowedCPUs(list string) ([]int, error) {
	cpus, err := spec.ParseCPUList(list)
	if err != nil {
		return nil, err
	}
	allowed, err := sys.AllowedCPUs(0)
	if err != nil {
		return nil, err
	}
	for _, cpu := range cpus {
		if !slices.Contains(allowed, cpu) {
			return nil, fmt.Errorf("CPU %d is not among those this process may use (%s); choose from them", cpu, fmt.Sprint(allowed))
		}
	}
	return cpus, nil
}

// requests writes every target's request once.
func requests(s *spec.Spec) ([]load.Request, error) {
	mix := make([]load.Request, 0, len(s.Targets))
	for _, t := range s.Targets {
		_, path, host, err := spec.ParseTarget(t.URL)
		if err != nil {
			return nil, err
		}
		fields := make([]http1.Field, 0, len(t.Header)+1)
		for _, f := range t.Header {
			fields = append(fields, http1.Field{Name: f.Name, Value: f.Value})
		}
		if s.NewConnections {
			fields = append(fields, http1.Field{Name: "Connection", Value: "close"})
		}
		b, err := http1.AppendRequest(nil, t.Method, path, host, fields, t.Body)
		if err != nil {
			return nil, fmt.Errorf("%s %s: %w", t.Method, t.URL, err)
		}
		mix = append(mix, load.Request{Bytes: b, NoBody: t.Method == "HEAD", Weight: t.Weight})
	}
	return mix, nil
}

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
