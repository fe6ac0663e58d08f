package run

import (
	"context"
	"net/netip"
	"time"

	"ceiling/experiment/spec"
	"ceiling/measure/load"
	"ceiling/measure/profile/stacks"
	"ceiling/record"
)

// Composer makes the requests of a run while it lasts: of its mix, as encoded, for a number of load
// threads.
type Composer func(mix []load.Request, threads int, seed uint64) (*load.Composing, error)

// Work generates and observes the load of runs: on this machine (Local), or with the agents of a
// fleet. A run on this machine is one agent with the whole share, so there is one path through Do.
type Work interface {
	// Prepare checks that the run can be done, and sets up all that does not need the record. What
	// is wrong with the request wraps exit.ErrRefused. The spec is checked, and stays unchanged until
	// the job is closed.
	Prepare(ctx context.Context, s *spec.Spec) (Job, error)
}

// Job is a run that is set up. One of several agents also has the method Agents() []record.Agent,
// with what is known of each before it has done anything.
type Job interface {
	// Environment of the host that started the run.
	Environment() record.Environment
	// Do does the run, once, and reports to sink. If the context ends, it returns what was measured
	// until then, with Result.Interrupted. An error means that this side could not measure
	// anything.
	Do(ctx context.Context, sink Sink) (*RunResult, error)
	// Close undoes the run's changes; it is always called, once, and after Do if that is called.
	// Its error is what could not be undone.
	Close() error
}

// Sink receives the events of a run as they happen. Calls of load.Observer come from one goroutine;
// the other methods may be called from any, concurrently. All must return quickly, and keep none of
// their arguments.
type Sink interface {
	load.Observer
	// Observed gets a row of what a host did, with that host's name.
	Observed(record.ObservedRow)
	// NotMeasured gets what could not be measured, once each.
	NotMeasured(record.NotMeasured)
	// AgentInterval gets, with several agents only, what one of them did in one interval. late as
	// in Interval.
	AgentInterval(agent string, t *load.Tally, late bool)
}

// RunResult is the result of a run.
type RunResult struct {
	Result *load.Result
	// Threads and Connections as set up, summed over the agents.
	Threads, Connections int
	// Target is the resolved address of the load.
	Target string
	ServerInfo
	// Agents, if several, and what they had in common; nil: this machine alone.
	Agents []record.Agent
	Fleet  *record.Fleet
}

// ServerInfo is what is known about the server, and about the generator's headroom, once the load is
// over. It is plain data.
type ServerInfo struct {
	// Identities of the server's processes, on the observed hosts.
	Identities []Identity `json:"identities,omitempty"`
	// Profiles of the server, and the raw CPU profile among them (pprof, gzip).
	Profiles   []record.Profile `json:"profiles,omitempty"`
	CPUProfile []byte           `json:"cpu_profile,omitempty"`
	// Stacks of the server's processes, and its CPU stacks as text (folded).
	Stacks *record.Stacks `json:"stacks,omitempty"`
	Folded []byte         `json:"folded,omitempty"`
	// FoldedOff has the folded off-CPU stacks of its threads.
	FoldedOff []byte `json:"folded_off,omitempty"`
	// Profiling is the result of --profile, ProfileFiles the profiles themselves by file name
	// (pprof, gzip).
	Profiling    *record.Profiling `json:"profiling,omitempty"`
	ProfileFiles map[string][]byte `json:"profile_files,omitempty"`
	// Headroom of the generator, as in record.Generator; 0 if unknown, with the reason reported to
	// the sink.
	Headroom float64 `json:"headroom,omitempty"`
	// HeadroomBy says how it was derived, as in record.Generator.
	HeadroomBy string `json:"headroom_by,omitempty"`
	// Observing is what observing costs a server on this host; nil: not measured.
	Observing *record.Observing `json:"observing,omitempty"`
	// Shortages of the generator's host.
	Shortages []record.Shortage `json:"shortages,omitempty"`
}

// Identity is the program that a process of the server runs.
type Identity struct {
	Host string `json:"host"` // of the rows that it was found in
	PID  int    `json:"pid"`
	// BinaryID and GOMAXPROCS as in record.SubjectProcess.
	BinaryID   string `json:"binary_id,omitempty"`
	GOMAXPROCS int    `json:"gomaxprocs,omitempty"`
}

// ShareOptions select the part of a run that this host does.
type ShareOptions struct {
	// Share of the load; zero value: all of it.
	Share load.Share
	// Load: it generates load, and observes the generator's side. Observe: it looks for the server
	// on this host, observes, identifies and profiles it, and moves it to the CPUs of
	// Spec.PinServer. At least one of the two must be set.
	Load, Observe bool
	// Observing, if set, is called after every interval, and says whether the next one is
	// observed. It is for measuring what observing costs.
	Observing func(*load.Tally) bool
	// Host is this host's name in the rows: the agent's name. "": the host's own.
	Host string
	// Version of this program, for the environment.
	Version string
	// Ready and Start as in load.Config. An agent that only observes is ready once its sources are
	// open, and reports 0 of 0.
	Ready func(established, asked int)
	Start <-chan time.Time
	// Permit, if set, is called before anything is sent to an address (each of a name's before it
	// is tried) or to a unix socket (by its path; the address is then not valid): for the target,
	// and for the pprof endpoint. An address that it refuses is not contacted, and its error
	// refuses the run (for a pprof endpoint: the profile is not measured).
	Permit func(to netip.AddrPort, unix string) error
	// Peer is where the load comes from, for an agent that only observes: it selects the interface
	// that carries it. Not valid: unknown.
	Peer netip.Addr
	// Over, when closed, ends the observation of an agent that only observes. It ends by itself
	// once the run must be over: after warm-up, duration and drain.
	Over <-chan struct{}

	tables  *stacks.Tables // shared by several runs; nil: created for this one
	compose Composer       // of targets with an Origin
}

// ShareResult is what one host did of a run. It is plain data except for the Result, which has its
// own wire form.
type ShareResult struct {
	// Result is nil for a host that only observed.
	Result *load.Result `json:"-"`
	// Threads and Connections of the share.
	Threads     int `json:"threads"`
	Connections int `json:"connections"`
	// Target as resolved here.
	Target      string             `json:"target"`
	Environment record.Environment `json:"environment"`
	ServerInfo
	// RestoreErr says what could not be undone; "": nothing.
	RestoreErr string `json:"left_over,omitempty"`
}

// LoadRow converts a tally to a row of the series.
func LoadRow(host string, t *load.Tally, late bool) record.LoadRow {
	return record.LoadRow{
		Kind: record.KindLoad, Host: host,
		TNs: t.EndNs, WidthNs: t.EndNs - t.StartNs, Late: late, Warmup: t.Warmup,
		Sent: t.Sent, Completed: t.Completed, Failed: t.Failed, Bad: t.Bad,
		Read: t.Read, Written: t.Written,
		InFlight: t.InFlight, Backlog: t.Behind, Connected: t.Connected,
		RowHandshakes: record.RowHandshakes{Handshakes: t.Shakes.Count, HandshakeCPUNs: t.Shakes.CPUNs},
		P50Ns:         t.Response.Quantile(0.5), P90Ns: t.Response.Quantile(0.9),
		P99Ns: t.Response.Quantile(0.99), MaxNs: t.Response.Max(), MinNs: t.Response.Min(),
		MeanNs: t.Response.Mean(), ServiceMeanNs: t.Service.Mean(), Busy: t.Busy,
	}
}

// Local is the Work of this machine: one agent with the whole share.
type Local struct {
	// Version of this program, for the environment.
	Version string
	// Compose makes the requests of targets with an Origin.
	Compose Composer
	// tables shared by its runs; nil: each has its own.
	tables *stacks.Tables
}

// localJob is the whole share.
type localJob struct{ *part }

// Prepare implements Work.
func (l Local) Prepare(ctx context.Context, s *spec.Spec) (Job, error) {
	if err := checkSystem(s); err != nil {
		return nil, err
	}
	if err := apart(ctx, s); err != nil {
		return nil, err
	}
	p, err := prepare(ctx, s, ShareOptions{Load: true, Observe: true, Version: l.Version, compose: l.Compose, tables: l.tables})
	if err != nil {
		return nil, err
	}
	return localJob{p}, nil
}

// Environment implements Job.
func (j localJob) Environment() record.Environment { return j.env }

// Close implements Job.
func (j localJob) Close() error { return j.restore() }

// Do implements Job.
func (j localJob) Do(ctx context.Context, sink Sink) (*RunResult, error) {
	d, err := j.do(ctx, sink)
	if err != nil {
		return nil, err
	}
	return &RunResult{Result: d.Result, Threads: d.Threads, Connections: d.Connections, Target: d.Target, ServerInfo: d.ServerInfo}, nil
}
