// Package selftest checks the verdict against known bottlenecks. Each scenario plants one (a
// server of package planted, a shaped link, a starved generator, third-party software), does an
// ordinary run or an experiment against it, and compares the answer with the plant. The parameters
// come from a seed, so that no rule can be fitted to one value.
//
// The scenarios are in planted.yaml, real.yaml and questions.yaml; plan explains their keys. Those of
// real.yaml are each confirmed by an independent client (confirm.go).
//
// A scenario whose needs are missing here (root, network namespaces, a CPU cgroup, a second core)
// is reported as not run, never as right. Everything that a scenario creates on the host has this
// process's number in its name and is removed when the scenario ends; the next start removes
// leftovers (host.go).
package selftest

import (
	"cmp"
	_ "embed"
	"maps"
	"math/rand/v2"
	"slices"
	"strings"
	"time"

	"github.com/goccy/go-yaml"

	"ceiling/experiment/spec"
)

var (
	//go:embed planted.yaml
	plantedScenarios string
	//go:embed real.yaml
	realScenarios string
	//go:embed questions.yaml
	questions string
)

// A Scenario is one planted bottleneck. These keys are read before the parameters are drawn.
type Scenario struct {
	Name    string
	Planted string // the plant, in one line
	// Needs of the host, separated by blanks: cores (two, to separate the sides), namespaces, cgroup, disk (a slow
	// one) and device, as survey probes them, and names of software.go.
	Needs string
	// Draw has the parameters (values.go), in the order in which they are drawn.
	Draw string
	text string // all of it
}

// Scenarios returns those with planted servers.
func Scenarios() []Scenario { return scenariosOf(plantedScenarios) }

// RealScenarios returns those in real software, as packaged by Debian.
func RealScenarios() []Scenario { return scenariosOf(realScenarios) }

// Questions returns experiments: what proofs, searches and comparisons have to find. Each takes from half a minute to
// a few: Run plays those that are asked for by name.
func Questions() []Scenario { return scenariosOf(questions) }

// All returns the scenarios of every kind.
func All() []Scenario { return slices.Concat(Scenarios(), RealScenarios(), Questions()) }

func scenariosOf(file string) []Scenario {
	var all []Scenario
	for text := range strings.SplitSeq(file, "\n---\n") {
		s := Scenario{text: text}
		if err := yaml.Unmarshal([]byte(text), &s); err != nil {
			panic(err) // a bug of the file
		}
		all = append(all, s)
	}
	return all
}

// plan is a scenario with its parameters: its text with the {names} of values replaced. The load, the requests and
// the kind of experiment are as in a file for ceiling run: without a kind it is a single run.
type plan struct {
	Scenario        `yaml:",inline"`
	spec.Experiment `yaml:",inline"`
	Says            string // the parameters, as text
	Helper          host   // started before the subject
	Subject         host   // without a command nothing is started, and nothing listens
	// Bits or Packets are what a link between the generator and the subject lets out of it each second; 0: no link.
	Bits, Packets float64
	// Quota is CPU time in cores for the subject, GeneratorQuota for the generator; 0 for none.
	Quota          float64
	GeneratorQuota float64 `yaml:"generator_quota"`
	Apart          bool    // the generator on the first CPU, the server on the second
	Body           int     // bytes of the request's; 0: a GET without one
	During         []action
	// Accept are the correct answers, the planted one first: "NAME", or "NAME saying WORDS|WORDS" if the
	// verdict's text must contain one of them.
	Accept []string
	// Generator marks the generator as the bottleneck: naming a server would be the most serious
	// error.
	Generator bool
	// Text are patterns, one of which the verdict's text must match. {helper} in them is the helper's
	// address. Bare are those for the verdict without stacks and database queries; nil if that is
	// not checked.
	Text, Bare []string
	// With changes parameters so that there is More of the planted resource (confirm.go).
	More, With string

	// relieved is the same plan with more of the resource; nil if the plant needs no confirmation.
	relieved *plan
	values   values
	inet6    bool // the subject listens on ::1
}

// host is a server to start. In folders of plants, with blanks between them, it is a program of third-party software
// (program.go), otherwise a verb of this program with its flags.
type host struct {
	In, Serve string
	CPUs      []int    // of a verb of this program; nil: all
	Env       []string // of a program of third-party software
	Words     int      // bytes of text for it to serve
}

// action is an action on the subject during the run, at a share of its duration.
type action struct {
	At float64
	Do string
}

// draw makes a plan with the parameters of one round.
func (s *Scenario) draw(d *params) plan {
	v := d.hostValues()
	d.read(v, s.Draw)
	seed := d.Uint64() >> 11
	p := s.with(v, seed)
	if p.With != "" {
		d.read(v, p.With)
		p.relieved = new(s.with(v, seed))
	}
	return p
}

// with replaces the names and reads the result. A run takes 3.5 s: in that time even an observer that must economise
// on samples (a socket dump costs 0.5 to 5 ms, depending on the rest of the caches) gets enough.
func (s *Scenario) with(v values, seed uint64) plan {
	p := plan{values: maps.Clone(v)}
	p.Seed, p.Question, p.Requests = seed, s.Planted, []spec.Mix{{MixRequest: spec.MixRequest{Path: "/"}}}
	if err := yaml.UnmarshalWithOptions([]byte(v.expand(s.text)), &p, yaml.Strict()); err != nil {
		panic(err) // a bug in a file of scenarios
	}
	if p.Kind == "" {
		p.Load = single(p.Load)
	}
	p.Requests[0].Body = strings.Repeat("x", p.Body)
	if p.Apart {
		p.Load.PinGenerator, p.Load.PinServer = v["first"], v["second"]
	}
	return p
}

// single completes the load of a single run.
func single(l spec.Load) spec.Load {
	l.Duration, l.Timeout = cmp.Or(l.Duration, spec.Time(3500*time.Millisecond)), cmp.Or(l.Timeout, spec.Time(4*time.Second))
	l.Warmup = cmp.Or(l.Warmup, new(spec.Time(400*time.Millisecond)))
	return l
}

// run is a run of the plan against a server: its own, or a closed loop that finds out what the subject of an
// experiment can do.
func (p *plan) run(base string) (spec.Spec, error) {
	e := p.Experiment
	if p.Kind != "" {
		e.SLO, e.Load = nil, single(spec.Load{})
	}
	e.Kind = spec.KindSweep
	e.Complete(1)
	c := e.Load.First()
	return e.Spec(base, 0, &c)
}

// accepted returns the correct answers.
func (p *plan) accepted() []string {
	var names []string
	for _, a := range p.Accept {
		name, _, _ := strings.Cut(a, " saying ")
		names = append(names, name)
	}
	return names
}

// anyWay draws what no bottleneck depends on: the engine, and the address family.
func (d *params) anyWay(p *plan, g *prereqs) {
	if p.Kind != "" {
		return
	}
	if d.IntN(4) == 0 {
		p.Load.Engine = spec.EngineEpoll
		p.Says += ", epoll"
	}
	if d.IntN(4) == 0 && g.inet6 && p.Bits+p.Packets == 0 && strings.HasPrefix(p.Subject.Serve, "planted") {
		p.inet6 = true
		p.Says += ", ::1"
	}
}

// seedOf gives the same parameters for the same seed, round and name, whichever others run.
func seedOf(seed uint64, round int, name string) *rand.Rand {
	h := uint64(14695981039346656037) // FNV-1a
	for _, c := range []byte(name) {
		h = (h ^ uint64(c)) * 1099511628211
	}
	return rand.New(rand.NewPCG(seed, h+uint64(round)))
}
