package plan

import (
	"math"
	"slices"

	"ceiling/experiment/spec"
	"ceiling/record"
)

// classification is the vote of one run on its rate.
type classification int

const (
	classMet classification = iota
	classMissed
	classGeneratorLimited // the generator was the bottleneck
	classUnusable         // nothing
)

// nearDeviations is how far a run's late responses must be from the allowed number for the run to
// decide alone: two deviations of independent ones, times 1.5 because late responses come in
// clusters.
const nearDeviations = 3

// class classifies a run; near if chance might have reversed it.
func (s *searchState) class(m *record.Measured) (b classification, near bool) {
	b, broken := s.judge(m)
	if b == classGeneratorLimited || b == classUnusable {
		return b, false
	}
	for _, t := range s.slo {
		late, allowed, known := lateOf(t, m)
		close := known && late > 0 && math.Abs(late-allowed) <= nearDeviations*math.Sqrt(allowed)
		i := slices.IndexFunc(broken, func(h record.SLOTerm) bool { return h.Term == t.String() })
		if i >= 0 {
			broken = slices.Delete(broken, i, i+1)
			if !close {
				return b, false
			}
		}
		near = near || close
	}
	return b, near && len(broken) == 0 // other failed terms are beyond chance
}

// lateOf returns how many requests of a run are over a term's limit, and how many may be; unknown
// for terms that do not count requests.
func lateOf(t spec.Term, m *record.Measured) (late, allowed float64, known bool) {
	switch {
	case t.Metric == spec.MetricErrors:
		n := float64(m.Completed) + float64(m.Failed)
		return m.BadShare * n, t.Limit * n, true
	case t.Metric == spec.MetricResponse && t.Quantile > 0 && t.Quantile < 1:
		if times, ok := timesOf(m); ok {
			over, n := times.over(int64(t.Limit))
			return float64(over), (1 - t.Quantile) * float64(n), true
		}
	}
	return 0, 0, false
}

// judge classifies a run by its own histogram, which has more than its verdict: a run at a low
// rate fails rate>10k, which is not an upper limit. It returns the failed terms.
func (s *searchState) judge(m *record.Measured) (classification, []record.SLOTerm) {
	if m.Bottleneck == record.LoadGenerator {
		return classGeneratorLimited, nil
	}
	terms, complete := s.measure(m)
	broken := slices.DeleteFunc(terms, func(t record.SLOTerm) bool { return t.Met })
	switch {
	case m.StoppedEarly != "", m.Outcome == record.Invalid &&
		(m.Completed == 0 && m.Failed > 0 || (record.Blames(m.Bottleneck) || m.BacklogShare > backlogMax)):
		// A run is invalid for a server's bottleneck if the rate was not sustained although the
		// SLO passed: the cost of a growing queue comes later.
		if len(broken) == 0 {
			broken = []record.SLOTerm{notKept(m)}
		}
		return classMissed, broken
	case m.Outcome == record.Invalid || !complete && len(broken) == 0:
		return classUnusable, nil
	case len(broken) > 0:
		return classMissed, broken
	case s.e.SLO.FailsBy(m.BadShare):
		return classMissed, []record.SLOTerm{errorsTerm(m)}
	}
	return classMet, nil
}

// backlogMax is the share of requests that may be unanswered at the end of a step before the queue
// counts as growing, as in package verdict.
const backlogMax = 0.01

// notKept is the term that every rate must meet: responses keep up with requests.
func notKept(m *record.Measured) record.SLOTerm {
	asked := spec.Term{Metric: spec.MetricRate, Limit: math.Round(m.Rate.PerSecond())}
	return record.SLOTerm{Term: asked.String(), Value: m.CompletedPerS}
}

// errorsTerm is the term that every run must meet, whatever the SLO omits.
func errorsTerm(m *record.Measured) record.SLOTerm {
	t := spec.Term{Metric: spec.MetricErrors, Less: true, Limit: spec.ErrorsMatter}
	return record.SLOTerm{Term: t.String(), Value: m.BadShare}
}

// measure evaluates every term; complete is false if a figure is missing.
func (s *searchState) measure(m *record.Measured) (terms []record.SLOTerm, complete bool) {
	complete = true
	for _, t := range s.slo {
		v, bound, known := figure(t, m)
		if !known {
			complete = false
			continue
		}
		terms = append(terms, record.SLOTerm{Term: t.String(), Value: v, Met: t.Holds(v) && !timedOut(t, m), AtLeast: bound})
	}
	return terms, complete
}

// timedOut reports whether a latency term's quantile falls on a request that was given up.
func timedOut(t spec.Term, m *record.Measured) bool {
	if m.Waiting == nil || !t.Less {
		return false
	}
	switch t.Metric {
	case spec.MetricResponse:
		return m.Waiting.Response.Reach(m.Response.Count, t.Quantile)
	case spec.MetricService, spec.MetricFirstByte, spec.MetricFirstEvent:
		return m.Waiting.Service.Reach(m.Service.Count, t.Quantile)
	}
	return false
}

// figure returns a term's value, in the unit of its limit, and whether it is a lower bound.
func figure(t spec.Term, m *record.Measured) (v float64, bound, known bool) {
	if t.Metric == spec.MetricErrors {
		return m.BadShare, false, m.Completed > 0 || m.Failed > 0
	}
	if times, ok := timesOf(m); ok && t.Metric == spec.MetricResponse && times.sent() > 0 {
		if t.Quantile == spec.Mean {
			v, bound = times.mean()
			return v, bound, true
		}
		ns, bound := times.quantile(t.Quantile)
		return float64(ns), bound, true
	}
	name := t.String()
	for _, h := range m.SLO {
		if h.Term == name {
			return h.Value, h.AtLeast, true
		}
	}
	q := &m.Response
	switch t.Metric {
	case spec.MetricService:
		q = &m.Service
	case spec.MetricFirstByte, spec.MetricFirstEvent:
		return 0, false, false // the run's own terms have it, if anything
	}
	if t.Quantile == spec.Mean {
		return q.MeanNs, false, q.Count > 0
	}
	ns, known := q.Quantile(t.Quantile)
	return float64(ns), q.IsBound(t.Quantile), known
}

// mergedRuns combines several runs: it merges histograms and weights shares by requests. For a
// run without a histogram, and for the service time, no combined quantile exists, so the worst
// run's is used.
func mergedRuns(runs []*record.Measured) record.Measured {
	all := record.Measured{Step: runs[0].Step}
	worst := map[string]record.SLOTerm{}
	var bad, ended, elapsed float64
	for _, m := range runs {
		n := float64(m.Completed) + float64(m.Failed)
		bad, ended, elapsed = bad+m.BadShare*n, ended+n, elapsed+m.ElapsedS
		all.Completed += m.Completed
		all.Failed += m.Failed
		all.CompletedPerS += m.CompletedPerS / float64(len(runs))
		for _, t := range m.SLO {
			if w, seen := worst[t.Term]; !seen || t.Value > w.Value {
				worst[t.Term] = t
			}
		}
		all.Response, all.Service = worse(all.Response, m.Response), worse(all.Service, m.Service)
	}
	for _, t := range worst {
		all.SLO = append(all.SLO, t)
	}
	if ended > 0 {
		all.BadShare = bad / ended
	}
	all.ElapsedS = elapsed
	if times, ok := timesOf(runs...); ok {
		all.Histogram, all.Response, all.Waiting = times.answered(), times.quantiles(), times.left()
	}
	return all
}

// worse returns the larger of each quantile.
func worse(a, b record.Quantiles) record.Quantiles {
	if a.Count == 0 {
		b.HDR = ""
		return b
	}
	if b.Count == 0 {
		return a
	}
	from := max(a.BoundFrom, b.BoundFrom)
	if a.BoundFrom > 0 && b.BoundFrom > 0 {
		from = min(a.BoundFrom, b.BoundFrom)
	}
	return record.Quantiles{
		BoundFrom: from,
		Count:     a.Count + b.Count, MeanNs: math.Max(a.MeanNs, b.MeanNs), MinNs: min(a.MinNs, b.MinNs), MaxNs: max(a.MaxNs, b.MaxNs),
		P50Ns: max(a.P50Ns, b.P50Ns), P75Ns: max(a.P75Ns, b.P75Ns), P90Ns: max(a.P90Ns, b.P90Ns), P95Ns: max(a.P95Ns, b.P95Ns),
		P99Ns: max(a.P99Ns, b.P99Ns), P999Ns: max(a.P999Ns, b.P999Ns),
	}
}
