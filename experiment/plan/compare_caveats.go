package plan

import (
	"fmt"
	"math"
	"slices"

	"ceiling/experiment/spec"
	"ceiling/internal/stat"
	"ceiling/record"
)

// paceOfGenerator tells a run of a closed loop that went as fast as the
// generator could: invalid for what it says of the server's rate, but the CPU
// that the server took for a request is measured all the same. An open loop
// whose generator was full has sent something else than was asked.
func paceOfGenerator(m *record.Measured) bool {
	return m.Bottleneck == record.LoadGenerator && m.TargetPerS == 0
}

// shareOf is the share of runs that a condition holds for.
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

// limitedByGenerator takes the decision back from what the generator set: in a
// closed loop that it holds down, rate and response time are both its own.
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
		ch.Says = fmt.Sprintf("%s: inconclusive, the generator was the bottleneck on both sides: this figure is its own, not the servers'",
			wordsOf(ch.Metric))
	}
}

// caveatsOf is what weakens the answer.
func caveatsOf(e *spec.Experiment, c *record.Comparison, s *compareSides) []string {
	var caveats []string
	add := func(text string) {
		if text != "" {
			caveats = append(caveats, text)
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

func fewBlocks(e *spec.Experiment, c *record.Comparison) string {
	n := len(metricsOf(e))
	least := stat.LeastBlocks(compareConfidence, n)
	switch leastNoise := stat.LeastBlocks(compareConfidence, 1); {
	case c.Blocks < least:
		return fmt.Sprintf("%d blocks are too few: %d metrics at %s together need %d", c.Blocks, n, shareText(compareConfidence), least)
	case c.Blocks < least+2:
		return fmt.Sprintf("%d blocks are the minimum: a single disturbed block hides a change", c.Blocks)
	case c.NoiseBlocks < leastNoise:
		return fmt.Sprintf("%d blocks of A vs A are too few to estimate noise: needs %d", c.NoiseBlocks, leastNoise)
	}
	return ""
}

func ceilingsDiffer(s *compareSides) string {
	of := func(m *record.Measured) record.Bottleneck { return m.Bottleneck }
	a, b := mostOf(s.a, of), mostOf(s.b, of)
	if a == b || a == "" || b == "" {
		return ""
	}
	return fmt.Sprintf("A was limited by %s and B by %s: the two rates have different bottlenecks", a, b)
}

func generatorCaveat(s *compareSides) string {
	a, b := shareOf(s.a, paceOfGenerator), shareOf(s.b, paceOfGenerator)
	switch {
	case a >= mostly && b >= mostly:
		return "the generator was the bottleneck on both sides: rate and response time say nothing about the servers; give it more threads or another machine, or set a rate (-R)"
	case a >= mostly:
		return "the generator was the bottleneck of A: A could do more than was measured"
	case b >= mostly:
		return "the generator was the bottleneck of B: B could do more than was measured"
	case a > 0 || b > 0:
		return fmt.Sprintf("the generator was the bottleneck in %s of A's runs and %s of B's", shareText(a), shareText(b))
	}
	return ""
}

func sharedCaveat(s *compareSides) string {
	shared := func(m *record.Measured) bool { return m.Bottleneck == record.SharedCPU }
	if shareOf(s.a, shared) < mostly && shareOf(s.b, shared) < mostly {
		return ""
	}
	return "generator and server saturated the same cores: a server change shows in its CPU/request, and only partly in the rate"
}

// oneProcess says what is not known where the comparison could not start the
// servers anew for every block.
func oneProcess(e *spec.Experiment) string {
	if e.Servers[0].Serve != "" && e.Servers[1].Serve != "" {
		return ""
	}
	return "a server that was running is one process: its luck with memory and cores cannot be separated from its code; use --serve COMMAND to start a new one in every block"
}

// errorsApart is the difference of the shares of failed requests from which on
// failures, which are quicker or slower than answers, may shift the figures.
const errorsApart = 0.001

func errorsDiffer(s *compareSides) string {
	a, b := badShare(s.a), badShare(s.b)
	if math.Abs(a-b) <= errorsApart {
		return ""
	}
	return fmt.Sprintf("%s of A's requests failed and %s of B's: a change by itself, and it shifts every other figure", shareText(a),
		shareText(b))
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

// beyondLeast is how many requests have to lie above a quantile for it to be known
// at all: of 10 the place in the order is known to a third (1/√10).
const beyondLeast = 10

// fewBeyond says where a quantile is rather the largest of a few.
func fewBeyond(m compareMetric, blocks []compareBlock) string {
	if m.beyond == 0 {
		return ""
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
		return ""
	}
	return fmt.Sprintf("%s rests on %.0f slower requests per side in the shortest block, %d are needed: use longer runs (-d)", m.words,
		math.Floor(least), beyondLeast)
}

// driftMost is how far a metric may wander from the first third of the blocks
// to the last before it is said, in margins of the metric. Blocks take out what
// is straight within them.
const driftMost = 2

// driftOf looks whether both sides together wandered.
func driftOf(m compareMetric, list []outcome) string {
	third := len(list) / 3
	if third < 2 {
		return ""
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
		return ""
	}
	return fmt.Sprintf("%s of both sides drifted by %s from the first blocks to the last; blocks cancel most of that", m.words,
		signedText(drift))
}

// floorCaveat says where A against A differs more than anything that was looked
// for.
func floorCaveat(c *record.Change) string {
	for _, m := range allMetrics() {
		if m.name == c.Metric && c.Floor > m.margin {
			return fmt.Sprintf("A vs A reaches ±%s in %s here: smaller changes are not visible on this machine", shareText(c.Floor), m.words)
		}
	}
	return ""
}
