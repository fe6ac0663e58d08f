package plan

import (
	"fmt"
	"math"
	"strings"

	"ceiling/internal/stat"
	"ceiling/record"
)

// changeOf judges one metric from blocks of A against B, after what blocks of
// A against A show; caveats are those of the metric alone. comparisons is how many
// metrics are judged with it.
func changeOf(m compareMetric, real, noise []compareBlock, comparisons int) (c record.Change, caveats []string) {
	c = record.Change{Metric: m.name, Unit: m.unit, Decision: record.CannotTell, PerBlock: []float64{}}
	if len(real) == 0 {
		c.Says = m.words + ": not measured: no whole block of A and B"
		return c, nil
	}
	list, why := outcomesOf(m, real)
	if why != "" {
		c.Says = m.words + ": not measured: " + why
		return c, nil
	}
	calm := calmOf(list, stat.LeastBlocks(compareConfidence, comparisons))
	a, b := runsOf(real, calm)
	c.A, _ = m.of(a) // there, since every block has it
	c.B, _ = m.of(b)
	c.PerBlock = ratiosOf(list, calm)
	d, err := stat.Paired(c.PerBlock, compareConfidence, comparisons)
	if err != nil {
		c.Says = m.words + ": " + err.Error()
		return c, nil
	}
	if out := len(list) - len(calm); out > 0 {
		d.Warnings = append(d.Warnings, fmt.Sprintf("%d of %d blocks were left out: the same server differed from itself in them", out,
			len(list)))
	}
	floor, why := floorOf(m, noise)
	if why != "" {
		d.Warnings = append(d.Warnings, why)
	}
	if floor != nil {
		c.Floor = stat.Relative(floor.Resolution)
	}
	decide(&c, m, d, floor)
	for _, caveat := range []string{fewBeyond(m, real), driftOf(m, list)} {
		if caveat != "" {
			caveats = append(caveats, caveat)
		}
	}
	return c, caveats
}

// floorOf is what A against A shows of a metric; nil, and why, where that is
// not known.
//
// It is the estimate, and not the far end of its interval: that chance puts A
// and B so far apart is in their own interval already. In the simulation of the
// tests the far end would bring false alarms from 3 in 100 to less than 1, and
// the changes of 20 % in p99 that are found from 93 in 100 to some 40.
func floorOf(m compareMetric, noise []compareBlock) (*stat.Floor, string) {
	if len(noise) == 0 {
		return nil, "A was not run against A: the noise is unknown"
	}
	list, why := outcomesOf(m, noise)
	if why != "" {
		return nil, "A vs A: " + why
	}
	// Not corrected for the number of metrics: that is done to A against B.
	floor, err := stat.NoiseFloor(ratiosOf(list, calmOf(list, stat.LeastBlocks(compareConfidence, 1))), compareConfidence, 1)
	if err != nil {
		return nil, err.Error()
	}
	floor.Resolution = math.Abs(floor.Value)
	return &floor, ""
}

// decide fills in the decision, the interval and its words. A difference has
// to show beyond what A against A reaches; where none shows, "no change" needs
// the whole interval within the metric's margin.
func decide(c *record.Change, m compareMetric, d stat.Difference, floor *stat.Floor) {
	c.Relative = record.Estimate{Mid: stat.Relative(d.Value), Low: stat.Relative(d.Low), High: stat.Relative(d.High), Confidence: d.Confidence,
		Warnings: d.Warnings}
	if !d.Certain() || floor != nil && !floor.Certain() {
		c.Relative.Confidence = 0
	}
	var verdict stat.Decision
	var err error
	if !d.Contains(0) { // a change that shows is one also where it is small
		verdict, err = stat.Decide(d, floor, 0)
	}
	if err == nil && verdict.Answer != stat.Higher && verdict.Answer != stat.Lower {
		verdict, err = stat.Decide(d, floor, m.margin)
	}
	if err != nil {
		c.Says = m.words + ": " + err.Error()
		return
	}
	reach := stat.Relative(max(math.Abs(d.Low), math.Abs(d.High)))
	switch verdict.Answer {
	case stat.Higher, stat.Lower:
		c.Decision = record.Worse
		if (verdict.Answer == stat.Higher) == m.more {
			c.Decision = record.Better
		}
		c.Says = fmt.Sprintf("%s %s", m.words, movedText(&c.Relative))
		return
	case stat.NoChange:
		// A machine noisier than the margin hides what matters.
		if reach <= m.margin {
			c.Decision, c.Within = record.NoChange, reach
			c.Says = fmt.Sprintf("no change in %s within ±%s", m.words, shareText(reach))
			return
		}
	}
	c.Says = fmt.Sprintf("%s: inconclusive, %s", m.words, rangeText(&c.Relative))
	switch n := len(verdict.Warnings); {
	case c.Floor > m.margin:
		c.Says += fmt.Sprintf("; A vs A reaches ±%s", shareText(c.Floor))
	case n > 0:
		c.Says += "; " + verdict.Warnings[n-1]
	}
}

// movedText is "5.1 % lower (3.0 to 7.2 %)".
func movedText(r *record.Estimate) string {
	if r.Mid < 0 {
		return fmt.Sprintf("%s lower (%s to %s)", shareText(-r.Mid), shareText(-r.High), shareText(-r.Low))
	}
	return fmt.Sprintf("%s higher (%s to %s)", shareText(r.Mid), shareText(r.Low), shareText(r.High))
}

// rangeText is "between −2.1 % and +6.3 %".
func rangeText(r *record.Estimate) string {
	return fmt.Sprintf("between %s and %s", signedText(r.Low), signedText(r.High))
}

// shareText is a share in per cent, to a tenth below 10 %: 5.1 %, 34 %.
func shareText(share float64) string {
	percent := share * 100
	switch {
	case math.Abs(percent) < 0.095:
		return fmt.Sprintf("%.2f%%", percent)
	case math.Abs(percent) < 9.95:
		return fmt.Sprintf("%.1f%%", percent)
	}
	return fmt.Sprintf("%.0f%%", percent)
}

func signedText(share float64) string {
	if share < 0 {
		return "−" + shareText(-share)
	}
	return "+" + shareText(share)
}

// saysOf is the answer in one sentence.
func saysOf(c *record.Comparison) string {
	var better, worse, same, open []string
	for i := range c.Changes {
		ch := &c.Changes[i]
		words := wordsOf(ch.Metric)
		switch ch.Decision {
		case record.Better:
			better = append(better, ch.Says)
		case record.Worse:
			worse = append(worse, ch.Says)
		case record.NoChange:
			same = append(same, fmt.Sprintf("%s within ±%s", words, shareText(ch.Within)))
		default:
			open = append(open, words)
		}
	}
	var parts []string
	switch {
	case len(better) > 0 && len(worse) > 0:
		parts = append(parts, "B is worse than A in one thing and better in another: "+strings.Join(append(worse, better...), ", "))
	case len(worse) > 0:
		parts = append(parts, "B is worse than A: "+strings.Join(worse, ", "))
	case len(better) > 0:
		parts = append(parts, "B is better than A: "+strings.Join(better, ", "))
	}
	if len(same) > 0 {
		parts = append(parts, "no change in "+strings.Join(same, ", "))
	}
	if len(open) > 0 {
		parts = append(parts, "inconclusive for "+strings.Join(open, ", "))
	}
	return strings.Join(parts, "; ")
}

// wordsOf is a metric in a sentence.
func wordsOf(name string) string {
	for _, m := range allMetrics() {
		if m.name == name {
			return m.words
		}
	}
	return name
}
