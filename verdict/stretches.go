package verdict

import (
	"math"
	"slices"
	"time"

	"ceiling/experiment/spec"
	"ceiling/record"
)

// A latency term often fails because of a few short stretches of the run in which the server
// stalled. This file finds them in the load rows.

// stretch is a part of the window in which responses took longer than a limit.
type stretch struct {
	fromNs, toNs int64
	worstNs      int64 // the longest response that ended in it
	still        bool  // less than half of the usual responses came in one of its rows
}

// lateStretches returns the stretches in which a response took longer than limitNs, in time
// order, and the longest response elsewhere.
func lateStretches(rows []record.LoadRow, limitNs float64) (list []stretch, elsewhereNs int64) {
	var usual []float64
	for i := range rows {
		usual = append(usual, float64(rows[i].Completed)/float64(rows[i].WidthNs))
	}
	slices.Sort(usual)
	half := 0.0
	if len(usual) > 0 {
		half = usual[len(usual)/2] / 2
	}
	quiet := func(i int) bool {
		return i >= 0 && float64(rows[i].Completed) < half*float64(rows[i].WidthNs)
	}
	for i := range rows {
		r := &rows[i]
		if float64(r.MaxNs) <= limitNs {
			elsewhereNs = max(elsewhereNs, r.MaxNs)
			continue
		}
		still := quiet(i) || quiet(i-1)
		if n := len(list); n > 0 && list[n-1].toNs >= r.TNs-r.WidthNs {
			last := &list[n-1]
			last.toNs, last.worstNs, last.still = r.TNs, max(last.worstNs, r.MaxNs), last.still || still
			continue
		}
		list = append(list, stretch{r.TNs - r.WidthNs, r.TNs, r.MaxNs, still})
	}
	return list, elsewhereNs
}

// stretchFacts are the late stretches of the term that failed.
type stretchFacts struct {
	term      string
	list      []stretch
	elsewhere int64
	ns        int64 // total
	longest   int64
	still     int // of the list
}

// brokenBy finds the late stretches of the first latency term that failed, if they are a small
// part of the window; nil if it fails throughout.
func (f *runFacts) brokenBy(rows []record.LoadRow) *stretchFacts {
	if len(rows) < stallRows {
		return nil
	}
	for _, term := range f.run.Spec.SLO {
		v, _, why := f.measure(term)
		latency := term.Metric == spec.MetricResponse || term.Metric == spec.MetricService
		if why.Code != "" || !latency || term.Holds(v) || term.Quantile == spec.Mean {
			continue
		}
		s := &stretchFacts{term: term.String()}
		s.list, s.elsewhere = lateStretches(rows, term.Limit)
		for _, one := range s.list {
			s.ns += one.toNs - one.fromNs
			s.longest = max(s.longest, one.worstNs)
			if one.still {
				s.still++
			}
		}
		if len(s.list) == 0 || float64(s.ns) > stretchesMost*float64(rows[len(rows)-1].TNs-rows[0].TNs+rows[0].WidthNs) {
			return nil
		}
		return s
	}
	return nil
}

// says describes the stretches that failed the term: how many, how long and when.
func (s *stretchFacts) says() record.Statement {
	every, _ := s.period()
	return say("stretches", with{"stalled": 2*s.still >= len(s.list), "stretches": len(s.list), "total_ns": s.ns, "at": s.when(),
		"longest_ns": s.longest, "every_ns": every, "elsewhere_ns": s.elsewhere})
}

// when returns the start times; if there are many, the first ones.
func (s *stretchFacts) when() []record.Statement {
	var at []record.Statement
	for i, one := range s.list {
		if i == stretchesSaid {
			return append(at, say("and-more", nil))
		}
		at = append(at, say("stretches.at", with{"from_s": math.Max(time.Duration(one.fromNs).Seconds(), 0)}))
	}
	return at
}

// period returns the time between the starts, ns, if it is nearly constant.
func (s *stretchFacts) period() (float64, bool) {
	if len(s.list) < 4 {
		return 0, false
	}
	var gaps []float64
	sum := 0.0
	for i := 1; i < len(s.list); i++ {
		gap := float64(s.list[i].fromNs - s.list[i-1].fromNs)
		gaps, sum = append(gaps, gap), sum+gap
	}
	mean := sum / float64(len(gaps))
	for _, gap := range gaps {
		if math.Abs(gap-mean) > stretchesApart*mean {
			return 0, false
		}
	}
	return mean, true
}

// next says what to do about them.
func (s *stretchFacts) next() []record.Statement {
	if 2*s.still < len(s.list) {
		return just("stretches.next.slow", nil)
	}
	return just("stretches.next.stalled", with{"longest_ns": s.longest})
}
