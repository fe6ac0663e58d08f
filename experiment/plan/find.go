package plan

import (
	"math"

	"ceiling/experiment/spec"
	"ceiling/record"
)

// A search looks for the highest rate at which an open loop meets an SLO. It increases the rate
// until one fails, then narrows the bracket (probabilistic bisection: Horstein 1963; Waeber,
// Frazier and Henderson 2013).
//
// One run is one vote: the requests of a run queue behind each other and are not independent,
// whereas runs nearly are. Some votes are wrong: runs disturbed by other programs, and near the
// limit many by chance. So each rate runs more than once, and the uncertainty that all outcomes
// leave (findnoise.go) decides where to look next and whether the answer is known.

const (
	// findWithin is the default width of an answer.
	findWithin = 0.03
	// findRepeats is the default number of runs per rate.
	findRepeats = 2
	// generatorWithin is the precision of the generator's limit: it says nothing about the
	// server.
	generatorWithin = 0.1
	// trickle is the lowest rate tried, requests per second.
	trickle = 1
	// findRunsPerRepeat limits the runs of a search.
	findRunsPerRepeat = 30
	// endsShare is the distance between the two ends as a share of the target width; the rest is
	// room for chance.
	endsShare = 0.5
	// wrongMost is the accepted probability that the limit is outside the ends by more than the
	// target width, by the outcomes of all runs. At 5 % that happened in 2 of 240 simulated
	// searches, at 2 % in none, for two more runs.
	wrongMost = 0.02
	// highLead is the minimum lead in outcomes at the upper end: runs there are soon stopped
	// early, and two disturbed runs are more likely than three.
	highLead = 3
	// growMost is the largest step up: 2, 4, 8, 8. A larger one costs more in narrowing than it
	// saves in growing.
	growMost = 8
	// probeShare is the distance of two probes around the capacity that an overloaded run showed:
	// if both agree with it, that is the answer.
	probeShare = 0.24
	// voidsInRow invalid runs in a row, or silentInRow that completed nothing, end a search:
	// retrying will not help.
	voidsInRow  = 6
	silentInRow = 6
	// silentEver runs without any response from the start suffice.
	silentEver = 3
)

// nextRate decides from the runs so far, and nothing else.
func nextRate(e *spec.Experiment, done []record.Measured) Decision {
	s := surveyOf(e, done)
	if d, ended := s.noSolution(done); ended {
		return d
	}
	if e.Find.Start == 0 && len(done) == 0 {
		return s.settle()
	}
	if len(s.rates) == 0 {
		return s.run(s.first())
	}
	if t := s.unfinished(); t != nil {
		return s.run(t.perS)
	}
	b := s.bracket()
	failed, passed := s.crossed()
	switch {
	case passed != nil && s.weak(failed):
		return s.run(failed.perS) // by chance, perhaps: the bracket is below it
	case b.low != nil && b.high != nil:
		return s.narrow(&b)
	case b.noise.known:
		return s.follow(&b)
	case b.low == nil:
		return s.shrink()
	}
	return s.grow(&b)
}

// noSolution returns a reason to stop that further runs cannot change.
func (s *searchState) noSolution(done []record.Measured) (Decision, bool) {
	silent, voids := 0, 0
	for i := len(done) - 1; i >= 0 && done[i].Completed == 0; i-- {
		silent++
	}
	for i := len(done) - 1; i >= 0 && !done[i].WarmupRun; i-- {
		if b, _ := s.judge(&done[i]); b != classUnusable {
			break
		}
		voids++
	}
	switch {
	case silent == len(done) && silent >= silentEver:
		return earlyStop(say("search.silent", with{"runs": silent, "last": lastVerdict(done)})), true
	case silent >= silentInRow:
		return earlyStop(say("search.stopped-answering", with{"runs": silent, "last": lastVerdict(done)})), true
	case voids >= voidsInRow:
		return earlyStop(say("search.invalid-in-row", with{"runs": voids, "last": lastVerdict(done)})), true
	}
	return Decision{}, false
}

// lastVerdict is the reason for the last run's verdict.
func lastVerdict(done []record.Measured) []record.Statement {
	if len(done) == 0 {
		return nil
	}
	return done[len(done)-1].Because
}

func earlyStop(because record.Statement) Decision {
	return Decision{Ended: record.EndedEarly, Because: because}
}

func converged(because record.Statement) Decision {
	return Decision{Ended: record.EndedConverged, Because: because}
}

// runsMost limits the search.
func (s *searchState) runsMost() int { return min(findRunsPerRepeat*s.repeats, spec.RunsMax) }

// unfinished returns the last run's rate if it is still undecided.
func (s *searchState) unfinished() *tried {
	for i := range s.rates {
		if t := &s.rates[i]; s.standing(t) == open {
			return t
		}
	}
	return nil
}

// shrink goes down from the lowest rate, faster with every step: 2, 4, 16, 256. Under an SLO that
// no rate can meet, the trickle is only a few steps away.
func (s *searchState) shrink() Decision {
	lowest := &s.rates[0]
	if lowest.perS <= trickle {
		return earlyStop(s.nothingHolds(lowest))
	}
	steps := len(s.rates)
	factor := 2.0
	if steps > 1 {
		factor = math.Pow(2, math.Pow(2, float64(min(steps-1, 6))))
	}
	return s.run(math.Max(trickle, rounded(lowest.perS/factor)))
}

// grow goes up from the highest passing rate.
func (s *searchState) grow(b *bracket) Decision {
	if b.low.perS >= s.most {
		return converged(say("search.highest-allowed", with{"per_s": b.low.perS}))
	}
	factor := math.Min(math.Pow(2, float64(len(s.rates))), growMost)
	return s.run(math.Min(s.most, math.Max(b.low.perS+1, rounded(b.low.perS*factor))))
}

// follow goes to the limit estimated from the outcomes if it is above all passing or below all
// failing rates: one of them was wrong.
func (s *searchState) follow(b *bracket) Decision {
	perS := math.Round(b.noise.mid)
	switch {
	case b.low == nil && s.rates[0].perS <= trickle:
		return earlyStop(s.nothingHolds(&s.rates[0]))
	case b.low == nil:
		perS = math.Min(perS, math.Ceil(s.rates[0].perS/(1+s.within))-1)
	case b.low.perS >= s.most:
		return converged(say("search.highest-allowed", with{"per_s": b.low.perS}))
	default:
		perS = math.Max(perS, math.Floor(b.low.perS*(1+s.within))+1)
	}
	return s.run(math.Min(math.Max(perS, trickle), s.most))
}

// narrow bisects the bracket until it is narrow enough, then confirms that it is not chance.
func (s *searchState) narrow(b *bracket) Decision {
	target := s.within * endsShare
	if s.standing(b.high) != failed {
		target = math.Max(s.within, generatorWithin)
	}
	if b.width() > target {
		if next := s.between(b); next > 0 {
			return s.run(next)
		} // else the two are adjacent integers
	}
	switch s.standing(b.high) {
	case generatorEnd:
		return earlyStop(say("search.generator-end", with{"per_s": b.low.perS, "higher_per_s": b.high.perS}))
	case unproved:
		return earlyStop(say("search.invalid-above", with{"per_s": b.low.perS, "higher_per_s": b.high.perS, "last": b.high.last()}))
	}
	above, below := b.wrong(s.within)
	if weak := s.weak(b.high); weak || above+below > wrongMost {
		if weak || above > below {
			return s.run(b.high.perS)
		}
		return s.run(b.low.perS)
	}
	return converged(say("search.converged", with{"per_s": b.low.perS, "passed": b.low.passed, "of": b.low.counted(),
		"failing_per_s": b.high.perS, "failed": b.high.failed, "failing_of": b.high.counted()}))
}

// weak reports whether a failing rate may have failed by chance.
func (s *searchState) weak(t *tried) bool { return -t.lead() < min(s.repeats+1, highLead) }

// between chooses the next rate inside the bracket, 0 if no integer is left: the server's
// capacity shown by an overloaded run, or the median of the remaining distribution.
func (s *searchState) between(b *bracket) float64 {
	low, high := b.low.perS, b.high.perS
	if c := s.capacity(b); c > 0 {
		for _, probe := range []float64{c * (1 - probeShare*s.within), c * (1 + probeShare*s.within)} {
			if probe > low*(1+s.within/4) && probe < high/(1+s.within/4) {
				if perS := inside(probe, low, high); perS > 0 {
					return perS
				}
			}
		}
	}
	middle := math.Sqrt(low * high)
	if b.noise.known {
		// At least a quarter of the way from either end; closer would hardly narrow.
		edge := math.Pow(high/low, .25)
		middle = math.Min(math.Max(b.noise.mid, low*edge), high/edge)
	}
	return inside(middle, low, high)
}
