package plan

import (
	"fmt"
	"math"
	"slices"
	"strings"

	"ceiling/experiment/spec"
	"ceiling/internal/hist"
	"ceiling/internal/unit"
	"ceiling/record"
)

// concludeSearch says what the runs found, also before the search has ended.
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
func (s *survey) limit(b *bracket, ended string) string {
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

// table is every rate with its runs.
func (s *survey) table() []record.TriedRate {
	rates := make([]record.TriedRate, 0, len(s.rates))
	for i := range s.rates {
		t := &s.rates[i]
		row := record.TriedRate{PerS: t.perS, Runs: len(t.runs), Pass: t.passed, Fail: t.failed, Invalid: t.invalid + t.generatorLimited,
			StoppedEarly: t.stoppedEarly,
			Bottleneck:   wallAt(t)}
		merged := &hist.Hist{}
		for _, m := range t.runs {
			if m.StoppedEarly == "" && m.Histogram != nil {
				merged.Merge(m.Histogram)
			}
		}
		row.Response = record.QuantilesOf(merged)
		row.MissedP99Ns, row.MissedAtLeast = s.missedP99(t)
		rates = append(rates, row)
	}
	return rates
}

// missedP99 is the median p99 of the runs of a rate that failed; at least so much
// where one of them was ended early.
func (s *survey) missedP99(t *tried) (ns int64, atLeast bool) {
	var all []int64
	for _, m := range t.runs {
		switch b, _ := s.judge(m); {
		case b != classMissed:
		case m.P99AtLeastNs > 0:
			all, atLeast = append(all, m.P99AtLeastNs), true
		case m.StoppedEarly == "" && m.Response.Count > 0:
			all = append(all, m.Response.P99Ns)
		}
	}
	if len(all) == 0 {
		return 0, false
	}
	slices.Sort(all)
	return all[(len(all)-1)/2], atLeast
}

// wallAt is the ceiling that most runs of a rate name, one that is to blame for
// something before one that is not.
func wallAt(t *tried) record.Bottleneck {
	outcomes := map[record.Bottleneck]int{}
	for _, m := range t.runs {
		if m.Bottleneck != "" {
			outcomes[m.Bottleneck]++
		}
	}
	best := record.Bottleneck("")
	for name, n := range outcomes {
		switch {
		case best == "", worthNaming(name) != worthNaming(best) && worthNaming(name):
			best = name
		case worthNaming(name) != worthNaming(best):
		case n > outcomes[best] || n == outcomes[best] && name < best:
			best = name
		}
	}
	return best
}

func worthNaming(ceiling record.Bottleneck) bool {
	return blames(ceiling) || ceiling == record.LoadGenerator
}

// crossed are the lowest rate that failed and the highest that passed, where that
// is above it: one of them is wrong.
func (s *survey) crossed() (lowestBroke, highestHeld *tried) {
	for i := range s.rates {
		switch t := &s.rates[i]; s.standing(t) {
		case passed:
			highestHeld = t
		case failed:
			if lowestBroke == nil {
				lowestBroke = t
			}
		}
	}
	if lowestBroke == nil || highestHeld == nil || highestHeld.perS < lowestBroke.perS {
		return nil, nil
	}
	return lowestBroke, highestHeld
}

// failedAt are the terms that failed at a rate, over its runs that failed.
func (s *survey) failedAt(t *tried) []record.SLOTerm {
	var broken []*record.Measured
	for _, m := range t.judged {
		if b, _ := s.judge(m); b == classMissed {
			broken = append(broken, m)
		}
	}
	if len(broken) == 0 {
		return nil
	}
	all := mergedRuns(broken)
	if _, terms := s.judge(&all); len(terms) > 0 {
		return terms
	}
	_, terms := s.judge(broken[len(broken)-1])
	return terms
}

// says is the answer in words.
func (s *survey) says(p *record.Plan, out *record.Search, b *bracket) string {
	slo := s.slo.String()
	if p.Ended == "" || p.Ended == record.EndedInterrupted || p.Ended == record.EndedFailed {
		return s.soFar(b, slo)
	}
	if b.low == nil {
		return upper(p.Because) + "."
	}
	low := unit.FormatRate(b.low.perS)
	text := ""
	switch out.Limit {
	case record.LimitAsked:
		text = fmt.Sprintf("%s meets %s; that is the highest rate allowed (--most).", low, slo)
	case record.LimitGenerator:
		text = fmt.Sprintf("At least %s meets %s; this generator cannot send %s, so the server's limit was not reached.", low, slo,
			unit.FormatRate(b.high.perS))
	case record.LimitUnproved:
		text = fmt.Sprintf("At least %s meets %s; higher rates gave no valid result: %s.", low, slo, p.Because)
	default:
		text = fmt.Sprintf("highest rate meeting %s: %s; at %s %s.", slo, low, unit.FormatRate(b.high.perS), breaking(out))
		if p.Ended == record.EndedEarly {
			text += " " + upper(p.Because) + "."
		}
	}
	if floor, asked := s.floor(); asked && !floor.Holds(b.low.perS) {
		text += fmt.Sprintf(" The SLO asks for %s.", floor)
	}
	return text
}

// soFar is what an unfinished search knows.
func (s *survey) soFar(b *bracket, slo string) string {
	switch {
	case b.low != nil && b.high != nil:
		return fmt.Sprintf("So far: %s meets %s, %s does not.", unit.FormatRate(b.low.perS), slo, unit.FormatRate(b.high.perS))
	case b.low != nil:
		return fmt.Sprintf("So far: %s meets %s.", unit.FormatRate(b.low.perS), slo)
	case len(s.rates) > 0:
		return fmt.Sprintf("So far: %s is the lowest rate tested; it has not met %s yet.", unit.FormatRate(s.rates[0].perS), slo)
	}
	return "No rate has been tested yet."
}

// breaking says what breaks first, and the wall.
func breaking(out *record.Search) string {
	var parts []string
	for _, h := range out.Failed {
		parts = append(parts, shown(h))
	}
	if len(parts) == 0 {
		parts = append(parts, "the failing term was not recorded")
	}
	text := strings.Join(parts, ", ")
	if blames(out.Bottleneck) {
		text += "; bottleneck there: " + string(out.Bottleneck)
	}
	return text
}

// shown is a broken term with what was measured.
func shown(h record.SLOTerm) string {
	slo, err := spec.ParseSLO(h.Term)
	if err != nil || len(slo) != 1 {
		return fmt.Sprintf("%s was %g", h.Term, h.Value)
	}
	switch slo[0].Metric {
	case spec.MetricErrors:
		return fmt.Sprintf("%s of the requests failed (%s)", unit.Percent(h.Value), h.Term)
	case spec.MetricRate:
		return fmt.Sprintf("only %s were answered and the queue grew", unit.FormatRate(h.Value))
	}
	name, _, _ := strings.Cut(h.Term, "<")
	return fmt.Sprintf("%s is %s (%s)", name, unit.FormatNs(int64(h.Value)), h.Term)
}

// nothingHolds says why even the lowest rate breaks.
func (s *survey) nothingHolds(t *tried) string {
	at, slo := unit.FormatRate(t.perS), s.slo.String()
	switch s.standing(t) {
	case failed:
		return fmt.Sprintf("no rate meets %s: even at %s, %s, in %s", slo, at,
			breaking(&record.Search{Failed: s.failedAt(t), Bottleneck: wallAt(t)}),
			outOf(t.failed, t.counted()))
	case generatorEnd:
		return fmt.Sprintf("the generator cannot send even %s, so the server was not tested", at)
	case unproved:
		return fmt.Sprintf("even the runs at %s are invalid%s", at, t.saying())
	}
	return fmt.Sprintf("at %s, the lowest rate, %d of %d runs met %s: no rate meets it reliably", at, t.passed, t.counted(), slo)
}

// floor is the SLO's own rate term.
func (s *survey) floor() (spec.Term, bool) {
	i := slices.IndexFunc(s.e.SLO, func(t spec.Term) bool { return t.Metric == spec.MetricRate })
	if i < 0 {
		return spec.Term{}, false
	}
	return s.e.SLO[i], true
}

// exit is 0 where the answer is known and is what the SLO asks for.
func (s *survey) exit(p *record.Plan, out *record.Search) int {
	floor, asked := s.floor()
	switch {
	case asked && out.Capacity.Mid > 0 && floor.Holds(out.Capacity.Mid):
		return 0 // whatever is beyond
	case out.Limit == record.LimitNone && len(out.Failed) > 0 && p.Ended == record.EndedEarly && s.answered:
		return exitBroke
	case asked && out.Limit == record.LimitServer && !floor.Holds(out.Capacity.High):
		return exitBroke
	case p.Ended == record.EndedConverged && !asked:
		return 0
	case p.Ended == record.EndedConverged && out.Limit == record.LimitServer:
		return exitBroke // the asked rate lies inside the interval: it was not shown to hold
	}
	return exitVoid
}

// warnings are what the interval lacks.
func (s *survey) warnings(out *record.Search, b *bracket) []string {
	var list []string
	if b.low == nil {
		return nil
	}
	switch {
	case b.high == nil && out.Limit != record.LimitAsked:
		list = append(list, "no upper bound: every tested rate met the SLO")
	case out.Limit == record.LimitGenerator:
		list = append(list, "the upper bound is the generator's, not the server's; give it more CPU or another machine")
	case out.Limit == record.LimitServer && out.Capacity.High/out.Capacity.Low-1 > math.Max(s.within, b.width()):
		list = append(list, fmt.Sprintf("precision %s instead of %s: runs at the same rate disagree; use a quieter machine or longer steps (-d)",
			unit.Percent(out.Capacity.High/out.Capacity.Low-1), unit.Percent(s.within)))
	case out.Limit == record.LimitServer && b.high.perS > b.low.perS+1 && b.width() > s.within:
		list = append(list, fmt.Sprintf("precision %s instead of %s: the search has not finished", unit.Percent(b.width()),
			unit.Percent(s.within)))
	}
	return list
}

// caveats are what may be wrong about the answer.
func (s *survey) caveats(out *record.Search, b *bracket) []string {
	var list []string
	note := func(format string, args ...any) { list = append(list, fmt.Sprintf(format, args...)) }
	for i := range s.rates {
		t := &s.rates[i]
		if t.passed > 0 && t.failed > 0 {
			note("%s: %d of %s met the SLO", unit.FormatRate(t.perS), t.passed, unit.Plural(t.passed+t.failed, "run", "runs"))
		}
		if t.invalid > 0 {
			note("%s: %d of %s invalid%s", unit.FormatRate(t.perS), t.invalid, unit.Plural(len(t.runs), "run", "runs"), t.saying())
		}
	}
	if failed, passed := s.crossed(); failed != nil {
		note("%s failed although %s passed", unit.FormatRate(failed.perS), unit.FormatRate(passed.perS))
	}
	if b.low == nil {
		return list
	}
	if s.short(b.low) {
		note("a run at %s has some %.0f requests, and this SLO needs %.0f for its finest quantile: measure longer (-d)",
			unit.FormatRate(b.low.perS),
			b.low.perS*float64(s.e.Load.Duration)/1e9, s.enough())
	}
	if len(s.e.Load.Connections) == 0 {
		note("using %s connections (rate × SLO latency, with headroom; override with -c)", unit.FormatCount(int64(b.low.runs[0].Connections)))
	}
	if out.Bottleneck == "concurrency" {
		note("concurrency was the bottleneck, not the server: raise it (-c)")
	}
	if s.e.Load.Arrivals != spec.Poisson {
		note("requests were evenly spaced; real clients arrive in bursts (--arrivals poisson), which lowers the sustainable rate")
	}
	return list
}

// upper begins a sentence.
func upper(s string) string {
	if s == "" {
		return ""
	}
	return strings.ToUpper(s[:1]) + s[1:]
}
