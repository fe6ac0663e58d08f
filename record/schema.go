// Package record defines a stored run: its schema, the file it lives in, the writer that appends
// facts as they arrive, and the reader that also makes sense of what a crash leaves behind.
package record

import (
	"cmp"
	"strconv"
	"time"

	"ceiling/experiment/spec"
)

// Schema names the version of the Run document.
const Schema = "ceiling.run/3"

// Run is everything known about one run: the document that --json prints. The line of a record has it
// without what its head says.
type Run struct {
	Schema string `json:"schema,omitzero"`
	ID     string `json:"id,omitzero"`
	// Started is the wall-clock time at which the measured window opened.
	Started time.Time `json:"started"`
	// Command is the command line as typed.
	Command []string `json:"command,omitempty"`
	// Target is the URL of the first target.
	Target string    `json:"target"`
	Spec   spec.Spec `json:"spec,omitzero"`

	Load Load `json:"load"`
	// WarmupS and ElapsedS are seconds; ElapsedS is the time the counted requests took, which in
	// an open loop includes the drain.
	WarmupS  float64  `json:"warmup_s"`
	ElapsedS float64  `json:"elapsed_s"`
	Requests Requests `json:"requests"`
	Rate     Rate     `json:"rate"`
	Bytes    Bytes    `json:"bytes"`
	// Statuses counts responses by status code.
	Statuses map[string]uint64 `json:"statuses"`
	Errors   []Error           `json:"errors"`
	// ErrorResponses has the first response of each unexpected status, and against each condition.
	ErrorResponses []ErrorResponse `json:"error_responses,omitempty"`
	// Redirects has the first redirect of each status.
	Redirects []Redirect `json:"redirects,omitempty"`
	Latency   Latency    `json:"latency"`
	// Edges of the window of a closed loop; nil if unknown.
	Edges *Edges `json:"edges,omitempty"`
	// Unloaded describes requests sent one at a time before the load; nil if there were none.
	// FirstAnswers is how long after the start of a closed loop with a warm-up each connection
	// got its first response, for those that got one before the window.
	Unloaded     *Unloaded `json:"lone,omitempty"`
	FirstAnswers []Bin     `json:"first_answers,omitempty"`
	// ByTarget has one row per target if the run has several.
	ByTarget  []TargetResult `json:"by_target,omitempty"`
	Generator Generator      `json:"generator"`

	// Agents has one entry per agent of a multi-agent run, and Fleet what they had in common;
	// both are nil if only this machine ran the load.
	Agents []Agent `json:"agents,omitempty"`
	Fleet  *Fleet  `json:"fleet,omitempty"`

	// Environment is the host that the run was started on; without agents it is also the
	// generator's.
	Environment Environment   `json:"environment,omitzero"`
	Subject     *Subject      `json:"subject,omitempty"`
	NotMeasured []NotMeasured `json:"not_measured"`
	// Quorum is the key-value bucket behind the server, if the server reported one.
	Quorum *Quorum `json:"quorum,omitempty"`
	// Database behind the server, and the service that it calls, if either was reported.
	Database   *Database   `json:"database,omitempty"`
	Downstream *Downstream `json:"downstream,omitempty"`
	// Profiles of the subject, if it has a pprof endpoint.
	Profiles []Profile `json:"profiles,omitempty"`
	// Stacks of the server's processes, taken from the kernel.
	Stacks *Stacks `json:"stacks,omitempty"`
	// Profiling is what --profile found.
	Profiling *Profiling `json:"profiling,omitempty"`

	Verdict Verdict `json:"verdict"`
	// Interrupted: the run ended before its plan.
	Interrupted bool `json:"interrupted,omitempty"`
	// StoppedEarly says why a search ended the run early: it could no longer meet its SLO.
	StoppedEarly string `json:"stopped_early,omitempty"`
	// Unfinished: no result was written; the figures come from the series of a run that was
	// killed.
	Unfinished bool `json:"unfinished,omitempty"`
	// Exit is the exit code of the command (see docs/record.md).
	Exit int `json:"exit"`
}

// ReadPerS returns the bytes that the generator read per second, above TCP; 0 if nothing was measured.
func ReadPerS(r *Run) float64 {
	if r.ElapsedS <= 0 {
		return 0
	}
	return float64(r.Bytes.Read) / r.ElapsedS
}

// BadShare returns the share of requests that failed, or got a response that counts as an error.
func (r *Run) BadShare() float64 {
	bad := r.Requests.Failed
	for _, e := range r.Errors {
		if e.OfResponse() && !e.BeforeWindow {
			bad += e.Count
		}
	}
	if all := r.Requests.Completed + r.Requests.Failed; all > 0 {
		return float64(bad) / float64(all)
	}
	return 0
}

// Load is the requested load and what the generator set up.
type Load struct {
	// Connections is the requested number; Opened counts connection attempts started before the
	// window; Established counts connections open when it opened.
	Connections int `json:"connections"`
	Opened      int `json:"opened"`
	Established int `json:"established"`
	// Reconnects counts connections reopened within the window.
	Reconnects uint64 `json:"reconnects"`
	// Closes counts the connections that the server closed within the window; nil if there were
	// none.
	Closes     *Closes `json:"closes,omitempty"`
	Threads    int     `json:"threads"`
	Pipelining int     `json:"pipelining"`
	// Mode is "closed" or "open".
	Mode string `json:"mode"`
	// Engine is "uring", "epoll" or "portable"; EngineWhy says why it was chosen.
	Engine    string `json:"engine"`
	EngineWhy string `json:"engine_why,omitempty"`
	// EngineFeatures lists the io_uring features the kernel granted.
	EngineFeatures []string `json:"engine_features,omitempty"`
	// Protocol is the ALPN name of the connections' protocol, "h2", or "h2c" for HTTP/2 without
	// TLS; "" is HTTP/1.1. HTTP2 has its extra figures, nil if no connection used it.
	Protocol string `json:"protocol,omitempty"`
	HTTP2    *HTTP2 `json:"http2,omitempty"`
	// TLS of the connections; nil if plain, or if no handshake succeeded.
	TLS *TLS `json:"tls,omitempty"`
	// Streams of messages; nil if the connections carried requests.
	Streams *Streams `json:"streams,omitempty"`
	// Events of responses that have server-sent events and end; nil if there were none.
	Events *Events `json:"events,omitempty"`
	// TargetPerS is the mean target rate of an open loop, requests per second; 0 in a closed
	// loop.
	TargetPerS float64 `json:"target_per_s"`
	// Arrivals of the open loop.
	Arrivals string `json:"arrivals,omitempty"`
}

// IsSteady reports whether the rate that was asked for stayed the same during the run.
func IsSteady(r *Run) bool { return r.Spec.Rate.Constant() && r.Spec.Arrivals != spec.Logged }

// Events counts the server-sent events of responses that ended.
type Events struct {
	Responses uint64  `json:"responses"`
	Count     uint64  `json:"count"`
	PerS      float64 `json:"per_s"`
}

// Closes counts connections that the server closed after it had responded on them: Announced
// (Connection: close, a GOAWAY, a WebSocket's close frame), Idle without
// a request, InFlight with requests still without a response. Most is
// the largest number of responses on one of them, AtMost how many had that number.
type Closes struct {
	Announced uint64 `json:"announced"`
	Idle      uint64 `json:"idle"`
	InFlight  uint64 `json:"in_flight"`
	Most      uint64 `json:"most"`
	AtMost    uint64 `json:"at_most"`
	// IdleMeanNs is how long the Idle ones had had no request; 0 if there were none, or unknown. Code
	// is the last WebSocket close frame's; 0 if there was none.
	IdleMeanNs int64  `json:"idle_mean_ns,omitempty"`
	Code       uint64 `json:"code,omitempty"`
}

// Requests obeys Sent = Completed + Failed + InFlight.
type Requests struct {
	// Sent counts the requests in flight when the window opened (InFlightAtStart) and those sent
	// while it was open.
	Sent uint64 `json:"sent"`
	// InFlightAtStart is the part of Sent that was in flight when the window opened.
	InFlightAtStart uint64 `json:"in_flight_at_start"`
	// Completed counts responses read to their last byte, whatever their status.
	Completed uint64 `json:"completed"`
	// Failed counts requests that got no complete response.
	Failed uint64 `json:"failed"`
	// InFlight counts requests still without a response at the end.
	InFlight uint64 `json:"in_flight"`
	// Unsent counts requests of an open loop that were due and never sent.
	Unsent uint64 `json:"unsent"`
	// Due counts the requests of an open loop that were due by the end; LateAtEnd counts those
	// not yet sent when the window closed.
	Due       uint64 `json:"due"`
	LateAtEnd uint64 `json:"late_at_end"`
	// Resent counts requests sent again because the server closed a previously used connection
	// before it read them. Each counts once in Sent.
	Resent uint64 `json:"resent"`
}

// Rate is requests per second over ElapsedS.
type Rate struct {
	CompletedPerS float64 `json:"completed_per_s"` // over the elapsed time
	SentPerS      float64 `json:"sent_per_s"`      // in the window, over the elapsed time
	// Spread over the run's whole seconds (or over intervals if the run is short).
	Spread Spread `json:"spread"`
}

// Spread is the completion rate over intervals of WidthS seconds. Late samples are left out and
// counted in Late.
type Spread struct {
	WidthS    float64 `json:"width_s"`
	Samples   int     `json:"samples"`
	Late      int     `json:"late"`
	MinPerS   float64 `json:"min_per_s"` // of the slowest sample, over its true width
	P25PerS   float64 `json:"p25_per_s"`
	P50PerS   float64 `json:"p50_per_s"`
	P75PerS   float64 `json:"p75_per_s"`
	MaxPerS   float64 `json:"max_per_s"`
	StdevPerS float64 `json:"stdev_per_s"` // n−1
	// WithinStdev is the share of the samples within one deviation of their mean.
	WithinStdev float64 `json:"within_stdev,omitempty"`
}

// Bytes on the wire above TCP: heads, framing and bodies, both directions.
type Bytes struct {
	Read    uint64 `json:"read"` // above TCP: heads, framing and bodies
	Written uint64 `json:"written"`
}

// Phases of an Error. Each error in PhaseSend and PhaseResponse is a failed request; their sum is
// Requests.Failed. PhaseConnect counts connect attempts, PhaseTLS handshakes on established
// connections, PhaseOpen responses that did not open a WebSocket, and PhaseIdle connections that
// failed without a request; none of these fails a request. In PhaseStatus, PhaseCheck and PhaseFault
// the requests are completed; those of PhaseFault have a fault that common clients accept, and count as no error.
const (
	PhaseConnect  = "connect"
	PhaseTLS      = "tls"
	PhaseOpen     = "open"
	PhaseIdle     = "idle"
	PhaseSend     = "send"
	PhaseResponse = "response"
	PhaseStatus   = "status"
	PhaseCheck    = "check"
	PhaseFault    = "fault"
)

// Error counts one cause in one phase.
type Error struct {
	// Phase is one of the constants above.
	Phase string `json:"phase"`
	// Cause is an errno name ("ECONNRESET"), "timeout", a framing error, or in phase "status" a
	// status code, in phase "check" the condition that a response does not satisfy (those requests are
	// completed, not failed).
	Cause string `json:"cause"`
	Count uint64 `json:"count"` // of requests; in the phases connect, tls and open of attempts; in the phases status and check they completed
	// Origin is where it arose; "" in a record of an older version.
	Origin Origin `json:"origin,omitempty"`
	// BeforeWindow marks errors before the window opened.
	BeforeWindow bool `json:"before_window,omitempty"`
}

// OfConnecting reports whether the error is a connection that could not be opened.
func (e Error) OfConnecting() bool {
	return e.Phase == PhaseConnect || e.Phase == PhaseTLS || e.Phase == PhaseOpen
}

// OfRequest reports whether the error is a failed request.
func (e Error) OfRequest() bool { return e.Phase == PhaseSend || e.Phase == PhaseResponse }

// OfResponse reports whether the error is a completed response.
func (e Error) OfResponse() bool { return e.Phase == PhaseStatus || e.Phase == PhaseCheck }

// ErrorResponse is the first response of one unexpected status, or against one condition.
type ErrorResponse struct {
	Status int `json:"status"` // 0: the bytes are not a response
	// Check is the condition that it does not satisfy; "": its status is unexpected. Line is then what it
	// has instead.
	Check string `json:"check,omitempty"`
	// Line is what its body says to a reader: a page's title, a JSON document's message, else the
	// first text, on one line of at most 200 bytes, printable characters only; "" if there is none, or
	// it is not text.
	Line string `json:"line,omitempty"`
}

// Redirect is the first response of one status that sends clients elsewhere: to its Location,
// without user, query and fragment; "" if it has none.
type Redirect struct {
	Status int    `json:"status"`
	To     string `json:"to,omitempty"` // its Location, without user, query and fragment
}

// Code returns the condition, or the status as a key of Run.Statuses.
func (e ErrorResponse) Code() string { return cmp.Or(e.Check, strconv.Itoa(e.Status)) }

// Latency has the three times of a request: response = done - due, service = done - sent, lag =
// sent - due. Failed requests count in response and service with the time until they failed.
type Latency struct {
	Response Quantiles `json:"response"`
	Service  Quantiles `json:"service"`
	Lag      Quantiles `json:"lag"`
	// FirstByte is first byte of the response - sent; nil if every response came in one piece: then it
	// is Service. FirstEvent is the same for the first event of responses that have server-sent events
	// (text/event-stream) and end; nil if there were none.
	FirstByte  *Quantiles `json:"first_byte,omitempty"`
	FirstEvent *Quantiles `json:"first_event,omitempty"`
	// Waiting has the requests that had no response at the end; nil if that was not measured.
	Waiting *Waiting `json:"waiting,omitempty"`
	// ResponseBins and ServiceBins are the distributions over the whole run: ascending, none
	// wider than an eighth.
	ResponseBins []Bin `json:"response_bins,omitempty"`
	ServiceBins  []Bin `json:"service_bins,omitempty"`
}

// Waiting has the requests without a response at the end of the run, by how long they had waited:
// since they were due (Response; those that never left too), and since they left (Service).
type Waiting struct {
	Response Waited `json:"response"`
	Service  Waited `json:"service"`
	// FirstByte has the requests of Service without a begun response, FirstEvent the ones without a
	// server-sent event; nil in a record of an older version.
	FirstByte  *Waited `json:"first_byte,omitempty"`
	FirstEvent *Waited `json:"first_event,omitempty"`
}

// Waited is how long requests had waited, nanoseconds: lower bounds of their times.
type Waited struct {
	Count    uint64  `json:"count"`             // without a response at the end, sent or not
	MeanNs   float64 `json:"mean_ns,omitempty"` // since they were due
	OldestNs int64   `json:"oldest_ns,omitempty"`
	// TimedOut counts requests that were given up earlier; they count among those that ended, with
	// the time until then, also a lower bound.
	TimedOut uint64 `json:"timed_out,omitempty"`
	// HDR is the histogram in HdrHistogram V2 format, base64; "" without requests.
	HDR string `json:"hdr,omitempty"`
}

// Quantiles of one latency, nanoseconds. Count, mean, minimum and histogram are of the requests
// that ended.
type Quantiles struct {
	Count  uint64  `json:"count"`
	MeanNs float64 `json:"mean_ns"` // exact
	P50Ns  int64   `json:"p50_ns"`  // nearest rank, within 0.2%, as the other quantiles
	P75Ns  int64   `json:"p75_ns,omitempty"`
	P90Ns  int64   `json:"p90_ns"`
	P95Ns  int64   `json:"p95_ns,omitempty"`
	P99Ns  int64   `json:"p99_ns"`
	P999Ns int64   `json:"p999_ns"`
	MinNs  int64   `json:"min_ns"` // exact
	MaxNs  int64   `json:"max_ns"` // exact
	// StdevNs is the standard deviation, and WithinStdev the share of the times within one of the mean.
	StdevNs     float64 `json:"stdev_ns,omitempty"`
	WithinStdev float64 `json:"within_stdev,omitempty"`
	// BoundFrom is the lowest of these quantiles, 1 for the maximum, that requests without a
	// response raise, or that falls on one that timed out: it and the higher ones are lower bounds. 0
	// if there is none.
	BoundFrom float64 `json:"bound_from,omitempty"`
	// HDR is the histogram in HdrHistogram V2 format, base64, if requested.
	HDR string `json:"hdr,omitempty"`
}

// Bin counts times that are nearly equal; Ns is their mean.
type Bin struct {
	Ns    int64  `json:"ns"`
	Count uint64 `json:"count"`
}

// Edges is how long the requests of all slots had waited for their responses when the window
// opened, and when it closed, each summed over the requests. With them Little's law is exact:
// slots × window = the response times + AtEndNs − AtStartNs.
type Edges struct {
	AtStartNs int64 `json:"at_start_ns"`
	AtEndNs   int64 `json:"at_end_ns"`
}

// Unloaded describes the requests that had the server to themselves.
type Unloaded struct {
	// Sent counts them; Failed those without a response; Bad those with a status of 400 or more.
	Sent   int `json:"sent"`
	Failed int `json:"failed,omitempty"`
	Bad    int `json:"bad,omitempty"`
	// Connections that they used, in turn.
	Connections int     `json:"connections"`
	ElapsedS    float64 `json:"elapsed_s"`
	// ServiceNs of each that was answered, in sending order. The first Cold of them hit a cold
	// server and are left out of Service.
	ServiceNs []int64 `json:"service_ns"`
	// RestNs of each, from its first bytes to its last: how long the rest of a response was held
	// back. Missing in older records.
	RestNs  []int64   `json:"rest_ns,omitempty"`
	Cold    int       `json:"cold"` // requests, the first of them, which Service leaves out
	Service Quantiles `json:"service"`
}

// ServedAtOnce is the rate times an unloaded request's duration: by Little's law, the requests being
// worked on while the others wait for their turn.
type ServedAtOnce struct {
	// Requests is the mean, Low and High its 95 % interval, and Of the possible maximum: the
	// slots or, if pipelined requests are answered one at a time per connection, the connections.
	Requests float64 `json:"requests"`
	Low      float64 `json:"low"`
	High     float64 `json:"high"`
	Of       float64 `json:"of"`
	// LoneNs is the mean service time of an unloaded request, nanoseconds.
	LoneNs float64 `json:"lone_ns"`
	// Means is InTurn, EachItsTime, or "" if undecided.
	Means string `json:"means,omitempty"`
}

// What the number of requests worked on at a time means.
const (
	InTurn      = "in turn"       // the others wait for their turn
	EachItsTime = "each its time" // no request waits for another
)

// TargetResult is one target's part of a mix.
type TargetResult struct {
	Target    string            `json:"target"`
	Weight    int               `json:"weight"` // over the sum of all weights
	Completed uint64            `json:"completed"`
	Failed    uint64            `json:"failed"`
	Statuses  map[string]uint64 `json:"statuses"`
	Response  Quantiles         `json:"response"`
}

// ComposeCost is what a script or data took to make the requests, apart from the load's own threads.
type ComposeCost struct {
	// What it is: "script", "data" or "session".
	What string `json:"what"`
	// Requests that it made over the whole run, and the CPU time of its threads in the window.
	Requests uint64 `json:"requests"`
	CPUNs    int64  `json:"cpu_ns"`
	// Busy is the share of the window that the busiest of its threads ran.
	Busy float64 `json:"busy"`
	// WaitedShare is the share of the window in which at least one connection of a worker had no
	// request, of the worker where it was largest.
	WaitedShare float64 `json:"waited_share"`
	// DelayedNs sums the delays that it asked for before requests, over all connections: time in which
	// a connection had no request.
	DelayedNs int64 `json:"delayed_ns,omitempty"`
}

// Generator is what the generator cost and how near it was to its limit.
type Generator struct {
	PID int `json:"pid"`
	// CPU of the whole process over the window, nanoseconds.
	UserNs   int64 `json:"user_ns"`
	SystemNs int64 `json:"system_ns"` // in the kernel
	// CPUNsPerRequest is (UserNs + SystemNs) / Completed.
	CPUNsPerRequest float64 `json:"cpu_ns_per_request"`
	// BusiestWorker is the share of the window, 0 to 1, during which the busiest worker's thread
	// ran on a CPU.
	BusiestWorker float64 `json:"busiest_worker"`
	// RunDelay is the largest share of the window, 0 to 1, during which a worker's thread was
	// runnable without a CPU; -1 if not measured.
	RunDelay float64 `json:"run_delay"`
	// AllocatedBytes is what the process allocated on the Go heap during the window.
	AllocatedBytes uint64 `json:"allocated_bytes"`
	// BatchMeanNs and BatchMaxNs are the time from reaping a batch of completions to having
	// handled it.
	BatchMeanNs float64 `json:"batch_mean_ns"`
	// HandlingMeanNs is the same over the responses: how long one is at the generator; its longest
	// batches have most of them. Missing in older records.
	HandlingMeanNs float64 `json:"handling_mean_ns,omitempty"`
	BatchMaxNs     int64   `json:"batch_max_ns"`
	// Batches counts waits that returned completions; Waits counts all waits.
	Batches uint64 `json:"batches"`
	Waits   uint64 `json:"waits"`
	// CoalesceNs is the longest time for which the engine batches completions, ns; 0 is off. With 512
	// requests in flight or more, several per connection, a connection's requests then leave together,
	// when all of its responses are in: the wait is part of their response times.
	CoalesceNs int64    `json:"coalesce_ns"`
	Workers    []Worker `json:"workers"`
	// Source is what making the requests during the run took; nil: they were there before it.
	Source *ComposeCost `json:"source,omitempty"`
	// Headroom is the rate this generator could reach, by calibration on this machine, over its
	// actual rate; 0 if unknown.
	Headroom float64 `json:"headroom,omitempty"`
	// HeadroomBy says when and how the calibration was made.
	HeadroomBy string `json:"headroom_by,omitempty"`
	// Shortages are what the generator's host ran out of, or refused; of all agents.
	Shortages []Shortage `json:"shortages,omitempty"`
}

// Worker is one thread of the engine.
type Worker struct {
	Thread      int     `json:"thread"`      // kernel thread id
	Connections int     `json:"connections"` // it has
	Completed   uint64  `json:"completed"`
	Busy        float64 `json:"busy"`      // share of the window on a CPU
	RunDelay    float64 `json:"run_delay"` // share of the window runnable without a CPU; -1 if not measured
}

// Subject is the server side of the run, if it was found on an observed host.
type Subject struct {
	Host string `json:"host"`
	// Address that it listens on.
	Address string `json:"address"`
	// Sharing is the number of listening sockets that share one address (SO_REUSEPORT); 0 if none do.
	Sharing   int              `json:"sharing,omitempty"`
	Processes []SubjectProcess `json:"processes"`
	// CPUNsPerRequest of all its processes over the window.
	CPUNsPerRequest float64 `json:"cpu_ns_per_request"`
	// Observing is what observing costs a server on its host, by calibration; missing: not measured
	// there.
	Observing *Observing `json:"observing,omitempty"`
}

// SubjectProcess names one process of the subject.
type SubjectProcess struct {
	PID   int    `json:"pid"`
	Comm  string `json:"comm"`
	Exe   string `json:"exe,omitempty"`
	CPUNs int64  `json:"cpu_ns"` // over the window
	// BinaryID identifies a build of the program: the linker's ID ("go:…", "gnu:…") or, without
	// one, a hash of the file ("sha256:…"); "" if unknown. For a script it identifies the
	// interpreter only.
	BinaryID string `json:"binary_id,omitempty"`
	// GOMAXPROCS from its environment at start; 0 if unset or unreadable.
	GOMAXPROCS int `json:"gomaxprocs,omitempty"`
	// CPUsAllowed when it was found, as in "0-3,8"; "" if unknown.
	CPUsAllowed string `json:"cpus_allowed,omitempty"`
	// Connections of the target that it held in the last list of them; nil if unknown.
	Connections *int `json:"connections,omitempty"`
	// Threads in the last sample of the window.
	Threads int `json:"threads,omitempty"`
}

// Verdict is what the run proves.
type Verdict struct {
	Outcome Outcome `json:"outcome"` // pass, fail, valid or invalid
	// Bottleneck is the resource that limited the run.
	Bottleneck Bottleneck `json:"bottleneck"`
	// Because is the reason, in one sentence.
	Because  []Statement `json:"because"`
	Evidence []Evidence  `json:"evidence"`
	// Against is measured facts that contradict the bottleneck.
	Against []Evidence `json:"against,omitempty"`
	// Missing names what was not measured, if the bottleneck is inconclusive.
	Missing []Statement `json:"missing,omitempty"`
	Caveats []Statement `json:"caveats"` // what weakens the verdict
	// Next says what to do.
	Next []Statement `json:"next"`
	// NextBottleneck is the resource that would limit next.
	NextBottleneck *NextBottleneck `json:"next_bottleneck,omitempty"`
	// OtherCores is how many cores of the server's host other programs used; 0 if none or
	// unknown.
	OtherCores float64 `json:"other_cores,omitempty"`
	// BacklogShare is the share of an open loop's requests without a response when the window
	// closed, beyond those at its start: the queue grew.
	BacklogShare float64 `json:"backlog_share,omitempty"`
	// SLO has every requested term that was measurable.
	SLO []SLOTerm `json:"slo,omitempty"`
	// Concurrency is how many requests were worked on at a time; nil if no unloaded request shows it.
	Concurrency *ServedAtOnce `json:"concurrency,omitempty"`
	// Stations is where a request spends its time, as shares.
	Stations []Station `json:"stations,omitempty"`
	// StationsBy says how the stations were measured: "kernel events" or "socket samples";
	// StationsOf is the number of bursts or samples.
	StationsBy string `json:"stations_by,omitempty"`
	StationsOf int    `json:"stations_of,omitempty"`
	// Uses says how busy the resources at the stations were, as far as they were observed.
	Uses []Use `json:"uses,omitempty"`
	// Disks are the block devices of the server's host, the busiest first, at most 8.
	Disks []DiskUse `json:"disks,omitempty"`
	// Hosts are both ends' CPUs by category and their links, the server's first.
	Hosts []HostUse `json:"hosts,omitempty"`
	// Stalls are the stretches of the window without a response.
	Stalls []Stall `json:"stalls,omitempty"`
}

// Stall is a stretch without a response though requests were in flight or, if Outage, without a
// connection to the server.
type Stall struct {
	FromNs int64 `json:"from_ns"`
	ToNs   int64 `json:"to_ns"` // to an interval of the generator, as FromNs
	Outage bool  `json:"outage,omitempty"`
}

// Evidence is one measured fact that supports the verdict.
type Evidence struct {
	// What was measured, as a field of the record ("generator.busiest_worker").
	What  string    `json:"what"`
	Value float64   `json:"value"`
	Unit  string    `json:"unit"`
	Says  Statement `json:"says"`
}

// NewEvidence makes one fact. A corrupt record can yield figures that JSON cannot represent; they
// are clamped to the largest float.
func NewEvidence(what string, value float64, unit string, says Statement) Evidence {
	return Evidence{What: what, Value: finite(value), Unit: unit, Says: says}
}

// NextBottleneck is a resource and the rate at which it would be full.
type NextBottleneck struct {
	Bottleneck Bottleneck `json:"bottleneck"`
	// Times is the multiple of this run's rate.
	Times float64   `json:"times"`
	Says  Statement `json:"says"` // the same, and how near the resource is now
}

// How the stations are measured.
const (
	ByKernelEvents  = "kernel events"
	BySocketSamples = "socket samples"
)

// Station is a place on a request's path, with the share of its time spent there, 0 to 1, and the
// interval of that share.
type Station struct {
	Name  string  `json:"name"`
	Share float64 `json:"share"` // of a request's time
	Low   float64 `json:"low"`
	High  float64 `json:"high"`
}

// LoadRow is one interval of the generator's series.
type LoadRow struct {
	Kind string `json:"kind"` // "load"; "agent" for one of several agents
	Host string `json:"host"` // in a row of kind "agent", the agent's name
	// TNs is the end of the interval, nanoseconds since the window opened
	// (negative during the warm-up); WidthNs its true width.
	TNs     int64 `json:"t_ns"`
	WidthNs int64 `json:"width_ns"`
	// Late marks an interval wider than 1.5 times the requested width.
	Late      bool   `json:"late,omitempty"`
	Warmup    bool   `json:"warmup,omitempty"` // before the window
	Sent      uint64 `json:"sent"`
	Completed uint64 `json:"completed"`
	Failed    uint64 `json:"failed"`
	Bad       uint64 `json:"bad,omitempty"` // completed with an unexpected status
	Read      uint64 `json:"read"`
	Written   uint64 `json:"written"`
	// InFlight and Backlog at the end of the interval; Backlog counts requests due and not sent.
	InFlight  uint64 `json:"in_flight"`
	Backlog   uint64 `json:"backlog,omitempty"`
	Connected int    `json:"connected"` // at the end of the interval
	RowHandshakes
	// Quantiles of the response time of this interval, nanoseconds.
	P50Ns int64 `json:"p50_ns"`
	P90Ns int64 `json:"p90_ns"`
	P99Ns int64 `json:"p99_ns"`
	MaxNs int64 `json:"max_ns"`
	MinNs int64 `json:"min_ns"` // of the interval, as the other response times
	// MeanNs and ServiceMeanNs are the means of response and service time.
	MeanNs        float64 `json:"mean_ns"`
	ServiceMeanNs float64 `json:"service_mean_ns"`
	// Busy is the share of the interval during which the busiest worker ran on a CPU; -1 if
	// unknown.
	Busy float64 `json:"busy"`
	// Response is the distribution of the interval's response times; nil without responses, in
	// rows of single agents, and in old records.
	Response *Steps `json:"response,omitempty"`
}

// Steps counts times in steps of a quarter of a power of two: Counts[i] of them are between
// hist.StepNs(First+i) and hist.StepNs(First+i+1).
type Steps struct {
	First  int      `json:"first"`
	Counts []uint64 `json:"counts"`
}
