// Package selftest checks the verdict against known bottlenecks. Each scenario plants one (a
// server of package planted, a shaped link, a starved generator), does an ordinary run against
// it, and compares the verdict with the plant. The parameters come from a seed, so that no rule
// can be fitted to one value.
//
// RealScenarios plant bottlenecks in third-party software (program.go), each confirmed by an
// independent client (confirm.go).
//
// A scenario whose needs are missing here (root, network namespaces, a CPU cgroup, a second core)
// is reported as not run, never as right. Everything that a scenario creates on the host has this
// process's number in its name and is removed when the scenario ends; the next start removes
// leftovers (host.go).
package selftest

import (
	"math/rand/v2"
	"time"

	"ceiling/experiment/spec"
	"ceiling/record"
	"ceiling/server/planted"
)

// A Scenario is one planted bottleneck.
type Scenario struct {
	Name    string
	Planted string // the plant, in one line
	needs   need
	draw    func(*params) plan
}

// need is what a scenario requires of the host.
type need struct {
	twoCPUs    bool // to separate the two sides
	namespaces bool // root, ip and tc
	cgroup     bool // root and the CPU controller
	slowDisk   bool // root and FUSE
	slowDevice bool // the same and a loop device
	// software is third-party programs, separated by blanks (software.go).
	software string
}

// plan is a scenario with its parameters.
type plan struct {
	says    string // the parameters, as text
	helpers []host // started before the subject
	subject host   // without a kind: nothing is started, and nothing listens
	link    *link  // between the generator and the subject
	// quota is CPU time in cores for the subject, generatorQuota for the generator; 0 for none.
	quota, generatorQuota float64
	spec                  spec.Spec // without targets
	during                []action
	accept                []answer
	// inet6 makes the subject listen on ::1, if available.
	inet6 bool
	// generator marks the generator as the bottleneck: naming a server would be the most serious
	// error.
	generator bool
	// path and header of the request; "" is /.
	path   string
	header []spec.Field
	// method and body of it; "" is GET without one.
	method, body string
	// patterns: the verdict's text must match one. {helper} in them is the first helper's
	// address.
	patterns []string
	// bare is the patterns for the verdict without stacks and database queries; nil if that is
	// not checked.
	bare []string
	// relieved is the same plan with more of the planted resource, described by more; nil if the
	// plant needs no confirmation.
	relieved *plan
	more     string
	warm     time.Duration // of the confirmation, if longer than usual
}

// host is a server to start: a planted one, a third-party program, or one of ours.
type host struct {
	kind    string
	params  planted.Params
	program *program
	// serve is the arguments of the verb serve, for one of this program's own servers.
	serve []string
	// toHelper makes it call the first helper.
	toHelper bool
}

// action is an action on the subject during the run.
type action struct {
	at float64 // as a share of the run's duration
	do func(*fixture) error
}

// answer is a correct verdict. If there are reasons, the verdict's text must contain one of them.
type answer struct {
	ceiling record.Bottleneck
	reasons []string
}

func only(ceiling record.Bottleneck, reasons ...string) []answer { return []answer{{ceiling, reasons}} }

func (p plan) or(ceiling record.Bottleneck, reasons ...string) plan {
	p.accept = append(p.accept, answer{ceiling, reasons})
	return p
}

// orInconclusive also accepts an inconclusive verdict that states what is missing in one of these
// words.
func (p plan) orInconclusive(reasons ...string) plan { return p.or(record.Inconclusive, reasons...) }

// params draws a scenario's parameters for one round.
type params struct {
	*rand.Rand
	cpus []int // available to this process
}

// seedOf gives the same parameters for the same seed, round and name, whichever other scenarios
// run.
func seedOf(seed uint64, round int, name string) *rand.Rand {
	h := uint64(14695981039346656037) // FNV-1a
	for _, c := range []byte(name) {
		h = (h ^ uint64(c)) * 1099511628211
	}
	return rand.New(rand.NewPCG(seed, h+uint64(round)))
}

// anyWay draws what no bottleneck depends on: the engine, and the address family.
func (d *params) anyWay(p *plan, g *prereqs) {
	if d.IntN(4) == 0 {
		p.spec.Engine = spec.EngineEpoll
		p.says += ", epoll"
	}
	if d.IntN(4) == 0 && g.inet6 && p.link == nil && p.subject.kind != "" {
		p.inet6 = true
		p.says += ", ::1"
	}
}

// whole draws an integer from low to high, both inclusive.
func (d *params) whole(low, high int) int { return low + d.IntN(high-low+1) }

func (d *params) share(low, high float64) float64 { return low + d.Float64()*(high-low) }

func (d *params) ms(low, high int) time.Duration {
	return time.Duration(d.whole(low*1000, high*1000)) * time.Microsecond
}

func (d *params) us(low, high int) time.Duration {
	return time.Duration(d.whole(low, high)) * time.Microsecond
}

// connections returns enough to keep every core busy.
func (d *params) connections() int { return d.whole(24, 40) * max(2, len(d.cpus)) }

// run is a closed loop of that many connections. In 3.5 s even an observer that must economise on
// samples (a socket dump costs 0.5 to 5 ms, depending on the rest of the caches) gets enough.
func (d *params) run(connections int) spec.Spec {
	return spec.Spec{
		Connections: connections, Pipelining: 1, Seed: d.Uint64() >> 11, Engine: spec.EngineAuto,
		Duration: 3500 * time.Millisecond, Warmup: 400 * time.Millisecond, Timeout: 4 * time.Second,
	}
}

// apart pins the generator to the first CPU and the server to the second.
func (d *params) apart(s spec.Spec) spec.Spec {
	s.PinGenerator, s.PinServer = cpuList(d.cpus[0]), cpuList(d.cpus[1])
	return s
}
