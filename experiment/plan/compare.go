package plan

import (
	"fmt"
	"math/rand/v2"
	"slices"

	"ceiling/experiment/spec"
	"ceiling/internal/stat"
	"ceiling/record"
)

// Sides of a comparison, in record.Step.Side.
const (
	SideA = "A"
	SideB = "B"
)

// compareConfidence is the joint confidence of all metrics of a comparison.
const compareConfidence = 0.95

// runsPerSide of a block: A B B A. A linear drift over the block affects both sides equally.
const runsPerSide = 2

// CompareBlocks returns the number of A/B blocks, and of A/A blocks, of a comparison. If one run
// in ten is disturbed, so are a third of all blocks; 2¼ times the minimum that can exclude "no
// difference" for all metrics jointly leaves one and a half times that minimum. For a closed loop
// that is 18 where 8 are needed, and half as many A/A blocks: 111 runs.
//
// In the simulation of the tests (2.5 % noise per run, 5 % in its p99, neighbours, drift) 18
// blocks detect 5 % of CPU in 99 of 100 comparisons and 20 % of p99 in 93; 14 detect the latter
// in 85.
func CompareBlocks(e *spec.Experiment) (blocks, noise int) {
	blocks, noise = e.Compare.Blocks, e.Compare.NoiseBlocks
	if blocks == 0 {
		blocks = stat.LeastBlocks(compareConfidence, len(metricsOf(e))) * 9 / 4
	}
	if noise == 0 {
		noise = max((blocks+1)/2, stat.LeastBlocks(compareConfidence, 1)+1)
	}
	return blocks, noise
}

// spellComparison distributes the A/A blocks evenly among the A/B blocks, each at a random place
// within its stretch. Each block starts with A or B at random, which makes its outcome symmetric
// if the two are the same.
//
// In an A/A block, side B is a second instance of server 0: the same command started again, or
// the same URL.
func spellComparison(e *spec.Experiment) []record.Step {
	blocks, noise := CompareBlocks(e)
	chance := rand.New(rand.NewPCG(e.Seed, 0xABBA))
	isNoise := make([]bool, blocks+noise)
	for i := range noise {
		from, to := i*len(isNoise)/noise, (i+1)*len(isNoise)/noise // whole blocks: no two noise blocks share one
		isNoise[from+chance.IntN(to-from)] = true
	}
	steps := []record.Step{comparisonStep(e, SideA, false), comparisonStep(e, SideB, true), comparisonStep(e, SideB, false)}
	for i := range steps {
		steps[i].WarmupRun = true
	}
	repeats := map[[2]bool]int{}
	for i, noise := range isNoise {
		first, second := SideA, SideB
		if chance.IntN(2) == 1 {
			first, second = second, first
		}
		for at, side := range []string{first, second, second, first} {
			s := comparisonStep(e, side, noise)
			s.Block = i + 1
			s.Restart = at == 0 // also the first: the warm-up's server is older than its counterpart
			condition := [2]bool{side == SideB, noise}
			repeats[condition]++
			s.Repeat = repeats[condition]
			steps = append(steps, s)
		}
	}
	return steps
}

// comparisonStep returns a run of one side.
func comparisonStep(e *spec.Experiment, side string, noise bool) record.Step {
	s := record.Step{Side: side, Noise: noise, Condition: e.Load.First()}
	if side == SideB && !noise {
		s.Server = 1
	}
	return s
}

// concludeComparison judges the complete blocks.
func concludeComparison(p *record.Plan) {
	e := &p.Experiment
	c := &record.Comparison{A: e.Servers[0].Label(), B: e.Servers[1].Label(), Differences: serverDifferences(e), Changes: []record.Change{}}
	p.Comparison, p.Exit = c, 0
	sides := sidesOf(p.Runs)
	if c.Incomparable = mostlyErrors(&sides); c.Incomparable != nil {
		c.Says = say("comparison.incomparable", with{"why": c.Incomparable})
		closeGate(p, &sides)
		return
	}
	blocks, left := wholeBlocks(p.Runs)
	real, noise := partBlocks(blocks)
	c.Blocks, c.NoiseBlocks = len(real), len(noise)
	for _, m := range metricsOf(e) {
		change, caveats := changeOf(m, real, noise, len(metricsOf(e)))
		c.Changes = append(c.Changes, change)
		left = append(left, caveats...)
	}
	limitedByGenerator(c, &sides)
	c.Profiles = profileDifferences(profilesOf(sides.a), profilesOf(sides.b), true)
	c.Says = saysOf(c, tooFewBlocks(e))
	c.Caveats = append(caveatsOf(e, c, &sides), left...)
	closeGate(p, &sides)
}

// compareMetric is a metric in which the two sides are compared.
type compareMetric struct {
	name, unit string
	// more: higher is better.
	more bool
	// margin is the change, as a share, within which the decision may be "no change": smaller
	// changes do not matter. p99 depends on a hundredth of the requests.
	margin float64
	// beyond is the share of requests above the quantile; 0 if the metric is not a quantile.
	beyond float64
	// of computes the metric over some runs; why is the reason if it cannot.
	of func(runs []*record.Measured) (value float64, why record.Statement)
}

// Metrics of a comparison, as in record.Change.
const (
	metricRPS = "rps"
	metricP50 = "p50"
	metricP99 = "p99"
	metricCPU = "server_cpu"
)

func allMetrics() []compareMetric {
	return []compareMetric{
		{metricRPS, "/s", true, .05, 0, rateOf},
		{metricP50, "ns", false, .10, .5, quantileOf(.5)},
		{metricP99, "ns", false, .20, .01, quantileOf(.99)},
		{metricCPU, "ns", false, .05, 0, cpuOf},
	}
}

// metricsOf returns the metrics of an experiment: in an open loop the rate is a setting, not a
// result.
func metricsOf(e *spec.Experiment) []compareMetric {
	all := allMetrics()
	if len(e.Load.Rate) > 0 {
		all = slices.DeleteFunc(all, func(m compareMetric) bool { return m.name == metricRPS })
	}
	return all
}

// compareSides are the counted runs of each side; A's exclude A/A blocks.
type compareSides struct{ a, b, all []*record.Measured }

func sidesOf(runs []record.Measured) compareSides {
	var s compareSides
	for i := range runs {
		m := &runs[i]
		switch {
		case m.WarmupRun || m.Block == 0:
			continue
		case m.Noise:
		case m.Side == SideA:
			s.a = append(s.a, m)
		default:
			s.b = append(s.b, m)
		}
		s.all = append(s.all, m)
	}
	return s
}

// mostly is the share of runs, or of requests, that counts as most of them.
const mostly = 0.5

// mostlyErrors is the answer if a side mostly returns errors: none of its other figures matter.
func mostlyErrors(s *compareSides) []record.Statement {
	var list []record.Statement
	bad := func(name string, runs []*record.Measured) {
		var failing, worst float64
		for _, m := range runs {
			if m.BadShare > mostly || m.Completed == 0 && m.Failed > 0 {
				failing++
				worst = max(worst, m.BadShare)
			}
		}
		if len(runs) == 0 || failing <= mostly*float64(len(runs)) {
			return
		}
		list = append(list, say("incomparable.errors", with{"side": name, "failing": failing, "runs": len(runs), "worst": worst}))
	}
	bad(SideA, s.a)
	bad(SideB, s.b)
	return list
}

// serverDifferences are the differences that the experiment itself defines.
func serverDifferences(e *spec.Experiment) []record.Difference {
	a, b := &e.Servers[0], &e.Servers[1]
	list := differences{}
	list.explains("server url", a.URL, b.URL)
	list.explains("server command", a.Serve, b.Serve)
	list.explains("server environment", fmt.Sprint(a.Env), fmt.Sprint(b.Env))
	return list.sorted()
}
