package record

import "strings"

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

// Apart returns the words in which two names differ: for the commands "serve fasthttp --addr x"
// and "serve nethttp --addr x", "fasthttp" and "nethttp". One is "" if the other only has
// additional words.
func Apart(a, b string) (ofA, ofB string) {
	x, y := strings.Fields(a), strings.Fields(b)
	for len(x) > 0 && len(y) > 0 && x[0] == y[0] {
		x, y = x[1:], y[1:]
	}
	for len(x) > 0 && len(y) > 0 && x[len(x)-1] == y[len(y)-1] {
		x, y = x[:len(x)-1], y[:len(y)-1]
	}
	return strings.Join(x, " "), strings.Join(y, " ")
}
