package record

// An Outcome says what a run's numbers are worth.
type Outcome string

// The outcomes.
const (
	Pass    Outcome = "pass"    // an SLO was set and met
	Fail    Outcome = "fail"    // the SLO was not met, or the responses were errors
	Valid   Outcome = "valid"   // no SLO was set
	Invalid Outcome = "invalid" // do not use its numbers
	// Lost is shown for a run whose process was killed. No record has it.
	Lost Outcome = "lost"
)

// Sound reports whether the numbers answer the question asked.
func (o Outcome) Sound() bool { return o == Pass || o == Valid }

// A Bottleneck is the resource that limited a run.
type Bottleneck string

// The bottlenecks, and the values that replace one.
const (
	LoadGenerator Bottleneck = "generator"
	ServerCPU     Bottleneck = "server CPU"
	SharedCPU     Bottleneck = "CPU contention"
	ServerThread  Bottleneck = "single-threaded server"
	ServerBlocked Bottleneck = "server blocked"
	Uneven        Bottleneck = "worker imbalance"
	Bandwidth     Bottleneck = "bandwidth"
	Packets       Bottleneck = "packets"
	AcceptQueue   Bottleneck = "accept queue"
	Concurrency   Bottleneck = "concurrency"
	HTTP2Window   Bottleneck = "HTTP/2 window"
	TargetRate    Bottleneck = "target rate reached"
	Failures      Bottleneck = "errors"
	Inconclusive  Bottleneck = "inconclusive"
)

// Blames reports whether something other than the generator kept the responses from keeping up.
func Blames(b Bottleneck) bool {
	return b != "" && b != Inconclusive && b != TargetRate && b != LoadGenerator
}

// Bottlenecks returns all that a verdict can name.
func Bottlenecks() []Bottleneck {
	return []Bottleneck{LoadGenerator, ServerCPU, SharedCPU, ServerThread, ServerBlocked, Uneven, Bandwidth, Packets, AcceptQueue, Concurrency,
		HTTP2Window, TargetRate, Failures, Inconclusive}
}
