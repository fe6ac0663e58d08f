package plan

import (
	"math"
	"slices"

	"ceiling/experiment/spec"
	"ceiling/internal/stat"
	"ceiling/record"
)

// paceOfGenerator reports whether a closed-loop run was limited by the generator: its rate says
// nothing about the server, but the server's CPU per request is still valid. An open loop with a
// saturated generator did not send the configured load.
func paceOfGenerator(m *record.Measured) bool {
	return m.Bottleneck == record.LoadGenerator && m.TargetPerS == 0
}

// shareOf returns the share of runs that satisfy a condition.
func shareOf(runs []*record.Measured, holds func(*record.Measured) bool) float64 {
	if len(runs) == 0 {
		return 0
	}
	n := 0
	for _, m := range runs {
		if holds(m) {
			n++
		}
	}
	return float64(n) / float64(len(runs))
}

// limitedByGenerator withdraws decisions about what the generator determined: in a closed loop
// limited by it, rate and response time are its own.
func limitedByGenerator(c *record.Comparison, s *compareSides) {
	if shareOf(s.a, paceOfGenerator) < mostly || shareOf(s.b, paceOfGenerator) < mostly {
		return
	}
	for i := range c.Changes {
		ch := &c.Changes[i]
		if ch.Metric == metricCPU || len(ch.PerBlock) == 0 {
			continue
		}
		ch.Decision, ch.Within = record.CannotTell, 0
		ch.Relative.Confidence = 0
		ch.Says = say("change.generator", with{"metric": ch.Metric})
	}
}

// caveatsOf lists what weakens the answer.
func caveatsOf(e *spec.Experiment, c *record.Comparison, s *compareSides) []record.Statement {
	var caveats []record.Statement
	add := func(caveat record.Statement) {
		if !caveat.IsZero() {
			caveats = append(caveats, caveat)
		}
	}
	add(fewBlocks(e, c))
	add(ceilingsDiffer(s))
	add(generatorCaveat(s))
	add(sharedCaveat(s))
	add(errorsDiffer(s))
	add(oneProcess(e))
	for i := range c.Changes {
		add(floorCaveat(&c.Changes[i]))
	}
	return caveats
}

func fewBlocks(e *spec.Experiment, c *record.Comparison) record.Statement {
	n := len(metricsOf(e))
	least := stat.LeastBlocks(compareConfidence, n)
	switch leastNoise := stat.LeastBlocks(compareConfidence, 1); {
	case !tooFewBlocks(e).IsZero(): // the answer says so
	case c.Blocks < least:
		return say("comparison.few-blocks", with{"blocks": c.Blocks, "metrics": n, "confidence": compareConfidence, "needed": least})
	case c.Blocks < least+2:
		return say("comparison.least-blocks", with{"blocks": c.Blocks})
	case c.NoiseBlocks < leastNoise:
		return say("comparison.few-noise-blocks", with{"blocks": c.NoiseBlocks, "needed": leastNoise})
	}
	return record.Statement{}
}

// tooFewBlocks says that a comparison of so few blocks has no answer, whatever they show.
func tooFewBlocks(e *spec.Experiment) record.Statement {
	n := len(metricsOf(e))
	blocks, _ := CompareBlocks(e)
	if least := stat.LeastBlocks(compareConfidence, n); blocks < least {
		return say("comparison.blocks", with{"blocks": blocks, "metrics": n, "confidence": compareConfidence, "needed": least})
	}
	return record.Statement{}
}

func ceilingsDiffer(s *compareSides) record.Statement {
	of := func(m *record.Measured) record.Bottleneck { return m.Bottleneck }
	a, b := mostOf(s.a, of), mostOf(s.b, of)
	return twoBottlenecks(a, b)
}

func generatorCaveat(s *compareSides) record.Statement {
	a, b := shareOf(s.a, paceOfGenerator), shareOf(s.b, paceOfGenerator)
	switch {
	case a >= mostly && b >= mostly:
		return say("comparison.generator", nil)
	case a >= mostly:
		return say("comparison.generator-of", with{"side": SideA})
	case b >= mostly:
		return say("comparison.generator-of", with{"side": SideB})
	case a > 0 || b > 0:
		return say("comparison.generator-at-times", with{"a": a, "b": b})
	}
	return record.Statement{}
}

func sharedCaveat(s *compareSides) record.Statement {
	shared := func(m *record.Measured) bool { return m.Bottleneck == record.SharedCPU }
	if shareOf(s.a, shared) < mostly && shareOf(s.b, shared) < mostly {
		return record.Statement{}
	}
	return say("comparison.shared-cores", nil)
}

// oneProcess is the caveat if the comparison could not restart the servers for every block.
func oneProcess(e *spec.Experiment) record.Statement {
	if e.Servers[0].Serve != "" && e.Servers[1].Serve != "" {
		return record.Statement{}
	}
	return say("comparison.one-process", nil)
}

// errorsApart is the difference between the sides' error shares from which errors, which are
// faster or slower than other responses, may bias the figures.
const errorsApart = 0.001

func errorsDiffer(s *compareSides) record.Statement {
	a, b := badShare(s.a), badShare(s.b)
	if math.Abs(a-b) <= errorsApart {
		return record.Statement{}
	}
	return say("comparison.errors", with{"a": a, "b": b})
}

func badShare(runs []*record.Measured) float64 {
	var bad, all float64
	for _, m := range runs {
		n := float64(m.Completed + m.Failed)
		bad += m.BadShare * n
		all += n
	}
	if all == 0 {
		return 0
	}
	return bad / all
}

// beyondLeast is the minimum number of requests above a quantile to estimate it: with 10, its
// rank is known to about a third (1/√10).
const beyondLeast = 10

// fewBeyond is the caveat that a quantile is really the maximum of a few requests.
func fewBeyond(m compareMetric, blocks []compareBlock) record.Statement {
	if m.beyond == 0 {
		return record.Statement{}
	}
	least := math.Inf(1)
	for _, b := range blocks {
		for _, side := range [][]*record.Measured{b.a, b.b} {
			requests := 0.0
			for _, r := range side {
				requests += float64(r.Completed)
			}
			least = min(least, requests*m.beyond)
		}
	}
	if least >= beyondLeast {
		return record.Statement{}
	}
	return say("comparison.few-beyond", with{"metric": m.name, "slower": math.Floor(least), "needed": beyondLeast})
}

// driftMost is the drift of a metric from the first to the last third of the blocks that becomes
// a caveat, in margins of the metric. Blocks cancel linear drift within them.
const driftMost = 2

// driftOf checks whether both sides drifted together.
func driftOf(m compareMetric, list []outcome) record.Statement {
	third := len(list) / 3
	if third < 2 {
		return record.Statement{}
	}
	level := func(part []outcome) float64 {
		levels := make([]float64, len(part))
		for i, o := range part {
			levels[i] = (math.Log(o.a) + math.Log(o.b)) / 2
		}
		slices.Sort(levels)
		return levels[len(levels)/2]
	}
	drift := stat.Relative(level(list[len(list)-third:]) - level(list[:third]))
	if !(math.Abs(drift) > driftMost*m.margin) {
		return record.Statement{}
	}
	return say("comparison.drift", with{"metric": m.name, "drift": drift})
}

// floorCaveat is the caveat that A/A differs more than the smallest change of interest.
func floorCaveat(c *record.Change) record.Statement {
	for _, m := range allMetrics() {
		if m.name == c.Metric && c.Floor > m.margin {
			return say("comparison.noisy", with{"metric": m.name, "floor": c.Floor})
		}
	}
	return record.Statement{}
}
