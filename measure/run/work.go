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

// Work does the loading and the watching of runs: this machine (Local), or the
// agents of a fleet. A run on this machine is one agent with the whole share, so
// there is one path through Do.
type Work interface {
	// Prepare looks whether the run can be done and sets it up as far as nothing
	// of the record is needed. What is wrong with the request wraps ErrRefused. The
	// spec is checked, and stays unchanged until the job is closed.
	Prepare(ctx context.Context, s *spec.Spec) (Job, error)
}

// Job is a run that is set up. One of several agents also answers them:
// Agents() []record.Agent, with what is known of each before it has done anything.
type Job interface {
	// Environment of the host that the run is asked on.
	Environment() record.Environment
	// Do does the run, once, and tells sink. Where the context ends it, what was
	// measured until then is the answer, and its Result is Interrupted. An error is
	// for what prevented any measuring on this side.
	Do(ctx context.Context, sink Sink) (*Worked, error)
	// Close gives back what the run has taken; it is called always and once, after
	// Do where that is called. Its error is what could not be restored.
	Close() error
}

// Sink is told what happens, while it happens. Calls of the load.Observer come
// from one goroutine; the other methods are called from any, and may be at the
// same time. All must return soon, and keep nothing of their arguments.
type Sink interface {
	load.Observer
	// Observed is told of a row of what a host did, which carries that host's name.
	Observed(record.ObservedRow)
	// NotMeasured is told what could not be measured, once each.
	NotMeasured(record.NotMeasured)
	// AgentInterval is told, of several agents only, what one of them did in one
	// interval. late as in Interval.
	AgentInterval(agent string, t *load.Tally, late bool)
}

// Worked is what came of a run.
type Worked struct {
	Result *load.Result
	// Threads and Connections as set up, over all agents.
	Threads, Connections int
	// Target is the address that was loaded, as it was resolved.
	Target string
	Found
	// Agents of several, and what they had in common; nil: this machine alone.
	Agents []record.Agent
	Fleet  *record.Fleet
}

// Found is what is known of the server's side, and of the generator's own reserve,
// once the load is over. It is plain data.
type Found struct {
	// Identities of the server's processes, on the hosts that were watched.
	Identities []Identity `json:"identities,omitempty"`
	// Profiles of the server, and the raw CPU profile among them (pprof, gzip).
	Profiles   []record.Profile `json:"profiles,omitempty"`
	CPUProfile []byte           `json:"cpu_profile,omitempty"`
	// Stacks of the server's processes, and those of its CPU as text (folded).
	Stacks *record.Stacks `json:"stacks,omitempty"`
	Folded []byte         `json:"folded,omitempty"`
	// FoldedOff are those of what its threads waited for.
	FoldedOff []byte `json:"folded_off,omitempty"`
	// Profiling is what was asked for by --profile, ProfileFiles the profiles
	// themselves by the names of their files (pprof, gzip).
	Profiling    *record.Profiling `json:"profiling,omitempty"`
	ProfileFiles map[string][]byte `json:"profile_files,omitempty"`
	// Headroom of the generator, as record.Generator has it; 0 where it is not
	// known, for a reason that the sink was told.
	Headroom float64 `json:"headroom,omitempty"`
	// HeadroomBy says how it is known, as record.Generator has it.
	HeadroomBy string `json:"headroom_by,omitempty"`
}

// Identity tells which program a process of the server runs.
type Identity struct {
	Host string `json:"host"` // of the rows it was found in
	PID  int    `json:"pid"`
	// BinaryID and GOMAXPROCS as in record.SubjectProcess.
	BinaryID   string `json:"binary_id,omitempty"`
	GOMAXPROCS int    `json:"gomaxprocs,omitempty"`
}

// ShareOptions say which part of a run this host does.
type ShareOptions struct {
	// Share of the load; the zero value is all of it.
	Share load.Share
	// Load: it loads, and watches the generator's end. Observe: it looks for the
	// server on this host, watches it, identifies and profiles it, and moves it to
	// the CPUs of Spec.PinServer. One of the two has to be.
	Load, Observe bool
	// Host names this host in the rows: the agent's name. "" is the host's own.
	Host string
	// Version of this program, for the environment.
	Version string
	// Ready and Start as in load.Config. An agent that only observes is ready once
	// its sources are open, and tells 0 of 0.
	Ready func(established, asked int)
	Start <-chan time.Time
	// Permit, if set, is asked before anything is sent to an address, a name's
	// every one before it is tried, or to a unix socket (its path; the address is
	// then not valid): the target, and the pprof endpoint. What it refuses is not
	// reached, and its error, which says why, refuses the run (of a pprof endpoint:
	// is not measured).
	Permit func(to netip.AddrPort, unix string) error
	// Peer is where the load comes from, for one that only observes: it tells which
	// interface carries it. Not valid: that is not known.
	Peer netip.Addr
	// Over ends the watching of an agent that only observes, by being closed. It
	// ends by itself once the run must be over: after warm-up, duration and drain.
	Over <-chan struct{}

	tables *stacks.Tables // of several runs; nil: made for this one
}

// ShareResult is what one host did of a run. It is plain data but for the Result,
// which has a wire form of its own.
type ShareResult struct {
	// Result is nil of a host that only observed.
	Result *load.Result `json:"-"`
	// Threads and Connections of the share.
	Threads     int `json:"threads"`
	Connections int `json:"connections"`
	// Target as it was resolved here.
	Target      string             `json:"target"`
	Environment record.Environment `json:"environment"`
	Found
	// RestoreErr says what could not be restored; "" all was.
	RestoreErr string `json:"left_over,omitempty"`
}

// LoadRow is a tally as a row of the series.
func LoadRow(host string, t *load.Tally, late bool) record.LoadRow {
	return record.LoadRow{
		Kind: record.KindLoad, Host: host,
		TNs: t.EndNs, WidthNs: t.EndNs - t.StartNs, Late: late, Warmup: t.Warmup,
		Sent: t.Sent, Completed: t.Completed, Failed: t.Failed, Bad: t.Bad,
		Read: t.Read, Written: t.Written,
		InFlight: t.InFlight, Backlog: t.Behind, Connected: t.Connected,
		RowHandshakes: record.RowHandshakes{Handshakes: t.Handshakes, HandshakeCPUNs: t.HandshakeCPUNs},
		P50Ns:         t.Response.Quantile(0.5), P90Ns: t.Response.Quantile(0.9),
		P99Ns: t.Response.Quantile(0.99), MaxNs: t.Response.Max(), MinNs: t.Response.Min(),
		MeanNs: t.Response.Mean(), ServiceMeanNs: t.Service.Mean(), Busy: t.Busy,
	}
}

// Local is the Work of this machine: one agent with the whole share.
type Local struct {
	// Version of this program, for the environment.
	Version string
	// tables that its runs share; nil: each has its own.
	tables *stacks.Tables
}

// localJob is a share that is the whole.
type localJob struct{ *part }

// Prepare implements Work.
func (l Local) Prepare(ctx context.Context, s *spec.Spec) (Job, error) {
	if err := apart(ctx, s); err != nil {
		return nil, err
	}
	p, err := prepare(ctx, s, ShareOptions{Load: true, Observe: true, Version: l.Version, tables: l.tables})
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
func (j localJob) Do(ctx context.Context, sink Sink) (*Worked, error) {
	d, err := j.do(ctx, sink)
	if err != nil {
		return nil, err
	}
	return &Worked{Result: d.Result, Threads: d.Threads, Connections: d.Connections, Target: d.Target, Found: d.Found}, nil
}
