package plan

import (
	"math"
	"slices"

	"ceiling/experiment/spec"
	"ceiling/record"
)

// outcomes of runs.
type outcomes struct{ passed, failed int }

func (v *outcomes) counted() int { return v.passed + v.failed }
func (v *outcomes) lead() int    { return v.passed - v.failed }

// tried is one rate with all its runs and what they vote for.
type tried struct {
	perS             float64
	runs             []*record.Measured
	judged           []*record.Measured // those that say passed or failed
	near             []*record.Measured // of them, those too near to the limit to say it alone
	own              outcomes           // of each run for itself
	outcomes                            // where runs near the limit were judged together
	invalid          int
	generatorLimited int // the generator could not send it
	stoppedEarly     int
}

// last is why the verdict of the last of its runs is what it is.
func (t *tried) last() []record.Statement { return t.runs[len(t.runs)-1].Because }

// standing is what is known of a rate.
type standing int

const (
	open         standing = iota // more runs are needed
	passed                       // the majority passed
	failed                       // the majority failed
	generatorEnd                 // the generator cannot send it
	unproved                     // invalid whenever it is tried
)

const (
	// noRoomMost and invalidMost runs of a rate that say nothing end the trying.
	noRoomMost  = 2
	invalidMost = 3
)

// survey is everything that the runs say about each rate.
type survey struct {
	e       *spec.Experiment
	slo     spec.SLO // without its rate terms: they are no limit upwards
	within  float64
	repeats int
	most    float64          // highest rate that may be tried
	rates   []tried          // ascending
	closed  *record.Measured // the settling run, where there was one
	runs    int
	// answered: some run completed something.
	answered bool
	ends     *bracket // computed once
}

func surveyOf(e *spec.Experiment, done []record.Measured) *survey {
	s := &survey{e: e, within: e.Find.Within, repeats: e.Repeats, most: spec.RateMax, runs: len(done)}
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
	slices.SortFunc(s.rates, func(a, b tried) int {
		switch {
		case a.perS < b.perS:
			return -1
		case a.perS > b.perS:
			return 1
		}
		return 0
	})
	for i := range s.rates {
		s.pool(&s.rates[i])
	}
	return s
}

// take counts one run's vote.
func (s *survey) take(m *record.Measured) {
	s.answered = s.answered || m.Completed > 0
	if m.WarmupRun {
		s.closed = m
		return
	}
	perS := m.Rate.PerSecond()
	if !(perS > 0) || math.IsInf(perS, 0) {
		return // no run of a search
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

// pool judges the runs that are near the limit together, their histograms
// merged: they all vote as the merged one does.
func (s *survey) pool(t *tried) {
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

// enough is how many requests a run needs for the finest quantile of the SLO:
// ten beyond it, whose number chance changes by a third. 0 without quantiles.
func (s *survey) enough() float64 {
	most := 0.0
	for _, t := range s.slo {
		if (t.Metric == spec.MetricResponse || t.Metric == spec.MetricService) && t.Quantile > 0 && t.Quantile < 1 {
			most = math.Max(most, 10/(1-t.Quantile))
		}
	}
	return most
}

// short tells whether the runs of a rate have too few requests each.
func (s *survey) short(t *tried) bool {
	n := 0.0
	for _, m := range t.judged {
		n += float64(m.Completed) + float64(m.Failed)
	}
	return n < s.enough()*float64(len(t.judged))
}

// standing of a rate.
func (s *survey) standing(t *tried) standing {
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

// bracket is where the answer lies.
type bracket struct {
	low  *tried // highest rate that passed, below what the outcomes of all rates make the limit; nil: none
	high *tried // lowest rate above it that did not, for whatever reason; nil: none
	// noise is what the outcomes of all rates leave open; known only where some
	// passed and some failed.
	noise limits
}

// width as a share of the lower end.
func (b *bracket) width() float64 { return b.high.perS/b.low.perS - 1 }

// bracket of the answer. Where rates contradict each other the ends are those
// around the most likely limit.
func (s *survey) bracket() bracket {
	if s.ends == nil {
		b := s.newBracket()
		s.ends = &b
	}
	return *s.ends
}

func (s *survey) newBracket() bracket {
	b := bracket{noise: s.noise()}
	middle := math.Inf(1)
	if b.noise.known {
		middle = b.noise.mid
	}
	for i := range s.rates {
		switch t := &s.rates[i]; s.standing(t) {
		case passed:
			if t.perS <= middle {
				b.low = t
			}
		case failed:
			if b.high == nil && t.perS >= middle {
				b.high = t
			}
		case generatorEnd, unproved:
			if b.high == nil && b.low != nil {
				b.high = t
			}
		}
	}
	if b.high != nil && b.low != nil && b.high.perS < b.low.perS {
		b.high = nil // the generator could not send less than it did: it was disturbed
	}
	return b
}
