// Package selftest holds the verdict against the truth. Each scenario plants a
// ceiling (a server of package planted, a shaped link, a starved generator),
// makes an ordinary run against it, and sets what the verdict names beside what
// was planted. The parameters come from a seed, so that no rule can be fitted to
// one value.
//
// RealScenarios plant bottlenecks in the software of others (program.go), each of
// which another client confirms (confirm.go).
//
// A scenario whose needs are missing here (root, network namespaces, a CPU
// cgroup, a second core) is reported as not run, and never as right. Whatever a
// scenario makes on the host carries this process's number in its name, is
// removed when the scenario ends, and is found and removed by the next start
// where it could not be (host.go).
package selftest

import (
	"math/rand/v2"
	"time"

	"ceiling/experiment/spec"
	"ceiling/record"
	"ceiling/server/planted"
)

// A Scenario is one planted ceiling.
type Scenario struct {
	Name    string
	Planted string // what is planted, in a line
	needs   need
	draw    func(*dice) plan
}

// need is what a scenario takes of the host.
type need struct {
	twoCPUs    bool // to keep the two sides apart
	namespaces bool // root, ip and tc
	cgroup     bool // root and the CPU controller
	slowDisk   bool // root and FUSE
	slowDevice bool // the same and a loop device
	// software of others, names between blanks (software.go).
	software string
}

// plan is a scenario with its parameters drawn.
type plan struct {
	says    string // the parameters, for a person
	helpers []host // started before the subject
	subject host   // without a kind: nothing is started, and nobody listens
	link    *link  // between the generator and the subject
	// quota of CPU time, in cores, for the subject and for the generator; 0 none.
	quota, generatorQuota float64
	spec                  spec.Spec // without targets
	during                []deed
	accept                []answer
	// inet6 has the subject listen on ::1, where there is one.
	inet6 bool
	// generator tells that the generator is the wall: to name a server would be
	// the one error that outranks all others.
	generator bool
	// path and header of the request; "" is /.
	path   string
	header []spec.Field
	// method and body of it; "" is GET without one.
	method, body string
	// patterns: one of them has to match what the verdict says. {helper} in them
	// is the first helper's address.
	patterns []string
	// bare is patterns for the verdict as it is where no stacks may be taken and no database
	// is asked; nil where that is not held against the plant.
	bare []string
	// relieved is the same plan with more of the planted resource, which more
	// names; nil where the plant needs no confirmation.
	relieved *plan
	more     string
	warm     time.Duration // of the confirmation, where it needs more than usual
}

// host is a server to start: a planted one, a program of others, or one of ours.
type host struct {
	kind    string
	params  planted.Params
	program *program
	// serve is the arguments of the verb serve, for one of this program's own servers.
	serve []string
	// toHelper makes it ask the first helper.
	toHelper bool
}

// deed is done to the subject during the run.
type deed struct {
	at float64 // share of the run's duration
	do func(*stage) error
}

// answer is a verdict that is right. Where reasons are given, one of them has
// to be in what the verdict says.
type answer struct {
	ceiling record.Bottleneck
	reasons []string
}

func only(ceiling record.Bottleneck, reasons ...string) []answer { return []answer{{ceiling, reasons}} }

func (p plan) or(ceiling record.Bottleneck, reasons ...string) plan {
	p.accept = append(p.accept, answer{ceiling, reasons})
	return p
}

// orUndetermined accepts that the measurements cannot tell, where the verdict
// says what is missing in one of these words.
func (p plan) orUndetermined(reasons ...string) plan { return p.or(record.Inconclusive, reasons...) }

// dice draws the parameters of one scenario in one round.
type dice struct {
	*rand.Rand
	cpus []int // that this process may use
}

// seedOf makes the same parameters from the same seed, round and name,
// whichever scenarios run beside it.
func seedOf(seed uint64, round int, name string) *rand.Rand {
	h := uint64(14695981039346656037) // FNV-1a
	for _, c := range []byte(name) {
		h = (h ^ uint64(c)) * 1099511628211
	}
	return rand.New(rand.NewPCG(seed, h+uint64(round)))
}

// anyWay draws what no ceiling depends on: the engine, and the address family.
func (d *dice) anyWay(p *plan, g *ground) {
	if d.IntN(4) == 0 {
		p.spec.Engine = spec.EngineEpoll
		p.says += ", epoll"
	}
	if d.IntN(4) == 0 && g.inet6 && p.link == nil && p.subject.kind != "" {
		p.inet6 = true
		p.says += ", ::1"
	}
}

// whole draws from low to high, both of them possible.
func (d *dice) whole(low, high int) int { return low + d.IntN(high-low+1) }

func (d *dice) share(low, high float64) float64 { return low + d.Float64()*(high-low) }

func (d *dice) ms(low, high int) time.Duration {
	return time.Duration(d.whole(low*1000, high*1000)) * time.Microsecond
}

func (d *dice) us(low, high int) time.Duration {
	return time.Duration(d.whole(low, high)) * time.Microsecond
}

// connections are enough to keep every core busy.
func (d *dice) connections() int { return d.whole(24, 40) * max(2, len(d.cpus)) }

// run is a closed loop of that many connections. In 3.5 s even an observer that
// has to save samples (a socket dump costs 0.5 to 5 ms, by what else is in the
// caches) sees enough of them.
func (d *dice) run(connections int) spec.Spec {
	return spec.Spec{
		Connections: connections, Pipelining: 1, Seed: d.Uint64() >> 11, Engine: spec.EngineAuto,
		Duration: 3500 * time.Millisecond, Warmup: 400 * time.Millisecond, Timeout: 4 * time.Second,
	}
}

// apart pins the generator to the first CPU and the server to the second.
func (d *dice) apart(s spec.Spec) spec.Spec {
	s.PinGenerator, s.PinServer = cpuList(d.cpus[0]), cpuList(d.cpus[1])
	return s
}
