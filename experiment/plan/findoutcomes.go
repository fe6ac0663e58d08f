package plan

import (
	"cmp"
	"math"
	"slices"

	"ceiling/experiment/spec"
	"ceiling/record"
)

// outcomes of runs.
type outcomes struct{ passed, failed int }

func (v *outcomes) counted() int { return v.passed + v.failed }
func (v *outcomes) lead() int    { return v.passed - v.failed }

// tried is one rate with all its runs and their votes.
type tried struct {
	perS             float64
	runs             []*record.Measured
	judged           []*record.Measured // those that passed or failed
	near             []*record.Measured // of these, those too near the limit to decide alone
	own              outcomes           // each run on its own
	outcomes                            // after judging runs near the limit together
	invalid          int
	generatorLimited int // the generator could not send the rate
	stoppedEarly     int
}

// last is the reason for the verdict of its last run.
func (t *tried) last() []record.Statement { return t.runs[len(t.runs)-1].Because }

// rateState is the state of a rate.
type rateState int

const (
	open         rateState = iota // more runs are needed
	passed                        // the majority passed
	failed                        // the majority failed
	generatorEnd                  // the generator cannot send it
	unproved                      // invalid in every attempt
)

const (
	// noRoomMost generator-limited or invalidMost invalid runs of a rate end its attempts.
	noRoomMost  = 2
	invalidMost = 3
)

// searchState is the result of all runs at each rate.
type searchState struct {
	e       *spec.Experiment
	slo     spec.SLO // without its rate terms: they are no upper limit
	within  float64
	repeats int
	most    float64          // highest rate allowed
	rates   []tried          // ascending
	closed  *record.Measured // the settling run, if there was one
	runs    int
	// answered is set if some run completed something.
	answered bool
	ends     *bracket // computed once
}

func surveyOf(e *spec.Experiment, done []record.Measured) *searchState {
	s := &searchState{e: e, within: e.Find.Within, repeats: e.Repeats, most: spec.RateMax, runs: len(done)}
	if s.within <= 0 {
		s.within = findWithin
	}
	if s.repeats <= 0 {
		s.repeats = findRepeats
	}
	if e.Find.Most > 0 {
		s.most = math.Min(s.most, float64(e.Find.Most))
	}
	for _, term := range e.SLO {
		if term.Metric != spec.MetricRate {
			s.slo = append(s.slo, term)
		}
	}
	for i := range done {
		s.take(&done[i])
	}
	slices.SortFunc(s.rates, func(a, b tried) int { return cmp.Compare(a.perS, b.perS) })
	for i := range s.rates {
		s.pool(&s.rates[i])
	}
	return s
}

// take adds one run's vote.
func (s *searchState) take(m *record.Measured) {
	s.answered = s.answered || m.Completed > 0
	if m.WarmupRun {
		s.closed = m
		return
	}
	perS := m.Rate.PerSecond()
	if !(perS > 0) || math.IsInf(perS, 0) {
		return // not a run of a search
	}
	i := slices.IndexFunc(s.rates, func(t tried) bool { return t.perS == perS })
	if i < 0 {
		i = len(s.rates)
		s.rates = append(s.rates, tried{perS: perS})
	}
	t := &s.rates[i]
	t.runs = append(t.runs, m)
	b, near := s.class(m)
	if b == classMet {
		t.own.passed++
	} else if b == classMissed {
		t.own.failed++
	}
	switch {
	case b == classGeneratorLimited:
		t.generatorLimited++
	case b == classUnusable:
		t.invalid++
	case near:
		t.near = append(t.near, m)
	case b == classMet:
		t.passed++
	default:
		t.failed++
	}
	if b == classMet || b == classMissed {
		t.judged = append(t.judged, m)
	}
	if m.StoppedEarly != "" {
		t.stoppedEarly++
	}
}

// pool judges the runs near the limit together, with merged histograms: all of them vote like the
// merged run.
func (s *searchState) pool(t *tried) {
	if len(t.near) == 0 {
		return
	}
	m := mergedRuns(t.near)
	if b, _ := s.judge(&m); b == classMet {
		t.passed += len(t.near)
	} else {
		t.failed += len(t.near)
	}
}

// enough is the number of requests that a run needs for the finest quantile of the SLO: ten
// beyond it, a number that chance changes by a third. 0 without quantiles.
func (s *searchState) enough() float64 {
	most := 0.0
	for _, t := range s.slo {
		if t.IsLatency() && t.Quantile > 0 && t.Quantile < 1 {
			most = math.Max(most, 10/(1-t.Quantile))
		}
	}
	return most
}

// needed returns the requests that a run must have to show that it meets the SLO: with errors, as many
// as have one at 95% confidence where the share is at its limit.
func (s *searchState) needed() float64 {
	most := s.enough()
	for _, t := range s.slo {
		if t.Metric == spec.MetricErrors && t.Limit > 0 {
			most = math.Max(most, 3/t.Limit)
		}
	}
	return most
}

// short reports whether the runs of a rate have too few requests each.
func (s *searchState) short(t *tried) bool {
	n := 0.0
	for _, m := range t.judged {
		n += float64(m.Completed) + float64(m.Failed)
	}
	return n < s.needed()*float64(len(t.judged))
}

// rateState of a rate.
func (s *searchState) standing(t *tried) rateState {
	n, lead := t.counted(), t.lead()
	switch {
	case n >= s.repeats && lead > 0:
		return passed
	case n >= s.repeats && lead < 0:
		return failed
	case t.generatorLimited >= noRoomMost:
		return generatorEnd
	case t.invalid >= invalidMost:
		return unproved
	}
	return open
}

// bracket is the range of the answer.
type bracket struct {
	low  *tried // highest rate that passed, below all that failed; nil: none
	high *tried // lowest rate above it that did not pass, for whatever reason; nil: none
	// noise is the distribution that the outcomes leave; known only if some passed and some
	// failed.
	noise limits
}

// width is relative to the lower end.
func (b *bracket) width() float64 { return b.high.perS/b.low.perS - 1 }

// bracket returns the range of the answer. If rates contradict each other, it is below the lowest
// that failed, whatever passed above: an answer must not be above a rate that fails.
func (s *searchState) bracket() bracket {
	if s.ends == nil {
		b := s.newBracket()
		s.ends = &b
	}
	return *s.ends
}

func (s *searchState) newBracket() bracket {
	b := bracket{noise: s.noise()}
	for i := range s.rates {
		switch t := &s.rates[i]; s.standing(t) {
		case passed:
			b.low, b.high = t, nil // if the generator did not manage less, it was disturbed
		case failed:
			if b.high == nil {
				b.high = t
			}
			return b
		case generatorEnd, unproved:
			if b.high == nil && b.low != nil {
				b.high = t
			}
		}
	}
	return b
}
