package plan

import (
	"math"
	"slices"
	"strings"
	"time"

	"ceiling/experiment/spec"
	"ceiling/record"
)

// concludeSearch summarises the runs, even before the search has ended.
func concludeSearch(p *record.Plan) {
	s := surveyOf(&p.Experiment, p.Runs)
	b := s.bracket()
	out := &record.Search{SLO: p.Experiment.SLO.String(), Rates: s.table(), Limit: s.limit(&b, p.Ended)}
	if b.low != nil {
		out.Capacity.Mid, out.Capacity.Low, out.Capacity.High = b.low.perS, b.low.perS, b.low.perS
	}
	top := b.high
	if b.low == nil && len(s.rates) > 0 {
		top = &s.rates[0]
	}
	if top != nil && (b.high != nil || out.Limit == record.LimitNone) {
		out.Capacity.High = top.perS
	}
	if out.Limit == record.LimitServer && b.noise.known {
		out.Capacity.Low, out.Capacity.High = math.Min(out.Capacity.Low, math.Floor(b.noise.low)),
			math.Max(out.Capacity.High, math.Ceil(b.noise.high))
	}
	if top != nil {
		out.Bottleneck = wallAt(top)
		out.Failed = s.failedAt(top)
	}
	out.Says = s.says(p, out, &b)
	out.Caveats = s.caveats(out, &b)
	out.Capacity.Warnings = s.warnings(out, &b)
	p.Search = out
	p.Exit = s.exit(p, out)
}

// limit is what ended the search upwards.
func (s *searchState) limit(b *bracket, ended string) string {
	switch {
	case b.low == nil:
		return record.LimitNone
	case b.high == nil && b.low.perS >= s.most:
		return record.LimitAsked
	case b.high == nil:
		return record.LimitUnproved
	}
	switch s.standing(b.high) {
	case generatorEnd:
		return record.LimitGenerator
	case unproved:
		return record.LimitUnproved
	}
	return record.LimitServer
}

// table returns every rate with its runs.
func (s *searchState) table() []record.TriedRate {
	rates := make([]record.TriedRate, 0, len(s.rates))
	for i := range s.rates {
		t := &s.rates[i]
		row := record.TriedRate{PerS: t.perS, Runs: len(t.runs), Pass: t.passed, Fail: t.failed, Invalid: t.invalid + t.generatorLimited,
			StoppedEarly: t.stoppedEarly,
			Bottleneck:   wallAt(t)}
		times := new(responseTimes)
		for _, m := range t.runs {
			if m.StoppedEarly == "" {
				times.add(m.Histogram, m.Waiting)
			}
		}
		row.Response = times.quantiles()
		row.MissedP99Ns, row.MissedAtLeast = s.missedAt(t, .99)
		rates = append(rates, row)
	}
	return rates
}

// missedAt returns a quantile of a rate's failed runs together, which the answer has too; atLeast is set
// if it is a bound: of requests without a response, or because the rest of a run that was stopped early
// may have been faster.
func (s *searchState) missedAt(t *tried, q float64) (ns int64, atLeast bool) {
	broken := s.missed(t)
	if len(broken) == 0 {
		return 0, false
	}
	expected, early := 0.0, false
	for _, m := range broken {
		n := float64(m.Response.Count)
		if m.StoppedEarly != "" {
			n, early = math.Max(n, m.TargetPerS*time.Duration(s.e.Load.Duration).Seconds()), true
		}
		expected += n
	}
	if times, ok := timesOf(broken...); early && ok {
		whole := *times.answered()
		whole.Merge(&times.unanswered().Waiting) // those take longer still
		ns = AtLeast(q, &whole, expected)
		if len(s.slo) == 1 && s.slo[0].Metric == spec.MetricResponse && s.slo[0].Quantile == q {
			ns = max(ns, int64(s.slo[0].Limit)+1) // it was stopped for no other reason
		}
		return ns, true
	}
	all := mergedRuns(broken)
	ns, _ = all.Response.Quantile(q)
	return ns, early || all.Response.IsBound(q)
}

// missed returns the runs of a rate that missed the SLO.
func (s *searchState) missed(t *tried) (broken []*record.Measured) {
	for _, m := range t.judged {
		if b, _ := s.judge(m); b == classMissed {
			broken = append(broken, m)
		}
	}
	return broken
}

// wallAt returns the bottleneck of most runs of a rate; actual bottlenecks take precedence over
// other outcomes.
func wallAt(t *tried) record.Bottleneck {
	all, actual := map[record.Bottleneck]int{}, map[record.Bottleneck]int{}
	for _, m := range t.runs {
		if m.Bottleneck != "" {
			all[m.Bottleneck]++
		}
		if record.Blames(m.Bottleneck) || m.Bottleneck == record.LoadGenerator {
			actual[m.Bottleneck]++
		}
	}
	if len(actual) > 0 {
		all = actual
	}
	name, _ := majority(all)
	return name
}

// crossed returns the lowest failing rate, and the highest passing one above it, if any: one of them
// is wrong.
func (s *searchState) crossed() (lowestFailed, highestPassed *tried) {
	for i := range s.rates {
		switch t := &s.rates[i]; s.standing(t) {
		case passed:
			if lowestFailed != nil {
				highestPassed = t
			}
		case failed:
			if lowestFailed == nil {
				lowestFailed = t
			}
		}
	}
	return lowestFailed, highestPassed
}

// failedAt returns the terms that failed at a rate, over its failed runs.
func (s *searchState) failedAt(t *tried) []record.SLOTerm {
	broken := s.missed(t)
	if len(broken) == 0 {
		return nil
	}
	all := mergedRuns(broken)
	_, terms := s.judge(&all)
	if len(terms) == 0 {
		_, terms = s.judge(broken[len(broken)-1])
	}
	for _, one := range s.slo { // a quantile is the table's: of runs that ended early it is a bound
		at := slices.IndexFunc(terms, func(b record.SLOTerm) bool { return b.Term == one.String() })
		if at < 0 || one.Metric != spec.MetricResponse || one.Quantile == spec.Mean {
			continue
		}
		ns, atLeast := s.missedAt(t, one.Quantile)
		switch {
		case !one.Holds(float64(ns)):
			terms[at].Value, terms[at].AtLeast = float64(ns), atLeast
		case atLeast && len(terms) > 1: // what was measured does not show that it failed
			terms = slices.Delete(terms, at, at+1)
		}
	}
	return terms
}

// says returns the answer.
func (s *searchState) says(p *record.Plan, out *record.Search, b *bracket) record.Statement {
	slo := s.slo.String()
	if p.Ended == "" || p.Ended == record.EndedInterrupted || p.Ended == record.EndedFailed {
		return s.soFar(b, slo)
	}
	if b.low == nil {
		return say("search.none", with{"because": p.Because})
	}
	floor := ""
	if term, asked := s.floor(); asked && !term.Holds(b.low.perS) {
		floor = term.String()
	}
	low := b.low.perS
	switch out.Limit {
	case record.LimitAsked:
		return say("search.at-most", with{"per_s": low, "slo": slo, "floor": floor})
	case record.LimitGenerator:
		return say("search.generator", with{"per_s": low, "slo": slo, "higher_per_s": b.high.perS, "floor": floor})
	case record.LimitUnproved:
		return say("search.unproved", with{"per_s": low, "slo": slo, "because": p.Because, "floor": floor})
	}
	because := record.Statement{}
	if p.Ended == record.EndedEarly {
		because = p.Because
	}
	return say("search.found", with{"per_s": low, "slo": slo, "failing_per_s": b.high.perS, "failure": failure(out.Failed, out.Bottleneck),
		"because": because, "floor": floor})
}

// soFar states what an unfinished search knows.
func (s *searchState) soFar(b *bracket, slo string) record.Statement {
	switch {
	case b.low != nil && b.high != nil:
		return say("search.so-far", with{"per_s": b.low.perS, "slo": slo, "failing_per_s": b.high.perS})
	case b.low != nil:
		return say("search.so-far", with{"per_s": b.low.perS, "slo": slo, "failing_per_s": 0})
	case len(s.rates) > 0:
		return say("search.so-far.none", with{"per_s": s.rates[0].perS, "slo": slo})
	}
	return say("search.untested", nil)
}

// failure states what fails first, and the bottleneck there.
func failure(terms []record.SLOTerm, bottleneck record.Bottleneck) record.Statement {
	parts := []record.Statement{}
	for _, t := range terms {
		parts = append(parts, failedTerm(t))
	}
	if !record.Blames(bottleneck) {
		bottleneck = ""
	}
	return say("search.failure", with{"terms": parts, "bottleneck": bottleneck})
}

// failedTerm states a term with its measured value.
func failedTerm(t record.SLOTerm) record.Statement {
	slo, err := spec.ParseSLO(t.Term)
	if err != nil || len(slo) != 1 {
		return say("search.term", with{"term": t.Term, "value": t.Value})
	}
	switch slo[0].Metric {
	case spec.MetricErrors:
		return say("search.term.errors", with{"term": t.Term, "share": t.Value})
	case spec.MetricRate:
		return say("search.term.rate", with{"per_s": t.Value})
	}
	name, _, _ := strings.Cut(t.Term, "<")
	if t.AtLeast {
		return say("search.term.time.at-least", with{"stat": name, "ns": t.Value, "term": t.Term})
	}
	return say("search.term.time", with{"stat": name, "ns": t.Value, "term": t.Term})
}

// nothingHolds states why even the lowest rate fails.
func (s *searchState) nothingHolds(t *tried) record.Statement {
	slo := s.slo.String()
	switch s.standing(t) {
	case failed:
		return say("search.no-rate", with{"slo": slo, "per_s": t.perS, "failure": failure(s.failedAt(t), wallAt(t)),
			"failed": t.failed, "of": t.counted()})
	case generatorEnd:
		return say("search.no-rate.generator", with{"per_s": t.perS})
	case unproved:
		return say("search.no-rate.invalid", with{"per_s": t.perS, "last": t.last()})
	}
	return say("search.no-rate.reliably", with{"per_s": t.perS, "passed": t.passed, "of": t.counted(), "slo": slo})
}

// floor returns the SLO's own rate term.
func (s *searchState) floor() (spec.Term, bool) {
	i := slices.IndexFunc(s.e.SLO, func(t spec.Term) bool { return t.Metric == spec.MetricRate })
	if i < 0 {
		return spec.Term{}, false
	}
	return s.e.SLO[i], true
}

// exit is 0 if the answer is known and meets the SLO.
func (s *searchState) exit(p *record.Plan, out *record.Search) int {
	floor, asked := s.floor()
	switch {
	case asked && out.Capacity.Mid > 0 && floor.Holds(out.Capacity.Mid):
		return 0 // whatever lies beyond
	case out.Limit == record.LimitNone && len(out.Failed) > 0 && p.Ended == record.EndedEarly && s.answered:
		return exitFail
	case asked && out.Limit == record.LimitServer && !floor.Holds(out.Capacity.High):
		return exitFail
	case p.Ended == record.EndedConverged && !asked:
		return 0
	case p.Ended == record.EndedConverged && out.Limit == record.LimitServer:
		return exitFail // the required rate is inside the interval: not shown to pass
	}
	return exitInvalid
}

// warnings lists the shortcomings of the interval.
func (s *searchState) warnings(out *record.Search, b *bracket) []record.Statement {
	var list []record.Statement
	if b.low == nil {
		return nil
	}
	switch {
	case b.high == nil && out.Limit != record.LimitAsked:
		list = append(list, say("search.no-upper-bound", nil))
	case out.Limit == record.LimitGenerator:
		list = append(list, say("search.generator-bound", nil))
	case out.Limit == record.LimitServer && out.Capacity.High/out.Capacity.Low-1 > math.Max(s.within, b.width()):
		list = append(list, say("search.runs-disagree", with{"precision": out.Capacity.High/out.Capacity.Low - 1, "asked": s.within}))
	case out.Limit == record.LimitServer && b.high.perS > b.low.perS+1 && b.width() > s.within:
		list = append(list, say("search.unfinished", with{"precision": b.width(), "asked": s.within}))
	}
	return list
}

// caveats lists possible errors in the answer.
func (s *searchState) caveats(out *record.Search, b *bracket) []record.Statement {
	var list []record.Statement
	add := func(code string, values with) { list = append(list, say(code, values)) }
	for i := range s.rates {
		t := &s.rates[i]
		if t.passed > 0 && t.failed > 0 {
			add("search.split-runs", with{"per_s": t.perS, "passed": t.passed, "runs": t.passed + t.failed})
		}
		if t.invalid > 0 {
			add("search.invalid-runs", with{"per_s": t.perS, "invalid": t.invalid, "runs": len(t.runs), "last": t.last()})
		}
	}
	if failed, passed := s.crossed(); passed != nil {
		add("search.crossed", with{"failing_per_s": failed.perS, "per_s": passed.perS})
	}
	if b.low == nil {
		return list
	}
	if s.short(b.low) {
		add("search.few-requests", with{"per_s": b.low.perS, "requests": b.low.perS * float64(s.e.Load.Duration) / 1e9,
			"needed": s.needed()})
	}
	if len(s.e.Load.Connections) == 0 {
		add("search.connections", with{"connections": b.low.runs[0].Connections})
	}
	if out.Bottleneck == record.Concurrency {
		add("search.concurrency", nil)
	}
	if s.e.Load.Arrivals != spec.Poisson {
		add("search.even-arrivals", nil)
	}
	return list
}
