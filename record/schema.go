// Package record is one run kept: its schema, the directory it lives in, the
// writer that adds facts as they arrive and the reader that makes sense of
// what is there, also after a crash.
package record

import (
	"cmp"
	"strconv"
	"time"

	"ceiling/experiment/spec"
)

// Schema names the version of the Run document.
const Schema = "ceiling.run/3"

// Run is everything known of one run: the document that --json prints and
// result.json holds.
type Run struct {
	Schema string `json:"schema"`
	ID     string `json:"id"`
	// Started is when the measured window opened, by the wall clock.
	Started time.Time `json:"started"`
	// Command is the command line as it was typed.
	Command []string `json:"command,omitempty"`
	// Target is the URL of the first target.
	Target string    `json:"target"`
	Spec   spec.Spec `json:"spec"`

	Load Load `json:"load"`
	// WarmupS and ElapsedS are seconds; ElapsedS is the time the counted
	// requests took, which in an open loop includes the drain.
	WarmupS  float64  `json:"warmup_s"`
	ElapsedS float64  `json:"elapsed_s"`
	Requests Requests `json:"requests"`
	Rate     Rate     `json:"rate"`
	Bytes    Bytes    `json:"bytes"`
	// Statuses counts responses by status code; those of gRPC calls by its name.
	Statuses map[string]uint64 `json:"statuses"`
	Errors   []Error           `json:"errors"`
	// ErrorResponses has the first response of each unexpected status.
	ErrorResponses []ErrorResponse `json:"error_responses,omitempty"`
	Latency        Latency         `json:"latency"`
	// Edges of the window of a closed loop; none where they are not known.
	Edges *Edges `json:"edges,omitempty"`
	// Lone requests, sent one at a time before the load; none where there were not
	// any. FirstAnswers is how long after the start of a closed loop with a warm-up
	// each connection had its first answer, of those that got one before the window.
	Lone         *Lone `json:"lone,omitempty"`
	FirstAnswers []Bin `json:"first_answers,omitempty"`
	// ByTarget has one row per target where the run has more than one.
	ByTarget  []TargetResult `json:"by_target,omitempty"`
	Generator Generator      `json:"generator"`

	// Agents has one entry for each agent of a run of several, and Fleet what
	// they had in common; none where this machine did it alone.
	Agents []Agent `json:"agents,omitempty"`
	Fleet  *Fleet  `json:"fleet,omitempty"`

	// Environment is the host that the run was asked on; it is the generator's
	// too where there are no agents.
	Environment Environment   `json:"environment"`
	Subject     *Subject      `json:"subject,omitempty"`
	NotMeasured []NotMeasured `json:"not_measured"`
	// Quorum is the key-value bucket behind the server, where it said that it has one.
	Quorum *Quorum `json:"quorum,omitempty"`
	// Database behind the server, and the service that it calls, where one of them said so.
	Database   *Database   `json:"database,omitempty"`
	Downstream *Downstream `json:"downstream,omitempty"`
	// Profiles of the subject, where it has a pprof endpoint.
	Profiles []Profile `json:"profiles,omitempty"`
	// Stacks of the server's processes, taken from the kernel.
	Stacks *Stacks `json:"stacks,omitempty"`
	// Profiling is what --profile found.
	Profiling *Profiling `json:"profiling,omitempty"`

	Verdict Verdict `json:"verdict"`
	// Interrupted tells that the run ended before its plan.
	Interrupted bool `json:"interrupted,omitempty"`
	// GaveUp says why a run of a search was ended before its time: it could not
	// hold its SLO anymore.
	StoppedEarly string `json:"stopped_early,omitempty"`
	// Unfinished tells that no result was written: the figures were put
	// together from the series of a run that was killed.
	Unfinished bool `json:"unfinished,omitempty"`
	// Exit is the exit code of the command (see docs/record.md).
	Exit int `json:"exit"`
}

// BadShare of the requests failed or were answered with an unexpected status.
func (r *Run) BadShare() float64 {
	bad := r.Requests.Failed
	for _, e := range r.Errors {
		if e.Phase == PhaseStatus {
			bad += e.Count
		}
	}
	if all := r.Requests.Completed + r.Requests.Failed; all > 0 {
		return float64(bad) / float64(all)
	}
	return 0
}

// Load is what the generator was asked for and what it set up.
type Load struct {
	// Connections asked for; Opened counts connection attempts that were
	// begun before the window; Established those that stood when it opened.
	Connections int `json:"connections"`
	Opened      int `json:"opened"`
	Established int `json:"established"`
	// Reconnects counts connections opened again within the window.
	Reconnects uint64 `json:"reconnects"`
	// Closes are the connections that the server ended within the window, nil where
	// there are none.
	Closes     *Closes `json:"closes,omitempty"`
	Threads    int     `json:"threads"`
	Pipelining int     `json:"pipelining"`
	// Mode is "closed", "open", or "subscribed" where the server decides when it sends.
	Mode string `json:"mode"`
	// Engine is "uring" or "epoll"; EngineWhy says why it was chosen.
	Engine    string `json:"engine"`
	EngineWhy string `json:"engine_why,omitempty"`
	// EngineFeatures lists what the kernel granted the ring.
	EngineFeatures []string `json:"engine_features,omitempty"`
	// Protocol that the connections spoke by its name in ALPN, "h2", or "h2c" of HTTP/2
	// without TLS; "": HTTP/1.1. HTTP2 is what it adds, nil where none spoke it.
	Protocol string `json:"protocol,omitempty"`
	HTTP2    *HTTP2 `json:"http2,omitempty"`
	// TLS of the connections; nil: plain, or no handshake succeeded.
	TLS *TLS `json:"tls,omitempty"`
	// Streams of messages or events; nil: the connections carried requests.
	Streams *Streams `json:"streams,omitempty"`
	// AskedPerS is the mean asked rate of an open loop, requests per second;
	// 0 in a closed loop.
	TargetPerS float64 `json:"target_per_s"`
	// Arrivals of the open loop.
	Arrivals string `json:"arrivals,omitempty"`
}

// Closes counts connections that the server ended after it had answered on them:
// Announced by the response, Idle without a request, InFlight with requests that had
// no response yet. Most is the largest number of responses that one of them had,
// AtMost how many had that number.
type Closes struct {
	Announced uint64 `json:"announced"`
	Idle      uint64 `json:"idle"`
	InFlight  uint64 `json:"in_flight"`
	Most      uint64 `json:"most"`
	AtMost    uint64 `json:"at_most"`
}

// Requests obeys Sent = Completed + Failed + InFlight.
type Requests struct {
	// Sent counts the requests in flight when the window opened (Carried) and
	// those sent while it was open.
	Sent uint64 `json:"sent"`
	// Carried is the part of Sent that was in flight when the window opened.
	InFlightAtStart uint64 `json:"in_flight_at_start"`
	// Completed counts responses read to their last byte, whatever the status.
	Completed uint64 `json:"completed"`
	// Failed counts requests that got no complete response.
	Failed uint64 `json:"failed"`
	// InFlight counts requests still without an answer at the end.
	InFlight uint64 `json:"in_flight"`
	// Unsent counts requests of an open loop that were due and never left.
	Unsent uint64 `json:"unsent"`
	// Asked counts the requests of an open loop that were due by the end;
	// LateAtEnd those of them that had not left when the window closed.
	Due       uint64 `json:"due"`
	LateAtEnd uint64 `json:"late_at_end"`
	// Resent counts requests that went out again because the server closed a
	// connection that had served before it took them. They are sent once in
	// Sent.
	Resent uint64 `json:"resent"`
}

// Rate is requests per second over ElapsedS.
type Rate struct {
	CompletedPerS float64 `json:"completed_per_s"`
	SentPerS      float64 `json:"sent_per_s"`
	// Spread over the run's whole seconds (or intervals where the run is short).
	Spread Spread `json:"spread"`
}

// Spread of the completion rate over intervals of WidthS seconds. Samples that
// came late are left out and counted in Late.
type Spread struct {
	WidthS    float64 `json:"width_s"`
	Samples   int     `json:"samples"`
	Late      int     `json:"late"`
	MinPerS   float64 `json:"min_per_s"`
	P25PerS   float64 `json:"p25_per_s"`
	P50PerS   float64 `json:"p50_per_s"`
	P75PerS   float64 `json:"p75_per_s"`
	MaxPerS   float64 `json:"max_per_s"`
	StdevPerS float64 `json:"stdev_per_s"`
}

// Bytes on the wire above TCP: heads, framing and bodies, both directions.
type Bytes struct {
	Read    uint64 `json:"read"`
	Written uint64 `json:"written"`
}

// Phases of an Error. In PhaseSend and PhaseResponse each is a failed request,
// and all of them together are Requests.Failed. PhaseConnect counts attempts to
// connect, PhaseTLS handshakes on connections that stood, PhaseOpen answers that did not
// open a WebSocket or an event stream, and PhaseIdle connections that failed while they
// had no request; by none of them a request fails. In PhaseStatus requests are completed.
const (
	PhaseConnect  = "connect"
	PhaseTLS      = "tls"
	PhaseOpen     = "open"
	PhaseIdle     = "idle"
	PhaseSend     = "send"
	PhaseResponse = "response"
	PhaseStatus   = "status"
)

// Error counts one cause in one phase.
type Error struct {
	// Phase is one of those above.
	Phase string `json:"phase"`
	// Cause is an errno name ("ECONNRESET"), "timeout", a framing error, or a
	// status code in phase "status" (those requests are completed, not failed), of gRPC
	// its name.
	Cause string `json:"cause"`
	Count uint64 `json:"count"`
	// BeforeWindow marks what went wrong before the window opened.
	BeforeWindow bool `json:"before_window,omitempty"`
}

// OfConnecting tells whether each such error is a connection that could not be opened.
func (e Error) OfConnecting() bool {
	return e.Phase == PhaseConnect || e.Phase == PhaseTLS || e.Phase == PhaseOpen
}

// OfRequest tells whether each of them is a failed request.
func (e Error) OfRequest() bool { return e.Phase == PhaseSend || e.Phase == PhaseResponse }

// ErrorResponse is the first response of one unexpected status.
type ErrorResponse struct {
	Status int `json:"status"`
	// Name of a gRPC status; "" of HTTP's.
	Name string `json:"name,omitempty"`
	// Line is the first line of its body that has any text (of a gRPC status the server's
	// message), at most 200 bytes, of printable characters only; "" where there is none, or
	// it is no text.
	Line string `json:"line,omitempty"`
}

// Code is the status as Run.Statuses calls it.
func (e ErrorResponse) Code() string { return cmp.Or(e.Name, strconv.Itoa(e.Status)) }

// Latency has the three times of a request. Response = done - due, service =
// done - sent, lag = sent - due. Failed requests are in response and service
// with the time until they failed.
type Latency struct {
	Response Quantiles `json:"response"`
	Service  Quantiles `json:"service"`
	Lag      Quantiles `json:"lag"`
	// ResponseBins and ServiceBins are the distributions of a whole run: ascending,
	// none wider than an eighth.
	ResponseBins []Bin `json:"response_bins,omitempty"`
	ServiceBins  []Bin `json:"service_bins,omitempty"`
}

// Quantiles of one latency, nanoseconds.
type Quantiles struct {
	Count  uint64  `json:"count"`
	MeanNs float64 `json:"mean_ns"`
	P50Ns  int64   `json:"p50_ns"`
	P90Ns  int64   `json:"p90_ns"`
	P99Ns  int64   `json:"p99_ns"`
	P999Ns int64   `json:"p999_ns"`
	MinNs  int64   `json:"min_ns"`
	MaxNs  int64   `json:"max_ns"`
	// HDR is the histogram in HdrHistogram V2, base64, on request.
	HDR string `json:"hdr,omitempty"`
}

// Bin is a number of times that were nearly alike, nanoseconds on average.
type Bin struct {
	Ns    int64  `json:"ns"`
	Count uint64 `json:"count"`
}

// Edges are how long the requests of all slots had waited for their answers when
// the window opened, and when it closed, each summed over the requests. With them
// Little's law is exact: slots × window = the response times + InFlightNs −
// CarriedNs.
type Edges struct {
	AtStartNs int64 `json:"at_start_ns"`
	AtEndNs   int64 `json:"at_end_ns"`
}

// Lone is what the requests took that had the server to themselves.
type Lone struct {
	// Sent counts those that were, Failed those of them without an answer, Bad
	// those answered with a status of 400 or more.
	Sent   int `json:"sent"`
	Failed int `json:"failed,omitempty"`
	Bad    int `json:"bad,omitempty"`
	// Connections that they were spread over, in turn.
	Connections int     `json:"connections"`
	ElapsedS    float64 `json:"elapsed_s"`
	// ServiceNs of each that was answered, in the order they were sent. The first
	// Cold of them met a server that was not warm, and are left out of Service.
	ServiceNs []int64   `json:"service_ns"`
	Cold      int       `json:"cold"`
	Service   Quantiles `json:"service"`
}

// AtOnce is the rate times what a lone request takes: by Little's law the
// requests that are worked on while the others wait for their turn.
type ServedAtOnce struct {
	// Requests on average, Low and High its 95 % interval, of so many that could be:
	// the slots, or where pipelined requests are answered one at a time on each
	// connection, the connections.
	Requests float64 `json:"requests"`
	Low      float64 `json:"low"`
	High     float64 `json:"high"`
	Of       float64 `json:"of"`
	// LoneNs is the mean service time of a lone request, nanoseconds.
	LoneNs float64 `json:"lone_ns"`
	// Means InTurn, EachItsTime, or "" where it decides neither.
	Means string `json:"means,omitempty"`
}

// What the number of requests worked on at a time means.
const (
	InTurn      = "in turn"       // the others wait for their turn
	EachItsTime = "each its time" // none waits for another
)

// TargetResult is one target's part of a mix.
type TargetResult struct {
	Target    string            `json:"target"`
	Weight    int               `json:"weight"`
	Completed uint64            `json:"completed"`
	Failed    uint64            `json:"failed"`
	Statuses  map[string]uint64 `json:"statuses"`
	Response  Quantiles         `json:"response"`
}

// Generator is what the generator cost and how near it was to its own limit.
type Generator struct {
	PID int `json:"pid"`
	// CPU of the whole process over the window, nanoseconds.
	UserNs   int64 `json:"user_ns"`
	SystemNs int64 `json:"system_ns"`
	// CPUNsPerRequest is (UserNs + SystemNs) / Completed.
	CPUNsPerRequest float64 `json:"cpu_ns_per_request"`
	// BusiestWorker is the share of the window, 0 to 1, that the busiest
	// worker's thread ran on a CPU.
	BusiestWorker float64 `json:"busiest_worker"`
	// RunDelay is the largest share of the window, 0 to 1, that a worker's
	// thread was runnable but waited for a CPU. -1: not measured.
	RunDelay float64 `json:"run_delay"`
	// AllocatedBytes is what the Go heap of the process handed out in the window.
	AllocatedBytes uint64 `json:"allocated_bytes"`
	// BatchMeanNs and BatchMaxNs are the time from reaping a batch of
	// completions to having handled it.
	BatchMeanNs float64 `json:"batch_mean_ns"`
	BatchMaxNs  int64   `json:"batch_max_ns"`
	// Batches counts waits that returned completions, Waits all of them.
	Batches uint64 `json:"batches"`
	Waits   uint64 `json:"waits"`
	// GatherNs is how long the engine was willing to wait for further
	// completions, nanoseconds; 0 off.
	CoalesceNs int64    `json:"coalesce_ns"`
	Workers    []Worker `json:"workers"`
	// Headroom is the ratio of the rate this generator could reach, by
	// calibration on this machine, to the rate it ran at. 0: unknown.
	Headroom float64 `json:"headroom,omitempty"`
	// HeadroomBy says when and how that calibration was made.
	HeadroomBy string `json:"headroom_by,omitempty"`
}

// Worker is one thread of the engine.
type Worker struct {
	Thread      int     `json:"thread"` // kernel thread id
	Connections int     `json:"connections"`
	Completed   uint64  `json:"completed"`
	Busy        float64 `json:"busy"`      // share of the window on a CPU
	RunDelay    float64 `json:"run_delay"` // share of the window waiting for one; -1 not measured
}

// Subject is the server side of the run, where it was found on a watched host.
type Subject struct {
	Host string `json:"host"`
	// Address that it listens on.
	Address   string           `json:"address"`
	Processes []SubjectProcess `json:"processes"`
	// CPUNsPerRequest of all its processes over the window.
	CPUNsPerRequest float64 `json:"cpu_ns_per_request"`
}

// SubjectProcess names one process of the subject.
type SubjectProcess struct {
	PID   int    `json:"pid"`
	Comm  string `json:"comm"`
	Exe   string `json:"exe,omitempty"`
	CPUNs int64  `json:"cpu_ns"`
	// BinaryID tells one build of the program from another: the linker's ID
	// ("go:…", "gnu:…") or, without one, a hash of the file ("sha256:…"). "" is
	// not known. A script is not told from another: this is its interpreter's.
	BinaryID string `json:"binary_id,omitempty"`
	// GOMAXPROCS that it was started with; 0 where its environment has none or
	// could not be read.
	GOMAXPROCS int `json:"gomaxprocs,omitempty"`
	// CPUsAllowed when it was found, as in "0-3,8"; "" is not known.
	CPUsAllowed string `json:"cpus_allowed,omitempty"`
	// Threads in the last sample of the window.
	Threads int `json:"threads,omitempty"`
}

// Verdict is what the run proves.
type Verdict struct {
	Outcome Outcome `json:"outcome"`
	// Ceiling is the resource that limited the run.
	Bottleneck Bottleneck `json:"bottleneck"`
	// Because is the reason, in one sentence.
	Because  []Statement `json:"because"`
	Evidence []Evidence  `json:"evidence"`
	// Against is measured facts that speak against the ceiling.
	Against []Evidence `json:"against,omitempty"`
	// Missing names what was not measured, where the ceiling is undetermined.
	Missing []Statement `json:"missing,omitempty"`
	Caveats []Statement `json:"caveats"`
	// Next is what to do.
	Next []Statement `json:"next"`
	// NextBottleneck is the resource that would limit next.
	NextBottleneck *NextBottleneck `json:"next_bottleneck,omitempty"`
	// OtherCores is how many cores of the server's host other programs used; 0
	// where none did, or it is not known.
	OtherCores float64 `json:"other_cores,omitempty"`
	// OwedShare of the requests that an open loop asked for were without an
	// answer when the window closed, beyond those at its beginning: the queue
	// grew.
	BacklogShare float64 `json:"backlog_share,omitempty"`
	// SLO has every asked term that could be measured.
	SLO []SLOTerm `json:"slo,omitempty"`
	// AtOnce is how many requests were worked on at a time; none where no lone
	// request tells.
	Concurrency *ServedAtOnce `json:"concurrency,omitempty"`
	// Stations is where a request waits, as shares of its time.
	Stations []Station `json:"stations,omitempty"`
	// StationsBy says what the stations were measured by: "kernel events" or
	// "socket samples"; StationsOf of how many bursts or samples.
	StationsBy string `json:"stations_by,omitempty"`
	StationsOf int    `json:"stations_of,omitempty"`
	// Uses are how busy what works at the stations was, as far as it was watched.
	Uses []Use `json:"uses,omitempty"`
	// Disks are the block devices of the server's host, the busiest first, at most 8.
	Disks []DiskUse `json:"disks,omitempty"`
	// Stalls are the stretches of the window in which nothing was answered.
	Stalls []Stall `json:"stalls,omitempty"`
}

// Stall is a stretch without an answer, though requests were in flight; or, in an
// Outage, without a connection to the server.
type Stall struct {
	FromNs int64 `json:"from_ns"`
	ToNs   int64 `json:"to_ns"`
	Outage bool  `json:"outage,omitempty"`
}

// Evidence is one measured fact that the verdict stands on.
type Evidence struct {
	// What was measured, and where in the record ("generator.busiest_worker").
	What  string    `json:"what"`
	Value float64   `json:"value"`
	Unit  string    `json:"unit"`
	Says  Statement `json:"says"`
}

// NewEvidence is one fact. A record of nonsense can make figures that JSON has no word
// for; they are cut down to the largest that it has.
func NewEvidence(what string, value float64, unit string, says Statement) Evidence {
	return Evidence{What: what, Value: finite(value), Unit: unit, Says: says}
}

// NextBottleneck is a resource and the rate at which it would be reached.
type NextBottleneck struct {
	Bottleneck Bottleneck `json:"bottleneck"`
	// Times this run's rate.
	Times float64   `json:"times"`
	Says  Statement `json:"says"`
}

// What the stations are measured by.
const (
	ByKernelEvents  = "kernel events"
	BySocketSamples = "socket samples"
)

// Station is a place where a request waits, with the share of its time spent
// there, 0 to 1, and the interval of that share.
type Station struct {
	Name  string  `json:"name"`
	Share float64 `json:"share"`
	Low   float64 `json:"low"`
	High  float64 `json:"high"`
}

// LoadRow is one interval of the generator's series.
type LoadRow struct {
	Kind string `json:"kind"` // "load"; of one agent of several "agent"
	Host string `json:"host"` // in a row of kind "agent" the agent's name
	// TNs is the end of the interval, nanoseconds since the window opened
	// (negative during the warm-up); WidthNs its true width.
	TNs     int64 `json:"t_ns"`
	WidthNs int64 `json:"width_ns"`
	// Late marks an interval wider than 1.5 times what was asked.
	Late      bool   `json:"late,omitempty"`
	Warmup    bool   `json:"warmup,omitempty"`
	Sent      uint64 `json:"sent"`
	Completed uint64 `json:"completed"`
	Failed    uint64 `json:"failed"`
	Bad       uint64 `json:"bad,omitempty"` // completed with an unexpected status
	Read      uint64 `json:"read"`
	Written   uint64 `json:"written"`
	// InFlight at the end of the interval; Behind: requests due and not sent.
	InFlight  uint64 `json:"in_flight"`
	Backlog   uint64 `json:"backlog,omitempty"`
	Connected int    `json:"connected"`
	RowHandshakes
	// Quantiles of the response time of this interval, nanoseconds.
	P50Ns int64 `json:"p50_ns"`
	P90Ns int64 `json:"p90_ns"`
	P99Ns int64 `json:"p99_ns"`
	MaxNs int64 `json:"max_ns"`
	MinNs int64 `json:"min_ns"`
	// MeanNs of response and service time.
	MeanNs        float64 `json:"mean_ns"`
	ServiceMeanNs float64 `json:"service_mean_ns"`
	// Busy is the share of the interval the busiest worker ran on a CPU, -1 unknown.
	Busy float64 `json:"busy"`
	// Response is how the response times of the interval lie. nil where nothing was
	// answered, in rows of single agents, and in records of before.
	Response *Steps `json:"response,omitempty"`
}

// Steps counts times in steps of a quarter of a power of two: Counts[i] of them lie
// between hist.StepNs(First+i) and hist.StepNs(First+i+1).
type Steps struct {
	First  int      `json:"first"`
	Counts []uint64 `json:"counts"`
}
