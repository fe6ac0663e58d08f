package record

import (
	"fmt"
	"time"

	"ceiling/experiment/spec"
	"ceiling/internal/hist"
	"ceiling/internal/unit"
)

// PlanSchema names the version of the Plan document.
const PlanSchema = "ceiling.plan/4"

// Plan is one experiment kept: what was asked, every run that was made of it,
// and the answer. It has a file like a run's, and its runs lie in it.
type Plan struct {
	Schema  string    `json:"schema"`
	ID      string    `json:"id"`
	Created time.Time `json:"created"`
	// Command is the command line as it was typed.
	Command    []string        `json:"command,omitempty"`
	Experiment spec.Experiment `json:"experiment"`
	// Hidden tells that secrets of the experiment are hidden, so that its requests
	// cannot be made of it again.
	Hidden bool `json:"hidden,omitempty"`
	// Environment of the host that generated the load.
	Environment Environment `json:"environment"`
	// CPUs of the two sides, where they were chosen for it.
	CPUs *CPUSplit `json:"cpus,omitempty"`
	// Runs that were made, in that order.
	Runs []Measured `json:"runs"`

	// Ended is how the plan ended: EndedComplete, EndedConverged, EndedEarly,
	// EndedInterrupted or EndedFailed; "" while it goes on. Because says why.
	Ended   string    `json:"ended,omitempty"`
	Because Statement `json:"because,omitzero"`
	TookS   float64   `json:"took_s,omitempty"`
	// Exit is the exit code that the answer calls for.
	Exit int `json:"exit"`

	// The answer, one of them, by Experiment.Kind.
	Sweep      *Sweep      `json:"sweep,omitempty"`
	Search     *Search     `json:"search,omitempty"`
	Proof      *Proof      `json:"proof,omitempty"`
	Comparison *Comparison `json:"comparison,omitempty"`
	Factorial  *Factorial  `json:"factorial,omitempty"`

	// LeftOut is what a copy lacks.
	LeftOut []LeftOut `json:"-"`

	// Problems says in words what is wrong with the file that it was read from, at
	// most ten lines of it. One that was killed and resumed has such a line.
	Problems []string `json:"-"`

	// Where its runs are, of one that was read.
	file   File
	places map[string]place
}

// CPUSplit is which CPUs generator and server had in all runs of a plan.
type CPUSplit struct {
	// Generator and Server are CPU lists as in "0-3,8"; "" where they could not
	// be parted.
	Generator string `json:"generator,omitempty"`
	Server    string `json:"server,omitempty"`
	// Says is what was done, or why they could not be parted.
	Says Statement `json:"says"`
}

// Says is the answer in one statement, none where there is none yet.
func (p *Plan) Says() Statement {
	switch {
	case p.Search != nil:
		return p.Search.Says
	case p.Proof != nil:
		return p.Proof.Says
	case p.Comparison != nil:
		return p.Comparison.Says
	case p.Factorial != nil:
		return State("factorial.says", Values{"answer": p.Factorial.Answer})
	case p.Sweep != nil && len(p.Sweep.Curves) == 1:
		return p.Sweep.Curves[0].Says
	case p.Sweep != nil:
		return State("plan.curves", Values{"curves": len(p.Sweep.Curves)})
	}
	return p.Because
}

// Onward says how to go on with a plan that did not come to its end.
func (p *Plan) Onward() Statement {
	if p.Hidden {
		return State("plan.not-resumable", nil)
	}
	return State("plan.resume", Values{"id": p.ID})
}

// How a plan ended.
const (
	EndedComplete    = "complete"    // every run that was spelled out has been made
	EndedConverged   = "converged"   // a search knows its answer
	EndedEarly       = "hopeless"    // no further run can give an answer
	EndedInterrupted = "interrupted" // it can be resumed
	EndedFailed      = "failed"      // a run could not be made; it can be resumed
)

// Step is one run spelled out beforehand.
type Step struct {
	// Number counts from 1 in the order of the plan.
	Number int `json:"number"`
	// Server and Mix are indices into the experiment's lists.
	Server int `json:"server"`
	Mix    int `json:"mix"`
	// The load: of a closed loop, or with a Rate of an open one.
	Connections int       `json:"connections"`
	Pipelining  int       `json:"pipelining"`
	Rate        unit.Rate `json:"rate,omitzero"`
	// Repeat counts the runs of one condition, from 1.
	Repeat int `json:"repeat,omitempty"`
	// Cell of a factorial experiment: an index into the levels of each factor.
	Cell []int `json:"cell,omitempty"`
	// Block of a proof, a comparison or a factorial experiment, from 1; Side of a
	// comparison: "A" or "B". In a block of Noise both are the same server.
	Block int    `json:"block,omitempty"`
	Side  string `json:"side,omitempty"`
	Noise bool   `json:"noise,omitempty"`
	// Take names what is taken away during this run of a proof; "" is the run
	// that the others are held against.
	Perturb Perturbation `json:"perturb,omitzero"`
	// MayGiveUp allows to end the run as soon as it cannot hold its SLO anymore.
	MayStopEarly bool `json:"may_stop_early,omitempty"`
	// Settle is a run that is not counted: the first touch of a server.
	WarmupRun bool `json:"warmup_run,omitempty"`
	// Restart starts anew, before this run, the servers that a command makes
	// (all of them, the second instance of A too): what one process happens to
	// get, the place of its memory and of its threads, is then a matter of the
	// block and not of the side.
	Restart bool `json:"restart,omitempty"`
}

// Part says in a few words which part a step has in its plan; "" where it is
// the only one of its condition.
func (s *Step) Part() string {
	switch {
	case s.WarmupRun:
		return "warm-up run (discarded)"
	case s.Cell != nil:
		return fmt.Sprintf("block %d", s.Block)
	case s.Noise:
		return fmt.Sprintf("block %d, %s of A vs A", s.Block, s.Side)
	case s.Side != "":
		return fmt.Sprintf("block %d, %s", s.Block, s.Side)
	case s.Perturb.Resource != "":
		return fmt.Sprintf("block %d, %.0f%% of %s taken", s.Block, 100*s.Perturb.Share, s.Perturb.Resource)
	case s.Block > 0:
		return fmt.Sprintf("block %d, undisturbed", s.Block)
	case s.Repeat > 0:
		return fmt.Sprintf("repeat %d", s.Repeat)
	}
	return ""
}

// Resources that a proof takes from.
const (
	PerturbGenerator   = "generator"   // CPU of the generator's threads
	PerturbServer      = "server CPU"  // CPU of the server's processes
	PerturbLink        = "link"        // bits per second of an interface
	PerturbConcurrency = "concurrency" // requests in flight
)

// Take is what is taken from a resource, for one run.
type Perturbation struct {
	// Resource is one of the names above.
	Resource string `json:"resource,omitempty"`
	// Share of it that shall be taken, 0 to 1.
	Share float64 `json:"share,omitempty"`
}

// Taken is what was taken in truth.
type Perturbed struct {
	Perturbation
	// Left is what remained of the resource, as a ratio to what there was,
	// measured: 0.8 of the CPU time, 51 of 64 slots.
	Left float64 `json:"left"`
	// How it was taken, in words.
	How string `json:"how"`
}

// Measured is one run of a plan, done: what the plan needs to know of it.
type Measured struct {
	Step
	// Run is the ID of its record, within the plan's own; "" where none was
	// made.
	Run     string    `json:"run"`
	Started time.Time `json:"started"`
	// TookS is the whole run with its warm-up; ElapsedS the measured time.
	TookS    float64 `json:"took_s"`
	ElapsedS float64 `json:"elapsed_s"`
	// Requests per second. AskedPerS is 0 in a closed loop.
	TargetPerS    float64 `json:"target_per_s,omitempty"`
	SentPerS      float64 `json:"sent_per_s"`
	CompletedPerS float64 `json:"completed_per_s"`
	Completed     uint64  `json:"completed"`
	Failed        uint64  `json:"failed"`
	// BadShare of the requests failed or were answered with an unexpected status.
	BadShare float64   `json:"bad_share"`
	Response Quantiles `json:"response"`
	Service  Quantiles `json:"service"`
	// CPU nanoseconds a request; 0 where it was not measured.
	ServerCPUNs    float64 `json:"server_cpu_ns,omitempty"`
	GeneratorCPUNs float64 `json:"generator_cpu_ns,omitempty"`
	// What the run's own verdict says.
	Outcome    Outcome     `json:"outcome"`
	Bottleneck Bottleneck  `json:"bottleneck"`
	Because    []Statement `json:"because,omitempty"`
	// NotRun is why the run was not made; then it has no ID.
	NotRun string `json:"not_run,omitempty"`
	// BacklogShare of the asked requests, as in the verdict.
	BacklogShare float64 `json:"backlog_share,omitempty"`
	// OtherCores that other programs used meanwhile, as in the verdict.
	OtherCores float64 `json:"other_cores,omitempty"`
	// SLO has every asked term with the value found.
	SLO []SLOTerm `json:"slo,omitempty"`
	// GaveUp says why the run was ended before its time; its figures are those
	// until then.
	StoppedEarly string `json:"stopped_early,omitempty"`
	MeasuredMore

	// Histogram of the response time, for merging; read from the run's record.
	Histogram *hist.Hist `json:"-"`
}

// MeasuredMore is what some runs of a plan have.
type MeasuredMore struct {
	// P99AtLeastNs is what the p99 of a run that was ended early would have been at
	// least, had it gone on; 0 where nothing is known of it.
	P99AtLeastNs int64      `json:"p99_at_least_ns,omitempty"`
	Perturbed    *Perturbed `json:"perturbed,omitempty"`
	// Stations are where a request's time goes, as in the run's verdict.
	Stations []Station `json:"stations,omitempty"`
	// Tuned is what was set on the host meanwhile.
	Tuned []Tuned `json:"tuned,omitempty"`
	// Profiles are what a request cost, by function, where --profile was given.
	Profiles []RequestProfile `json:"profiles,omitempty"`
}

// Tuned is one thing that was set on the host during a run, and set back behind it.
type Tuned struct {
	// What as ceiling tune names it: "eth0 rx-0 rps_cpus".
	What   string `json:"what"`
	Before string `json:"before"`
	During string `json:"during"`
}

// SLOTerm is one term of an SLO with what was measured, in the unit of its
// limit (nanoseconds, a share, requests per second).
type SLOTerm struct {
	Term  string  `json:"term"`
	Value float64 `json:"value"`
	Met   bool    `json:"met"`
}

// Estimate is a figure with the interval that it may lie in.
type Estimate struct {
	Mid  float64 `json:"mid"`
	Low  float64 `json:"low"`
	High float64 `json:"high"`
	// Confidence of the interval, 0 to 1; 0 where there is none, and Low and
	// High are the smallest and the largest that was measured.
	Confidence float64 `json:"confidence"`
	// Warnings say what the interval lacks, and the remedy.
	Warnings []Statement `json:"warnings,omitempty"`
}

// Sweep is the answer of a sweep: one curve for everything but the load.
type Sweep struct {
	Curves []Curve `json:"curves"`
}

// Curve is throughput over load, for one server, one mix and one pipelining
// (or over the asked rate, for one number of connections).
type Curve struct {
	Server string `json:"server"`
	Mix    string `json:"mix"`
	// Over is what the points differ in: "connections", "pipelining", "rate",
	// or "" for a single point.
	Over string `json:"over"`
	// Fixed is the rest: pipelining 10.
	Fixed  []Statement  `json:"fixed"`
	Points []CurvePoint `json:"points"`
	Knee   *Knee        `json:"knee,omitempty"`
	USL    *USL         `json:"usl,omitempty"`
	// Bottleneck is that of the points beyond the knee, or of the last; Says is
	// the verdict on the curve.
	Bottleneck Bottleneck  `json:"bottleneck"`
	Says       Statement   `json:"says"`
	Caveats    []Statement `json:"caveats,omitempty"`
}

// CurvePoint is one condition with all its runs.
type CurvePoint struct {
	// X is the value of Curve.Over.
	X           float64  `json:"x"`
	Connections int      `json:"connections"`
	Pipelining  int      `json:"pipelining"`
	TargetPerS  float64  `json:"target_per_s,omitempty"`
	Runs        int      `json:"runs"`
	Invalid     int      `json:"invalid"` // of them, and left out where others are not
	PerS        Estimate `json:"per_s"`
	// Response is of all counted runs' histograms together.
	Response       Quantiles `json:"response"`
	ServerCPUNs    Estimate  `json:"server_cpu_ns"`
	GeneratorCPUNs Estimate  `json:"generator_cpu_ns"`
	BadShare       float64   `json:"bad_share"`
	// Outcome and Ceiling that most runs have; Split where they do not agree.
	Outcome    Outcome    `json:"outcome"`
	Bottleneck Bottleneck `json:"bottleneck"`
	Split      string     `json:"split,omitempty"`
	// PerRun has the rate of every counted run, requests per second.
	PerRun []float64 `json:"per_run"`
	RunIDs []string  `json:"run_ids"`
}

// Knee is where more load stops to bring more throughput: between two
// neighbouring points.
type Knee struct {
	// Low is the last load where more still helped, High the first where it no
	// longer did; 0 where the list does not bracket it on that side.
	Low  float64 `json:"low"`
	High float64 `json:"high"`
	// PerS at High, requests per second.
	PerS float64 `json:"per_s"`
	// Add names the loads that would bracket it.
	Add []float64 `json:"add,omitempty"`
}

// USL is the Universal Scalability Law fitted to a curve:
// X(N) = λN / (1 + σ(N-1) + κN(N-1)).
type USL struct {
	Lambda Estimate `json:"lambda"` // requests per second at N = 1
	Sigma  Estimate `json:"sigma"`  // contention
	Kappa  Estimate `json:"kappa"`  // coherency
	// Best concurrency and the throughput there; nil where the curve never bends.
	Best     *Estimate `json:"best,omitempty"`
	PeakPerS *Estimate `json:"peak_per_s,omitempty"`
	// BestAtLeast is what the best concurrency is not below, where it is not
	// known; 0 unknown.
	BestAtLeast float64 `json:"best_at_least,omitempty"`
	R2          float64 `json:"r2"`
	// Trusted is false where a warning forbids to use it.
	Trusted  bool        `json:"trusted"`
	Warnings []Statement `json:"warnings,omitempty"`
}

// Search is the answer of a search: the highest rate that holds the SLO.
type Search struct {
	SLO string `json:"slo"`
	// Holds is the highest rate that held, requests per second; its interval
	// reaches to the lowest that did not.
	Capacity Estimate `json:"capacity"`
	// Limit is what ended the search upwards: LimitServer (a higher rate breaks
	// the SLO), LimitGenerator (this generator cannot send more), LimitAsked
	// (the person's own bound) or LimitNone (nothing held).
	Limit string `json:"limit"`
	// Breaks first above it: the terms that failed, the passive verdict there.
	Failed     []SLOTerm  `json:"failed,omitempty"`
	Bottleneck Bottleneck `json:"bottleneck,omitempty"`
	Says       Statement  `json:"says"`
	// Rates that were tried, ascending.
	Rates   []TriedRate `json:"rates"`
	Caveats []Statement `json:"caveats,omitempty"`
}

// What ends a search upwards.
const (
	LimitServer    = "server"
	LimitGenerator = "generator"
	LimitAsked     = "asked"
	LimitNone      = "none"
	LimitUnproved  = "unproved" // what was tried above it proves nothing
)

// TriedRate is one rate of a search with all its runs.
type TriedRate struct {
	PerS         float64 `json:"per_s"`
	Runs         int     `json:"runs"`
	Pass         int     `json:"pass"`
	Fail         int     `json:"fail"`
	Invalid      int     `json:"invalid"`
	StoppedEarly int     `json:"stopped_early"`
	// Response is of all runs' histograms together, but those that gave up.
	Response   Quantiles  `json:"response"`
	Bottleneck Bottleneck `json:"bottleneck"`
	// MissedP99Ns is the p99 of the runs that failed, the median of them;
	// MissedAtLeast says that it is only known not to be below that, since some were
	// ended early. 0 where none failed or nothing is known.
	MissedP99Ns   int64 `json:"missed_p99_ns,omitempty"`
	MissedAtLeast bool  `json:"missed_at_least,omitempty"`
}

// Proof is the answer of an experiment that took something from one resource
// at a time.
type Proof struct {
	// PerS of the runs that nothing was taken from.
	PerS      Estimate     `json:"per_s"`
	Resources []Elasticity `json:"resources"`
	// Sum of the elasticities over all rates (slots are not a rate).
	Sum Estimate `json:"sum"`
	// Proved is the resource with the largest elasticity, where its interval
	// stands apart from the others; "" where none does.
	Proved string `json:"proved"`
	// Passive is the ceiling that most undisturbed runs' verdicts name; Agrees
	// is "agrees", "contradicts" or "cannot tell".
	Passive Bottleneck  `json:"passive"`
	Agrees  string      `json:"agrees"`
	Says    Statement   `json:"says"`
	Caveats []Statement `json:"caveats,omitempty"`
	// NotTested are the resources that were not touched, with the reason.
	NotTested []NotTested `json:"not_tested,omitempty"`
}

// NotTested is a resource that nothing was taken from.
type NotTested struct {
	Resource string    `json:"resource"`
	Why      Statement `json:"why"`
}

// Elasticity says how throughput follows one resource: 1 takes all of it along,
// 0 does not notice.
type Elasticity struct {
	Resource string `json:"resource"`
	How      string `json:"how"`
	// Left of the resource, on average over the runs.
	Left       float64  `json:"left"`
	PerS       Estimate `json:"per_s"`
	Elasticity Estimate `json:"elasticity"`
	Blocks     int      `json:"blocks"`
}

// Comparison is the answer to: did B change anything against A?
type Comparison struct {
	A string `json:"a"`
	B string `json:"b"`
	// Differences besides the result, the grave ones first.
	Differences []Difference `json:"differences"`
	// Incomparable says why the two cannot be compared; none where they can.
	Incomparable []Statement `json:"incomparable,omitempty"`
	Changes      []Change    `json:"changes"`
	// Profiles are what the profiles of the two sides differ in, where both have them.
	Profiles []ProfileDifference `json:"profiles,omitempty"`
	// Blocks that were counted, and blocks of A against A.
	Blocks      int         `json:"blocks"`
	NoiseBlocks int         `json:"noise_blocks"`
	Says        Statement   `json:"says"`
	Caveats     []Statement `json:"caveats,omitempty"`
	// Gate has the conditions of --fail-on.
	Gate []GateResult `json:"gate,omitempty"`
}

// Difference is something that is not the same on both sides.
type Difference struct {
	What string `json:"what"`
	A    string `json:"a"`
	B    string `json:"b"`
	// Weight is "forbids" (the two cannot be compared), "explains" (it may be
	// what changed the result) or "noted".
	Weight string    `json:"weight"`
	Why    Statement `json:"why,omitzero"`
}

// Decisions of a Change.
const (
	Better     = "better"
	Worse      = "worse"
	NoChange   = "no change"
	CannotTell = "inconclusive"
)

// Change of one metric from A to B.
type Change struct {
	// Metric is "rps", "p50", "p99" or "server_cpu".
	Metric string  `json:"metric"`
	Unit   string  `json:"unit"` // "/s" or "ns"
	A      float64 `json:"a"`
	B      float64 `json:"b"`
	// Relative is B/A - 1.
	Relative Estimate `json:"relative"`
	// Floor is how far apart A and A were found here, as a share.
	Floor float64 `json:"floor"`
	// Within is the ± that "no change" was shown within, as a share.
	Within   float64   `json:"within"`
	Decision string    `json:"decision"`
	Says     Statement `json:"says"`
	// PerBlock has ln(B/A) of every block, for drawing.
	PerBlock []float64 `json:"per_block"`
}

// GateResult is one condition of --fail-on: "passed", "failed" or
// "inconclusive".
type GateResult struct {
	Condition string    `json:"condition"`
	Result    string    `json:"result"`
	Says      Statement `json:"says"`
}
