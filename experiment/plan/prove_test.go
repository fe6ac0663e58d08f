package plan

import (
	"fmt"
	"math"
	"math/rand/v2"
	"slices"
	"strings"
	"testing"

	"pgregory.net/rapid"

	"ceiling/experiment/spec"
	"ceiling/record"
	"ceiling/verdict/prose"
)

// loop is a closed queueing network: every request visits each station once.
type loop struct {
	generator, server, link float64 // seconds of service at one station each
	lock                    float64 // of a station that nothing can be taken from
	sleep                   float64 // seconds that every request takes without queueing
}

// perS is its throughput with so many requests in flight, by mean-value
// analysis (Reiser and Lavenberg 1980), which is exact for this network.
func (l loop) perS(slots int) float64 {
	demands := []float64{l.generator, l.server, l.link, l.lock}
	waiting := make([]float64, len(demands))
	x := 0.0
	for n := 1; n <= slots; n++ {
		response := l.sleep
		for i, d := range demands {
			response += d * (1 + waiting[i])
		}
		x = float64(n) / response
		for i, d := range demands {
			waiting[i] = x * d * (1 + waiting[i])
		}
	}
	return x
}

// slowed is the loop with so much left of a resource.
func (l loop) slowed(resource string, left float64) loop {
	switch resource {
	case record.PerturbGenerator:
		l.generator /= left
	case record.PerturbServer:
		l.server /= left
	case record.PerturbLink:
		l.link /= left
	}
	return l
}

func proofOf(take float64, connections spec.Count) *record.Plan {
	return &record.Plan{Experiment: spec.Experiment{
		Kind: spec.KindProve, Seed: 1, Prove: spec.Prove{Share: take, Interface: "eth0"},
		Load: spec.Load{Lists: spec.Lists{Connections: []spec.Count{connections}, Pipelining: []spec.Count{1}}},
	}}
}

// prove runs the proof of a loop, with noise of that standard deviation.
func prove(p *record.Plan, l loop, ceiling string, noise float64, seed uint64) *record.Proof {
	chance := rand.New(rand.NewPCG(seed, 9))
	slots := int(p.Experiment.Load.Connections[0])
	p.Runs = nil
	for _, s := range Enumerate(&p.Experiment) {
		m := record.Measured{Step: s, Run: fmt.Sprint(s.Number), Bottleneck: record.Bottleneck(ceiling)}
		left := 1.0
		switch s.Perturb.Resource {
		case "":
		case record.PerturbConcurrency:
			left = float64(s.Connections*s.Pipelining) / float64(slots)
		default:
			left = 1 - s.Perturb.Share*(1+0.05*chance.NormFloat64())
		}
		if s.Perturb.Resource != "" {
			m.Perturbed = &record.Perturbed{Perturbation: s.Perturb, Left: left, How: "taken"}
		}
		m.CompletedPerS = l.slowed(s.Perturb.Resource, left).perS(s.Connections*s.Pipelining) * math.Exp(noise*chance.NormFloat64())
		m.Completed = uint64(m.CompletedPerS)
		p.Runs = append(p.Runs, m)
	}
	Conclude(p)
	return p.Proof
}

// TestElasticitiesAddToOne: that is the theory. For any loop those of all
// stations and of the sleep add to one, where so little is taken that no other
// resource becomes the ceiling by it.
func TestElasticitiesAddToOne(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		demand := rapid.Float64Range(1e-6, 1e-3)
		l := loop{demand.Draw(t, "generator"), demand.Draw(t, "server"), demand.Draw(t, "link"), demand.Draw(t, "lock"), 0}
		l.sleep = rapid.SampledFrom([]float64{0, 1e-3, 0.1}).Draw(t, "sleep")
		slots := rapid.IntRange(1, 200).Draw(t, "slots")
		const left = 1 - 1e-6
		elasticity := func(change func(*loop)) float64 {
			slow := l
			change(&slow)
			return math.Log(slow.perS(slots)/l.perS(slots)) / math.Log(left)
		}
		sum := elasticity(func(l *loop) { l.lock /= left }) + elasticity(func(l *loop) { l.sleep /= left })
		for _, resource := range rates() {
			sum += elasticity(func(l *loop) { *l = l.slowed(resource, left) })
		}
		if math.Abs(sum-1) > 1e-3 {
			t.Fatalf("the sum is %v of %+v with %d slots", sum, l, slots)
		}
	})
}

func TestPlantedCeilingsAreProved(t *testing.T) {
	const us = 1e-6
	cases := []struct {
		name    string
		l       loop
		slots   spec.Count
		passive string
		proved  string
		agrees  string
		exit    int
		says    string
	}{
		{"generator", loop{generator: 20 * us, server: 5 * us, link: 3 * us}, 64, "generator", record.PerturbGenerator, agrees, 0,
			"generator is the bottleneck: with 75% of it left, throughput fell to 7"},
		{"server", loop{generator: 5 * us, server: 20 * us, link: 3 * us}, 64, "server CPU", record.PerturbServer, agrees, 0, "agree: server CPU"},
		{"one thread", loop{generator: 5 * us, server: 20 * us}, 64, "single-threaded server", record.PerturbServer, agrees, 0, ""},
		{"link", loop{generator: 5 * us, server: 9 * us, link: 40 * us}, 64, "bandwidth", record.PerturbLink, agrees, 0, ""},
		{"concurrency", loop{generator: 5 * us, server: 9 * us, link: 4 * us, sleep: 0.04}, 64, "concurrency", record.PerturbConcurrency, agrees, 0,
			"More requests in flight would raise throughput"},
		{"lock", loop{generator: 5 * us, server: 9 * us, link: 4 * us, lock: 90 * us}, 64, "server blocked", "", agrees, 0,
			"time the server waits"},
		{"the passive verdict is wrong", loop{generator: 5 * us, server: 20 * us}, 64, "generator", record.PerturbServer, contradicts, exitFail,
			"contradicts"},
		{"wrong about a wait", loop{generator: 20 * us, server: 5 * us}, 64, "server blocked", record.PerturbGenerator, contradicts, exitFail,
			"contradicts"},
		{"a wait called CPU", loop{generator: 5 * us, server: 9 * us, lock: 90 * us}, 64, "server CPU", "", contradicts, exitFail,
			"contradicts"},
		{"a lock whose holder computes", loop{generator: 5 * us, server: 20 * us}, 64, "server blocked", record.PerturbServer, inconclusive, 0,
			"more of them would not"},
		{"inconclusive", loop{generator: 5 * us, server: 20 * us}, 64, "inconclusive", record.PerturbServer, inconclusive, 0, "neither confirms"},
		{"two alike", loop{generator: 20 * us, server: 20 * us}, 64, "server CPU", "", inconclusive, exitInvalid,
			"no single resource is the bottleneck"},
	}
	for _, c := range cases {
		for seed := range uint64(5) {
			p := proofOf(0, c.slots)
			proof := prove(p, c.l, c.passive, 0.01, seed)
			if proof.Proved != c.proved || proof.Agrees != c.agrees || p.Exit != c.exit || !strings.Contains(prose.Text(proof.Says), c.says) {
				t.Errorf("%s, seed %d: proved %q, %s, exit %d, doubts %q\n%s", c.name, seed, proof.Proved, proof.Agrees, p.Exit, proof.Caveats,
					prose.Text(proof.Says))
			}
			if rate := slices.Contains(rates(), c.proved); rate && (proof.Sum.Mid < sumLeast || proof.Sum.Mid > sumMost) {
				t.Errorf("%s, seed %d: the sum is %v", c.name, seed, proof.Sum)
			}
			if math.Abs(proof.PerS.Mid/c.l.perS(int(c.slots))-1) > 0.02 || len(proof.NotTested) != 0 || len(proof.Resources) != 4 {
				t.Errorf("%s, seed %d: %+v", c.name, seed, proof)
			}
		}
	}
	if noisy := prove(proofOf(0, 64), loop{generator: 5 * us, server: 20 * us}, "server CPU", 0.4, 1); noisy.Says.Code != "proof.undecided" {
		t.Errorf("runs that differ too much: %q", prose.Text(noisy.Says))
	}
	two := prove(proofOf(0, 64), loop{generator: 20 * us, server: 20 * us}, "", 0.01, 1)
	if len(two.Caveats) == 0 || !strings.Contains(prose.Text(two.Caveats[0]), "smaller --share") {
		t.Errorf("two alike: %+v, %q", two.Sum, two.Caveats)
	}
}

func TestSpelledProof(t *testing.T) {
	p := proofOf(0, 10)
	steps := Enumerate(&p.Experiment)
	if len(steps) != 1+8*5 || !steps[0].WarmupRun {
		t.Fatalf("%d steps, the first %+v", len(steps), steps[0])
	}
	orders := map[string]bool{}
	for block := 1; block <= 8; block++ {
		var order []string
		for _, s := range steps[1:] {
			if s.Block != block {
				continue
			}
			order = append(order, s.Perturb.Resource)
			want := 10
			if s.Perturb.Resource == record.PerturbConcurrency {
				want = 8
			}
			if s.Connections != want || s.Pipelining != 1 || s.Perturb.Resource != "" && s.Perturb.Share != perturbShare {
				t.Errorf("%+v", s)
			}
		}
		orders[strings.Join(order, " ")] = true
		slices.Sort(order)
		if !slices.Equal(order, []string{"", record.PerturbConcurrency, record.PerturbGenerator, record.PerturbLink, record.PerturbServer}) {
			t.Errorf("block %d has %v", block, order)
		}
	}
	if len(orders) < 4 {
		t.Errorf("the order is no lot: %v", orders)
	}
	p.Experiment.Prove.Interface = ""
	p.Experiment.Load.Connections[0] = 1
	if steps := Enumerate(&p.Experiment); len(steps) != 1+8*3 {
		t.Errorf("%d steps without a link and with one slot", len(steps))
	}
}

func TestFewerSlots(t *testing.T) {
	for _, c := range []struct {
		connections, pipelining int
		share                   float64
		c, p                    int
	}{
		{64, 1, 0.25, 48, 1}, {5, 1, 0.25, 4, 1}, {4, 1, 0.25, 3, 1}, {2, 1, 0.25, 1, 1}, {1, 100, 0.25, 1, 75}, {2, 100, 0.25, 2, 75},
		{3, 2, 0.25, 2, 2}, {10, 10, 0.25, 8, 10}, {1000, 50, 0.01, 990, 50}, {1, 2, 0.01, 1, 1}, {3, 100, 0.8, 3, 20},
	} {
		if n, p := fewerSlots(c.connections, c.pipelining, c.share); n != c.c || p != c.p {
			t.Errorf("%+v: %d × %d", c, n, p)
		}
	}
	rapid.Check(t, func(t *rapid.T) {
		c, p := rapid.IntRange(1, 5000).Draw(t, "connections"), rapid.IntRange(1, 200).Draw(t, "pipelining")
		share := rapid.Float64Range(0.001, 0.8).Draw(t, "share")
		if c*p < 2 {
			return
		}
		n, q := fewerSlots(c, p, share)
		if n < 1 || q < 1 || n*q >= c*p || n != c && q != p {
			t.Fatalf("%d × %d less %v: %d × %d", c, p, share, n, q)
		}
	})
}

// TestProofOfWhatThereIs: runs that could not be made, or took too little, or
// failed, are named and left out.
func TestProofOfWhatThereIs(t *testing.T) {
	l := loop{generator: 5e-6, server: 20e-6, link: 3e-6}
	check := func(name string, change func(*record.Measured), want func(*record.Plan) bool) {
		t.Helper()
		p := proofOf(0, 64)
		prove(p, l, "server CPU", 0.01, 2)
		for i := range p.Runs {
			change(&p.Runs[i])
		}
		Conclude(p)
		if !want(p) {
			t.Errorf("%s: exit %d, %+v", name, p.Exit, p.Proof)
		}
	}
	no := func(resource, why string) func(*record.Measured) {
		return func(m *record.Measured) {
			if m.Perturb.Resource == resource {
				m.Run, m.Perturbed, m.CompletedPerS, m.NotRun = "", nil, 0, why
			}
		}
	}
	check("no link", no(record.PerturbLink, "not root"), func(p *record.Plan) bool {
		return p.Proof.Proved == record.PerturbServer && len(p.Proof.NotTested) == 1 && prose.Text(p.Proof.NotTested[0].Why) == "not root"
	})
	check("no server", no(record.PerturbServer, "on another host"), func(p *record.Plan) bool {
		return p.Proof.Proved == "" && p.Proof.Agrees == inconclusive && p.Exit == exitInvalid &&
			strings.Contains(prose.Sentence(p.Proof.Caveats), "server CPU, which was not tested")
	})
	check("a hog that got nothing", func(m *record.Measured) {
		if m.Perturb.Resource == record.PerturbGenerator && m.Block < 3 {
			m.Perturbed.Left = 0.95
		}
	}, func(p *record.Plan) bool {
		return p.Proof.Proved == record.PerturbServer && p.Proof.Resources[0].Blocks == 6 && len(p.Proof.Caveats) >= 2
	})
	check("nothing completed", func(m *record.Measured) { m.CompletedPerS = 0 }, func(p *record.Plan) bool {
		return p.Proof.Proved == "" && p.Exit == exitInvalid && strings.Contains(prose.Text(p.Proof.Says), "no result")
	})
	check("few blocks", func(m *record.Measured) {
		if m.Block > 3 {
			m.CompletedPerS = 0
		}
	}, func(p *record.Plan) bool {
		return p.Proof.Proved == "" && p.Exit == exitInvalid && strings.Contains(prose.Text(p.Proof.Says), "too few")
	})
	check("errors", func(m *record.Measured) { m.BadShare = 0.5 }, func(p *record.Plan) bool {
		return strings.Contains(prose.Sentence(p.Proof.Caveats), "failed or were refused")
	})
	check("verdicts that do not agree", func(m *record.Measured) {
		if m.Block%2 == 0 {
			m.Bottleneck = "generator"
		}
	}, func(p *record.Plan) bool {
		return p.Proof.Passive == "" && p.Proof.Agrees == inconclusive && p.Proof.Proved == record.PerturbServer && p.Exit == 0
	})
	p := proofOf(0, 64)
	Conclude(p)
	if p.Proof == nil || p.Exit != exitInvalid {
		t.Errorf("without runs: %+v", p.Proof)
	}
}

// TestProofNeverPanics: whatever the runs say, there is an answer.
func TestProofNeverPanics(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		p := proofOf(0, 64)
		for _, s := range Enumerate(&p.Experiment) {
			m := record.Measured{Step: s, Bottleneck: rapid.SampledFrom([]record.Bottleneck{"", "generator", "server blocked", "concurrency",
				"bandwidth"}).Draw(t, "ceiling")}
			m.Run = rapid.SampledFrom([]string{"", "1", "1", "1"}).Draw(t, "run")
			m.CompletedPerS = rapid.SampledFrom([]float64{0, 1e-300, 1, 1000, 1e300, math.NaN(), math.Inf(1)}).Draw(t, "rate")
			if rapid.Bool().Draw(t, "taken") {
				m.Perturbed = &record.Perturbed{Left: rapid.SampledFrom([]float64{0, 1e-9, 0.5, 0.75, 1, 2, math.NaN()}).Draw(t, "left")}
			}
			if rapid.Bool().Draw(t, "made") {
				p.Runs = append(p.Runs, m)
			}
		}
		Conclude(p)
		if p.Proof.Says.IsZero() || p.Proof.Agrees == "" || p.Exit != 0 && p.Exit != exitFail && p.Exit != exitInvalid {
			t.Fatalf("%+v", p.Proof)
		}
	})
}
