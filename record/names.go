package record

// An Outcome is what a run is worth.
type Outcome string

// The outcomes.
const (
	Pass    Outcome = "pass"    // an SLO was asked, and met
	Fail    Outcome = "fail"    // it was not met, or the responses were errors
	Valid   Outcome = "valid"   // no SLO was asked
	Invalid Outcome = "invalid" // its numbers must not be used
	// Lost is what a view shows of a run whose process was killed. No record has it.
	Lost Outcome = "lost"
)

// Sound tells whether the numbers answer what was asked.
func (o Outcome) Sound() bool { return o == Pass || o == Valid }

// A Bottleneck is the resource that limited a run.
type Bottleneck string

// The bottlenecks, and what stands in the place of one.
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
	Subscribers   Bottleneck = "subscribers"
	TargetRate    Bottleneck = "target rate reached"
	Failures      Bottleneck = "errors"
	Inconclusive  Bottleneck = "inconclusive"
)

// Bottlenecks are all that a verdict can name.
func Bottlenecks() []Bottleneck {
	return []Bottleneck{LoadGenerator, ServerCPU, SharedCPU, ServerThread, ServerBlocked, Uneven, Bandwidth, Packets, AcceptQueue, Concurrency,
		HTTP2Window, Subscribers, TargetRate, Failures, Inconclusive}
}
