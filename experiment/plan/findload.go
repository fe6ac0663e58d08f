package plan

import (
	"math"
	"strconv"

	"ceiling/experiment/spec"
	"ceiling/internal/unit"
	"ceiling/record"
)

const (
	// connectionsLeast and connectionsMost bound the automatic choice: fewer do not spread over a
	// server with a process per core; more have a noticeable cost of their own.
	connectionsLeast = 64
	connectionsMost  = 4096
	// slotsRoom is the ratio of slots to the requests in flight that Little's law gives at the
	// SLO's limit: a tolerable stall must not exhaust them.
	slotsRoom = 2
	// limitGuess is the latency limit for choosing slots if the SLO has none.
	limitGuess = 0.1 // seconds
	// firstShare is the first rate as a share of the closed loop's throughput.
	firstShare = 0.5
)

// settle is the first contact with the server: a closed loop, whose throughput determines where
// to start.
func (s *searchState) settle() Decision {
	step := record.Step{Number: s.runs + 1, WarmupRun: true, Condition: s.e.Load.First()}
	return Decision{Next: &step, Left: 1 + s.left()}
}

// first returns the first rate.
func (s *searchState) first() float64 {
	start := float64(s.e.Find.Start)
	if start == 0 && s.closed != nil && s.closed.CompletedPerS > 0 {
		start = rounded(math.Min(s.closed.CompletedPerS, spec.RateMax) * firstShare)
	}
	return math.Max(trickle, math.Min(start, s.most))
}

// run returns a step at a rate.
func (s *searchState) run(perS float64) Decision {
	if s.runs >= s.runsMost() {
		return earlyStop(say("search.too-many-runs", with{"within": s.within, "runs": s.runs}))
	}
	step := record.Step{Number: s.runs + 1, Repeat: 1, Condition: s.e.Load.First()}
	step.Connections = s.connections(perS)
	for i := range s.rates {
		if t := &s.rates[i]; t.perS == perS {
			step.Repeat = len(t.runs) + 1
			step.Connections = t.runs[0].Connections
		}
	}
	// A whole number parses as a rate, so this cannot fail; otherwise Next would start over with
	// a closed loop.
	step.Rate, _ = unit.ParseRate(strconv.FormatFloat(perS, 'f', 0, 64))
	seconds := float64(s.e.Load.Duration) / 1e9
	return Decision{Next: &step, MayStopEarly: perS*seconds >= s.enough(), Left: min(max(1, s.left()), s.runsMost()-s.runs)}
}

// connections returns the connections for a rate: the user's, or a power of two with room for the
// requests in flight at the SLO's limit (Little: rate × time). While the search narrows it stays
// at the maximum used so far, so that the number of connections does not vary.
func (s *searchState) connections(perS float64) int {
	if len(s.e.Load.Connections) > 0 {
		return int(s.e.Load.Connections[0])
	}
	limit := math.Inf(1)
	for _, t := range s.slo {
		if t.Metric == spec.MetricResponse || t.Metric == spec.MetricService {
			limit = math.Min(limit, t.Limit/1e9)
		}
	}
	if math.IsInf(limit, 1) {
		limit = limitGuess
	}
	n := math.Ceil(perS * limit * slotsRoom / float64(s.e.Load.First().Pipelining))
	c := connectionsLeast
	for c < connectionsMost && float64(c) < n {
		c *= 2
	}
	if b := s.bracket(); b.low != nil && b.high != nil {
		for i := range s.rates {
			c = max(c, s.rates[i].runs[0].Connections)
		}
	}
	return c
}

// capacity is the throughput that the upper end reached while overloaded, 0 if it was not. It
// only guides the search: an overloaded server may be slower than its best.
func (s *searchState) capacity(b *bracket) float64 {
	const overloaded = 0.95
	best := 0.0
	for _, m := range b.high.judged {
		if m.Completed > 0 && m.CompletedPerS < overloaded*b.high.perS {
			best = math.Max(best, m.CompletedPerS)
		}
	}
	return best
}

// left estimates the remaining runs.
func (s *searchState) left() int {
	each := float64(s.repeats) + 0.5 // with an occasional tie
	b := s.bracket()
	gap, missing := math.Ln2, 0.
	if b.low != nil && b.high != nil {
		gap = math.Log(b.high.perS / b.low.perS)
	} else {
		missing = each
	}
	if t := s.unfinished(); t != nil {
		missing += math.Max(1, float64(s.repeats-t.counted()))
	}
	const again = 2 // at the ends, for residual uncertainty
	halvings := math.Ceil(math.Log2(gap / math.Log1p(s.within*endsShare)))
	return int(math.Max(halvings, 0)*each + missing + again)
}

// rounded rounds to two digits, at least 1: a readable rate.
func rounded(perS float64) float64 {
	if !(perS >= 1) {
		return 1
	}
	step := math.Pow(10, math.Max(0, math.Floor(math.Log10(perS))-1))
	return math.Round(perS/step) * step
}

// inside rounds perS to a number strictly between low and high, in steps of at most an eighth of
// their distance; 0 if no integer lies between them.
func inside(perS, low, high float64) float64 {
	for _, step := range stepsDown((high - low) / 8) {
		if r := math.Round(perS/step) * step; r > low && r < high {
			return r
		}
	}
	return 0
}

// stepsDown returns the steps 1, 2 or 5 times a power of ten up to the given one, descending to
// 1.
func stepsDown(most float64) []float64 {
	if !(most > 1) {
		return []float64{1}
	}
	power := math.Pow(10, math.Floor(math.Log10(most)))
	for _, times := range []float64{5, 2} {
		if times*power <= most {
			return []float64{times * power, power, 1}
		}
	}
	return []float64{power, 1}
}
