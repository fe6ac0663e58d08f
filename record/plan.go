package record

import (
	"fmt"
	"time"

	"ceiling/experiment/spec"
	"ceiling/internal/hist"
)

// PlanSchema names the version of the Plan document.
const PlanSchema = "ceiling.plan/4"

// Plan is a stored experiment: its definition, every run made for it, and the answer. It has one
// file, like a run, which also holds its runs.
type Plan struct {
	Schema  string    `json:"schema"`
	ID      string    `json:"id"`
	Created time.Time `json:"created"`
	// Command is the command line as typed.
	Command    []string        `json:"command,omitempty"`
	Experiment spec.Experiment `json:"experiment"`
	// Hidden: secrets of the experiment are redacted, so it cannot be resumed from this record.
	Hidden bool `json:"hidden,omitempty"`
	// Environment of the load generator's host.
	Environment Environment `json:"environment"`
	// CPUs of the two sides, if ceiling chose them.
	CPUs *CPUSplit `json:"cpus,omitempty"`
	// Runs made, in order.
	Runs []Measured `json:"runs,omitzero"`
	Ending

	// LeftOut is what a copy lacks.
	LeftOut []Omission `json:"-"`

	// Problems describes what is wrong with the file read, at most ten lines. A plan that was
	// killed and resumed has such a line.
	Problems []string `json:"-"`

	// Where its runs are, for a plan read from a file.
	file   File
	places map[string]place
}

// Ending is how a plan ended, and its answer.
type Ending struct {
	// Ended is how the plan ended: EndedComplete, EndedConverged, EndedEarly, EndedInterrupted or
	// EndedFailed; "" while it runs. Because says why.
	Ended   string    `json:"ended,omitempty"`
	Because Statement `json:"because,omitzero"`
	TookS   float64   `json:"took_s,omitempty"`
	// Exit is the exit code that the answer calls for.
	Exit int `json:"exit"`

	// The answer: one of these, by Experiment.Kind.
	Sweep      *Sweep      `json:"sweep,omitempty"`
	Search     *Search     `json:"search,omitempty"`
	Proof      *Proof      `json:"proof,omitempty"`
	Comparison *Comparison `json:"comparison,omitempty"`
	Factorial  *Factorial  `json:"factorial,omitempty"`
}

// CPUSplit is which CPUs generator and server used in all runs of a plan.
type CPUSplit struct {
	// Generator and Server are CPU lists as in "0-3,8"; "" if they could not be separated.
	Generator string `json:"generator,omitempty"`
	Server    string `json:"server,omitempty"`
	// Says is what was done, or why they could not be separated.
	Says Statement `json:"says"`
}

// over reports whether a plan needs no further run.
func (p *Plan) over() bool {
	return p.Ended == EndedComplete || p.Ended == EndedConverged || p.Ended == EndedEarly
}

// Onward says how to continue a plan that did not finish.
func (p *Plan) Onward() Statement {
	if p.Hidden {
		return State("plan.not-resumable", nil)
	}
	return State("plan.resume", Values{"id": p.ID})
}

// How a plan ended.
const (
	EndedComplete    = "complete"    // every planned run was made
	EndedConverged   = "converged"   // a search found its answer
	EndedEarly       = "hopeless"    // no further run can give an answer
	EndedInterrupted = "interrupted" // it can be resumed
	EndedFailed      = "failed"      // a run could not be made; it can be resumed
)

// Step is one planned run.
type Step struct {
	// Number counts from 1 in the order of the plan.
	Number int `json:"number"`
	// Server is an index into the experiment's list.
	Server int `json:"server"`
	// Mix is an index into its requests.
	Mix int `json:"mix"`
	spec.Condition
	// Repeat numbers the runs of one condition, from 1.
	Repeat int `json:"repeat,omitempty"`
	// Cell of a factorial experiment: an index into the levels of each factor.
	Cell []int `json:"cell,omitempty"`
	// Block of a proof, a comparison or a factorial experiment, from 1; Side of a comparison: "A"
	// or "B". In a Noise block both sides are the same server.
	Block int    `json:"block,omitempty"`
	Side  string `json:"side,omitempty"`
	Noise bool   `json:"noise,omitempty"`
	// Perturb is what this run of a proof takes away; the zero value is the baseline run.
	Perturb Perturbation `json:"perturb,omitzero"`
	// WarmupRun: the run is not counted; it is the first to touch a server.
	WarmupRun bool `json:"warmup_run,omitempty"`
	// Restart restarts, before this run, the servers started by a command (all of them, including
	// the second instance of A): chance effects of one process, such as memory layout and thread
	// placement, then belong to the block, not to the side.
	Restart bool `json:"restart,omitempty"`
}

// Part says in a few words which role a step has in its plan; "" if it is the only one of its
// condition.
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

// Resources that a proof perturbs.
const (
	PerturbGenerator   = "generator"   // CPU of the generator's threads
	PerturbServer      = "server CPU"  // CPU of the server's processes
	PerturbLink        = "link"        // bits per second of an interface
	PerturbConcurrency = "concurrency" // requests in flight
)

// Perturbation is what is taken from a resource during one run.
type Perturbation struct {
	// Resource is one of the names above.
	Resource string `json:"resource,omitempty"`
	// Share of it to take, 0 to 1.
	Share float64 `json:"share,omitempty"`
}

// Perturbed is what was actually taken.
type Perturbed struct {
	Perturbation
	// Left is what remained of the resource, measured, as a ratio of the original: 0.8 of the CPU
	// time, 51 of 64 slots.
	Left float64 `json:"left"`
	// How it was taken, in words.
	How string `json:"how"`
}

// Measured is one completed run of a plan: what the plan needs to know about it.
type Measured struct {
	Step
	// Run is the ID of its record within the plan's; "" if none was made.
	Run     string    `json:"run"`
	Started time.Time `json:"started"`
	// TookS is the whole run with its warm-up; ElapsedS is the measured time.
	TookS    float64 `json:"took_s"`
	ElapsedS float64 `json:"elapsed_s"`
	// Requests per second. TargetPerS is 0 in a closed loop.
	TargetPerS    float64 `json:"target_per_s,omitempty"`
	CompletedPerS float64 `json:"completed_per_s"`
	// ReadBytesPerS is what the generator read, above TCP; 0 in older records.
	ReadBytesPerS float64 `json:"read_bytes_per_s,omitempty"`
	Completed     uint64  `json:"completed"`
	Failed        uint64  `json:"failed"`
	// BadShare is the share of requests that failed or got an unexpected status.
	BadShare float64   `json:"bad_share"`
	Response Quantiles `json:"response"`
	Service  Quantiles `json:"service"`
	// CPU nanoseconds per request; 0 if not measured.
	ServerCPUNs    float64 `json:"server_cpu_ns,omitempty"`
	GeneratorCPUNs float64 `json:"generator_cpu_ns,omitempty"`
	// The run's own verdict.
	Outcome    Outcome     `json:"outcome"`
	Bottleneck Bottleneck  `json:"bottleneck"`
	Because    []Statement `json:"because,omitempty"`
	// NotRun is why the run was not made; it then has no ID.
	NotRun string `json:"not_run,omitempty"`
	// BacklogShare as in the verdict.
	BacklogShare float64 `json:"backlog_share,omitempty"`
	// OtherCores as in the verdict.
	OtherCores float64 `json:"other_cores,omitempty"`
	// SLO has every requested term with the value found.
	SLO []SLOTerm `json:"slo,omitempty"`
	// StoppedEarly says why the run ended early; its figures cover the time until then.
	StoppedEarly string `json:"stopped_early,omitempty"`
	// P99AtLeastNs is a lower bound for the p99 that a run stopped early would have had; 0 if
	// unknown.
	P99AtLeastNs int64      `json:"p99_at_least_ns,omitempty"`
	Perturbed    *Perturbed `json:"perturbed,omitempty"`
	// Stations are where a request's time goes, as in the run's verdict.
	Stations []Station `json:"stations,omitempty"`
	// Tuned is what was changed on the host for the run.
	Tuned []Tuned `json:"tuned,omitempty"`
	// Profiles are what a request cost, by function, with --profile.
	Profiles []RequestProfile `json:"profiles,omitempty"`
	// Waiting has the requests without a response at the end; nil if that was not measured.
	Waiting *Waiting `json:"waiting,omitempty"`

	// Histogram of the response time, for merging; read from the run's record.
	Histogram *hist.Hist `json:"-"`
}

// MeanInFlight returns the mean number of requests without a response, by Little's law. It is 0,
// unknown, where those under way when the window opened or closed weigh too much: if a quantile is a
// lower bound, or if it comes out above the slots of a closed loop.
func MeanInFlight(m *Measured) float64 {
	n := m.CompletedPerS * m.Service.MeanNs / 1e9
	if m.Response.BoundFrom > 0 || m.TargetPerS == 0 && n > 1.02*float64(m.Connections*m.Pipelining) {
		return 0
	}
	return n
}

// Tuned is one setting of the host during a run, restored afterwards.
type Tuned struct {
	// What is its name as in ceiling tune: "eth0 rx-0 rps_cpus".
	What string `json:"what"`
	// Before is During if it was so already.
	Before string `json:"before"`
	During string `json:"during"`
	// Effect is TuningSetBack, and Evidence the value found, if another program changed it during the
	// run. Older records have more effects.
	Effect   string `json:"effect,omitempty"`
	Evidence string `json:"evidence,omitempty"`
}

// TuningSetBack: another program has changed the value.
const TuningSetBack = "set back"

// SLOTerm is one term of an SLO with its measured value, in the unit of its limit (nanoseconds, a
// share, requests per second).
type SLOTerm struct {
	Term  string  `json:"term"`  // one that could be measured, such as p99<5ms
	Value float64 `json:"value"` // measured: nanoseconds, a share, or requests per second
	Met   bool    `json:"met"`
	// AtLeast: requests without a response make the value a lower bound.
	AtLeast bool `json:"at_least,omitempty"`
}

// Estimate is a figure with its interval.
type Estimate struct {
	Mid  float64 `json:"mid"`
	Low  float64 `json:"low"`
	High float64 `json:"high"`
	// Confidence of the interval, 0 to 1; 0 if there is none: Low and High are then the smallest
	// and the largest measurement.
	Confidence float64 `json:"confidence"`
	// Warnings say what is wrong with the interval, and the remedy.
	Warnings []Statement `json:"warnings,omitempty"`
}

// Sweep is the answer of a sweep: one curve per combination of everything but the load.
type Sweep struct {
	Curves []Curve `json:"curves"`
}

// Curve is throughput over load for one server, one mix and one pipelining (or over the target
// rate, for one number of connections).
type Curve struct {
	Server string `json:"server"`
	Mix    string `json:"mix"`
	// Over is what varies between the points: spec.OverConnections, spec.OverPipelining, spec.OverRate,
	// spec.OverThreads, or "" for a single point.
	Over spec.Dimension `json:"over"`
	// Fixed is what does not vary: pipelining 10.
	Fixed  []Statement  `json:"fixed"`
	Points []CurvePoint `json:"points"`
	Knee   *Knee        `json:"knee,omitempty"`
	USL    *USL         `json:"usl,omitempty"`
	// Bottleneck comes from the points beyond the knee, or from the last point; Says is the verdict
	// on the curve.
	Bottleneck Bottleneck  `json:"bottleneck"`
	Says       Statement   `json:"says"`
	Caveats    []Statement `json:"caveats,omitempty"`
}

// Judged takes from a run's verdict what a plan needs of it.
func (m *Measured) Judged(v Verdict) {
	m.Outcome, m.Bottleneck, m.Because, m.SLO, m.Stations = v.Outcome, v.Bottleneck, v.Because, v.SLO, v.Stations
	m.BacklogShare, m.OtherCores = v.BacklogShare, v.OtherCores
}

// CurvePoint is one condition with all its runs.
type CurvePoint struct {
	// X is the value of Curve.Over.
	X float64 `json:"x"`
	spec.Condition
	TargetPerS float64  `json:"target_per_s,omitempty"`
	Runs       int      `json:"runs"`    // that count
	Invalid    int      `json:"invalid"` // of them; left out if there are valid ones
	PerS       Estimate `json:"per_s"`   // median of the runs
	// Response merges the histograms of all counted runs.
	Response       Quantiles `json:"response"`
	ReadBytesPerS  Estimate  `json:"read_bytes_per_s,omitzero"` // above TCP, by the generator
	InFlight       Estimate  `json:"in_flight,omitzero"`        // mean number of requests without a response (Little's law)
	ServerCPUNs    Estimate  `json:"server_cpu_ns"`             // per request
	GeneratorCPUNs Estimate  `json:"generator_cpu_ns"`          // per request
	BadShare       float64   `json:"bad_share"`
	// Outcome and Bottleneck of most runs; Split is set if they disagree.
	Outcome    Outcome    `json:"outcome"`
	Bottleneck Bottleneck `json:"bottleneck"`
	Split      string     `json:"split,omitempty"`
	// PerRun has the rate of every counted run, requests per second.
	PerRun []float64 `json:"per_run"`
	RunIDs []string  `json:"run_ids"`
}

// Counts reports whether a point's rate is what the service answered: not where the run is invalid, unless
// because the service did not reach the rate asked for, which spoils the response times alone.
func Counts(p *CurvePoint) bool {
	return p.Outcome != Invalid || p.TargetPerS > 0 && Blames(p.Bottleneck)
}

// LittleWithin is how far from the slots of a closed loop rate × response time may be, as a share: requests
// that cross an edge of the window count at one edge only.
const LittleWithin = 0.1

// Held returns the response times, as lower bounds where Little's law says that the slow ones are
// missing: rate × mean falls short of the requests that the closed loop kept in flight.
func (p *CurvePoint) Held() *Quantiles {
	q := p.Response
	slots := float64(p.Connections * max(p.Pipelining, 1))
	if p.TargetPerS == 0 && q.Count > 0 && p.PerS.Mid*q.MeanNs/1e9 < (1-LittleWithin)*slots {
		q.BoundFrom = .5
	}
	return &q
}

// Knee is where more load stops bringing more throughput: between two neighbouring points.
type Knee struct {
	// Low is the last load where more still helped, High the first where it no longer did; 0 if
	// the list does not bracket the knee on that side.
	Low  float64 `json:"low"`
	High float64 `json:"high"`
	// PerS is the highest rate of a point, requests per second.
	PerS float64 `json:"per_s"`
	// Add lists the loads that would bracket it.
	Add []float64 `json:"add,omitempty"`
}

// USL is the Universal Scalability Law fitted to a curve:
// X(N) = λN / (1 + σ(N-1) + κN(N-1)).
type USL struct {
	Lambda Estimate `json:"lambda"` // requests per second at N = 1
	Sigma  Estimate `json:"sigma"`  // contention
	Kappa  Estimate `json:"kappa"`  // coherency
	// Best concurrency and its throughput; nil if the curve never bends.
	Best     *Estimate `json:"best,omitempty"`
	PeakPerS *Estimate `json:"peak_per_s,omitempty"` // there
	// BestAtLeast is a lower bound for an unknown best concurrency; 0 if unknown.
	BestAtLeast float64 `json:"best_at_least,omitempty"`
	R2          float64 `json:"r2"` // of ln X
	// Trusted is false if a warning rules out using the fit.
	Trusted  bool        `json:"trusted"`
	Warnings []Statement `json:"warnings,omitempty"` // why it is not usable
}

// Search is the answer of a search: the highest rate that meets the SLO.
type Search struct {
	SLO string `json:"slo"`
	// Capacity is the highest rate that passed, requests per second; its interval extends to the
	// lowest that failed.
	Capacity Estimate `json:"capacity"`
	// Limit is what bounded the search from above: LimitServer (a higher rate fails the SLO),
	// LimitGenerator (this generator cannot send more), LimitAsked (the user's own bound) or
	// LimitNone (nothing passed).
	Limit string `json:"limit"`
	// Failed are the terms that failed first above it; Bottleneck is the verdict there.
	Failed     []SLOTerm  `json:"failed,omitempty"`
	Bottleneck Bottleneck `json:"bottleneck,omitempty"`
	Says       Statement  `json:"says"`
	// Rates tried, ascending.
	Rates   []TriedRate `json:"rates"`
	Caveats []Statement `json:"caveats,omitempty"`
}

// What bounds a search from above.
const (
	LimitServer    = "server"
	LimitGenerator = "generator"
	LimitAsked     = "asked"
	LimitNone      = "none"
	LimitUnproved  = "unproved" // the rates tried above it were inconclusive
)

// TriedRate is one rate of a search with all its runs.
type TriedRate struct {
	PerS         float64 `json:"per_s"`
	Runs         int     `json:"runs"`
	Pass         int     `json:"pass"`
	Fail         int     `json:"fail"`
	Invalid      int     `json:"invalid"`
	StoppedEarly int     `json:"stopped_early"` // of those that failed
	// Response merges the histograms of all runs except those stopped early.
	Response   Quantiles  `json:"response"`
	Bottleneck Bottleneck `json:"bottleneck"`
	// MissedP99Ns is the p99 of the failed runs together; MissedAtLeast marks it as a lower bound,
	// since some of them were stopped early. 0 if none failed or nothing is known.
	MissedP99Ns   int64 `json:"missed_p99_ns,omitempty"`
	MissedAtLeast bool  `json:"missed_at_least,omitempty"`
}

// Proof is the answer of an experiment that perturbs one resource at a time.
type Proof struct {
	// PerS of the undisturbed runs.
	PerS      Estimate     `json:"per_s"`
	Resources []Elasticity `json:"resources"`
	// Sum of the elasticities over all rates (concurrency is not a rate).
	Sum Estimate `json:"sum"`
	// Proved is the resource with the largest elasticity, if its interval is separate from the
	// others; "" if none is.
	Proved string `json:"proved"`
	// Passive is the bottleneck that most undisturbed runs' verdicts name; Agrees is "agrees",
	// "contradicts" or "cannot tell".
	Passive Bottleneck  `json:"passive"`
	Agrees  string      `json:"agrees"`
	Says    Statement   `json:"says"`
	Caveats []Statement `json:"caveats,omitempty"`
	// NotTested lists the resources that were not perturbed, with the reason.
	NotTested []NotTested `json:"not_tested,omitempty"`
}

// NotTested is a resource that was not perturbed.
type NotTested struct {
	Resource string    `json:"resource"`
	Why      Statement `json:"why"`
}

// Elasticity says how throughput follows one resource: 1 is proportional, 0 is unaffected.
type Elasticity struct {
	Resource string `json:"resource"` // generator, server CPU, link or slots
	How      string `json:"how"`      // it was taken away
	// Left of the resource, averaged over the runs.
	Left       float64  `json:"left"`
	PerS       Estimate `json:"per_s"` // while it was taken away
	Elasticity Estimate `json:"elasticity"`
	Blocks     int      `json:"blocks"`
}

// Comparison answers whether B changed anything relative to A.
type Comparison struct {
	A string `json:"a"`
	B string `json:"b"`
	// Differences other than the result, the most important first.
	Differences []Difference `json:"differences"`
	// Incomparable says why the two cannot be compared; empty if they can.
	Incomparable []Statement `json:"incomparable,omitempty"`
	Changes      []Change    `json:"changes"`
	// Profiles compares the profiles of the two sides, if both have them.
	Profiles []ProfileDifference `json:"profiles,omitempty"`
	// Blocks counted, and blocks of A against A.
	Blocks      int         `json:"blocks"`
	NoiseBlocks int         `json:"noise_blocks"` // of A against A
	Says        Statement   `json:"says"`
	Caveats     []Statement `json:"caveats,omitempty"`
	// Gate has the conditions of --fail-on.
	Gate []GateResult `json:"gate,omitempty"`
}

// Difference is something that differs between the sides.
type Difference struct {
	What string `json:"what"` // that differs between the sides
	A    string `json:"a"`
	B    string `json:"b"`
	// Weight is "forbids" (the two cannot be compared), "explains" (it may be
	// what changed the result) or "noted".
	Weight string    `json:"weight"`
	Why    Statement `json:"why,omitzero"` // it matters, where that is not plain
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
	// Floor is the A-vs-A noise here, as a share.
	Floor float64 `json:"floor"`
	// Within is the ± share within which "no change" was shown.
	Within   float64   `json:"within"`
	Decision string    `json:"decision"` // better, worse, no change or inconclusive
	Says     Statement `json:"says"`
	// PerBlock has ln(B/A) of every block, for drawing.
	PerBlock []float64 `json:"per_block"`
}

// Measured reports whether both sides have a figure: without one there is no change.
func (c *Change) Measured() bool { return c.A > 0 && c.B > 0 }

// GateResult is one condition of --fail-on: "passed", "failed" or
// "inconclusive".
type GateResult struct {
	Condition string    `json:"condition"` // of --fail-on
	Result    string    `json:"result"`    // passed, failed or inconclusive
	Says      Statement `json:"says"`
}
