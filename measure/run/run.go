// Package run executes a spec: it checks that the host can, generates the load, writes the record
// as events arrive, and has the run judged.
package run

import (
	"context"
	"errors"
	"fmt"
	"os"
	"slices"
	"time"

	"ceiling/experiment/spec"
	"ceiling/internal/exit"
	"ceiling/internal/hist"
	"ceiling/internal/http1"
	"ceiling/internal/ring"
	"ceiling/internal/sys"
	"ceiling/measure/behind"
	"ceiling/measure/load"
	"ceiling/record"
	"ceiling/verdict"
)

// Options are the settings that are not part of the measured condition.
type Options struct {
	// Out is where the record goes, a file or a directory as in record.Create; "" saves it in
	// Store.
	Out string
	// Store is a directory of runs; "": the user's own.
	Store string
	// Command line as typed, and the version of this program, for the record.
	Command []string
	Version string
	// Program has the verb hog, which a proof starts; "": this program.
	Program string
	// StopEarly is called after every interval, including those of the warm-up, with its response
	// times; a non-empty result ends the run, and the record has it as the reason.
	StopEarly func(row *record.LoadRow, response *hist.Hist) string
	// Work does the run; nil: this machine.
	Work Work
	// Compose makes the requests of runs whose targets have an Origin, on this machine.
	Compose Composer
	// Database is the URL of the PostgreSQL that is asked, during the run, what its sessions wait
	// for; "": the one that our own server on this host names. Only its address is in the record.
	Database string
	// KeepSecrets leaves credentials and bodies unhidden in all that is saved and reported.
	KeepSecrets bool
	listeners   []func(Event)
	veil        *redactor          // of the plan that the run is part of
	plan        *record.PlanWriter // its record, which will contain the run's
	step        *PlanProgress      // which of its runs this is
}

// Progress is the progress of a run.
type Progress struct {
	// Established of Asked connections are established.
	Established, Asked int
	// ElapsedS of the window, negative during the warm-up; TotalS is its length, 0 if a number of
	// requests ends the run.
	ElapsedS, TotalS float64
	// Row is the interval that just ended; Response has its response times and is valid during the
	// call only. BatchMeanNs is how long a response waits for its batch, on average.
	Row         record.LoadRow
	Response    *hist.Hist
	BatchMeanNs float64
	// Completed in the window so far, of Requests if a number was requested.
	Completed, Requests uint64
	// Plan that the run is part of; nil for a single run.
	Plan *PlanProgress
}

// Result is a finished run and where it is saved.
type Result struct {
	Run record.Run
	// Response times over the whole window.
	Response hist.Hist
	// File of the record; KeepErr is an error in saving it, RestoreErr the changes to the host that
	// could not be undone.
	File       record.File
	KeepErr    error
	RestoreErr error
}

// Do does one run. An error that wraps exit.ErrRefused names what the user must change; any other is a
// failure of this side. The server's faults are in the record.
func Do(ctx context.Context, s spec.Spec, o Options) (*Result, error) {
	if o.veil == nil {
		o.veil = newRedactor(&o)
	}
	done, err := doRun(ctx, s, o)
	return done, o.veil.error(err)
}

func doRun(ctx context.Context, s spec.Spec, o Options) (*Result, error) {
	if err := s.Check(); err != nil {
		return nil, fmt.Errorf("%w: %w", exit.ErrRefused, err)
	}
	work := o.Work
	if work == nil {
		work = Local{Version: o.Version, Compose: o.Compose}
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

// keep does the job, saves its result and has it judged. It has the spec as others may see it.
func keep(ctx context.Context, s *spec.Spec, job Job, w *record.Writer, asked *behind.Watch, o *Options) (*Result, error) {
	env := job.Environment()
	start := record.Start{Schema: record.Schema, ID: w.ID(), Created: time.Now(), Command: o.Command, Spec: *s, Environment: &env}
	if several, are := job.(interface{ Agents() []record.Agent }); are {
		start.Agents = several.Agents()
	}
	keepErr := w.Start(start)
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
	if done.Run.Started.IsZero() { // its window never opened
		done.Run.Started = start.Created
	}
	done.Run.ID, done.Run.Command = w.ID(), o.Command
	done.Response.Merge(&worked.Result.Total.Response)
	done.KeepErr = errors.Join(keepErr, rec.histograms(worked.Result), keepProfiles(w, &done.Run, &worked.ServerInfo),
		keepStacks(w, &done.Run, &worked.ServerInfo), keepProfiling(w, &done.Run, &worked.ServerInfo, &rec.series), w.Err())
	done.Run.Subject = subjectOf(&done.Run, &rec.series, worked)
	identified(done.Run.Subject, &worked.ServerInfo)
	if bucket != nil {
		done.Run.Quorum = quorumOf(bucket, askQuorum(ctx, s))
	}
	done.Run.Verdict = verdict.Judge(&done.Run, &rec.series)
	done.Run.Exit = verdict.ExitOf(&done.Run)
	done.KeepErr = errors.Join(done.KeepErr, w.Finish(&done.Run))
	done.File = w.File()
	return done, nil
}

func open(o Options) (*record.Writer, error) {
	id := record.NewID(time.Now())
	if o.plan != nil {
		return o.plan.Create(id)
	}
	if o.Out != "" {
		w, err := record.Create(o.Out, id)
		if err != nil {
			return nil, fmt.Errorf("%w: %w", exit.ErrRefused, err)
		}
		return w, nil
	}
	store, err := storeAt(o.Store)
	if err != nil {
		return nil, err
	}
	return store.Create(id)
}

// storeAt returns the store in a directory, or the user's own.
func storeAt(dir string) (record.Store, error) {
	if dir == "" {
		return record.DefaultStore(os.Getenv)
	}
	return record.Store{Dir: dir}, nil
}

// configure turns the spec into the engine's configuration for its share, and checks that this host
// has the ports, descriptors and CPUs for it. For a share that generates no load it returns the
// target alone.
func configure(ctx context.Context, s *spec.Spec, o *ShareOptions) (*load.Config, target, error) {
	var to target
	address, err := s.Address(s.Targets[0].URL)
	if err != nil {
		return nil, to, fmt.Errorf("%w: %w", exit.ErrRefused, err)
	}
	to, err = resolve(ctx, address, o.Permit)
	to.secure = address.TLS
	if err == nil {
		to.tunnel, err = tunnel(s, address)
	}
	if err != nil || !o.Load {
		return nil, to, err
	}
	own, err := checkShare(s, o)
	if err != nil {
		return nil, to, err
	}
	open, mix, err := opening(s)
	if err == nil && open == nil {
		mix, err = requests(s)
	}
	if err != nil {
		return nil, to, fmt.Errorf("%w: %w", exit.ErrRefused, err)
	}
	c := &load.Config{
		To: load.Destination{Addresses: to.addresses, Tunnel: to.tunnel}, Mix: mix,
		Connections: s.Connections, Threads: min(s.Threads, own), Pipelining: s.Pipelining,
		Rate: s.Rate, Poisson: s.Arrivals == spec.Poisson, Seed: s.Seed,
		Unloaded: s.Unloaded(), Warmup: s.Warmup, Duration: s.Duration, Requests: s.Requests,
		ConnectRamp: s.ConnectRamp, Timeout: s.Timeout,
		NewConnections: int(s.NewConnections), Engine: s.Engine,
		Expect: load.Expect{Unexpected: unexpected(s.Expect), Checks: s.Expect.Checks}, Share: o.Share, Ready: o.Ready, Start: o.Start,
	}
	if s.PinGenerator != "" {
		if c.CPUs, err = allowedCPUs(s.PinGenerator); err != nil {
			return nil, to, fmt.Errorf("%w: %w", exit.ErrRefused, err)
		}
	}
	if s.HTTP == spec.HTTP2 {
		c.Protocol = load.HTTP2
	}
	if c.Threads == 0 {
		if c.Threads, err = threads(own, s.Pipelining*work(s.Engine), to.local, c.CPUs); err != nil {
			return nil, to, err
		}
	}
	if err := o.filled(s, c); err != nil {
		return nil, to, err
	}
	c.Opening = open
	if c.TLS, err = secured(ctx, s, address, to); err != nil {
		return nil, to, err
	}
	if c.SourceIPs, err = sources(s, to, o.Share); err != nil {
		return nil, to, err
	}
	if err := errors.Join(checkLimits(own, len(c.SourceIPs), address), checkTasks(c.Threads)); err != nil {
		return nil, to, fmt.Errorf("%w: %w", exit.ErrRefused, err)
	}
	return c, to, nil
}

// filled has the requests made while the run lasts, if a script or data makes them.
func (o *ShareOptions) filled(s *spec.Spec, c *load.Config) error {
	if s.Targets[0].From == nil {
		return nil
	}
	if o.compose == nil {
		return fmt.Errorf("%w: its requests come from a script, data or a session, which a record does not have: run it again as a whole", exit.ErrRefused)
	}
	composed, err := o.compose(c.Mix, c.Threads, s.Seed)
	if err != nil {
		return fmt.Errorf("%w: %w", exit.ErrRefused, err)
	}
	c.Mix = make([]load.Request, max(composed.Targets, 1))
	for i := range c.Mix {
		c.Mix[i].Weight = 1
	}
	c.Mix[0].Compose = composed
	return nil
}

// unexpected returns the status codes that count as errors, in the engine's form; nil for the
// engine's default.
func unexpected(e spec.Expect) *[1000]bool {
	if len(e.Statuses) == 0 {
		return nil
	}
	var list [1000]bool
	for status := range list {
		list[status] = !e.Has(status)
	}
	return &list
}

// slotsPerThread is the least number of requests in flight that justify another thread: below it a
// thread reaps one completion at a time, and its system calls cost more than it adds.
const slotsPerThread = 32

// work is about how much more work a request is than with the kernel's engines
// (docs/decisions/048-portable.md).
func work(engine string) int {
	if ring.IsPortable(engine) {
		return 2
	}
	return 1
}

// threads chooses the number of load threads: as many as the slots justify, but at most half the
// cores if the server shares them.
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

// allowedCPUs checks a CPU list against the CPUs that this process may use.
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

// chunkBytes is the most that a chunk of a body has: as much as a TLS record.
const chunkBytes = 16 << 10

// requests encodes every target's request once.
func requests(s *spec.Spec) ([]load.Request, error) {
	mix := make([]load.Request, 0, len(s.Targets))
	for _, t := range s.Targets {
		to, path, host, err := spec.ParseTarget(t.URL)
		if err != nil {
			return nil, err
		}
		fields := make([]http1.Field, 0, len(t.Header)+1)
		for _, f := range t.Header {
			fields = append(fields, http1.Field{Name: f.Name, Value: f.Value})
		}
		if s.NewConnections.Each() {
			fields = append(fields, http1.Field{Name: "Connection", Value: "close"})
		}
		if forwarded(s, to) {
			own, err := proxyFields(s)
			if err != nil {
				return nil, err
			}
			path, fields = "http://"+host+path, append(fields, own...)
		}
		body := t.Body
		if t.SendsChunks() {
			body = http1.AppendChunks(nil, body, chunkBytes)
		}
		b, err := http1.AppendRequest(nil, t.Method, path, host, fields, body)
		if err != nil {
			return nil, fmt.Errorf("%s %s: %w", t.Method, t.URL, err)
		}
		mix = append(mix, load.Request{Bytes: b, NoBody: t.Method == "HEAD", Weight: t.Weight})
	}
	return mix, nil
}

// Event is an event of a run in progress: one field is set, the others are nil.
type Event struct {
	// Began comes once the record exists; on this machine that is before the connections are
	// opened.
	Began *record.Start
	// Progress of the run, after every interval. It is valid during the call only.
	Progress *Progress
	// Observed is a row of what a host did. It must not be changed, and the time of the call counts
	// as the observer's cost.
	Observed record.ObservedRow
	// Agent is an interval of one of several agents.
	Agent *record.LoadRow
}

// Listen adds a listener for every event of the run, which must return quickly. Began and Progress
// come from one goroutine, Observed and Agent from others, one at a time.
func (o *Options) Listen(to func(Event)) { o.listeners = append(slices.Clip(o.listeners), to) }

func (o *Options) tell(e Event) {
	for _, listener := range o.listeners {
		listener(e)
	}
}
