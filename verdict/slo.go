package verdict

import (
	"fmt"
	"strings"

	"ceiling/experiment/spec"
	"ceiling/internal/hist"
	"ceiling/record"
)

// sloResult is the outcome of the requested SLO.
type sloResult struct {
	asked    bool
	terms    []record.SLOTerm   // those that were measurable
	evidence []record.Evidence  // one for each of them
	broken   []record.Statement // "p99 9.10 ms, asked <5 ms"
	unknown  []record.Statement // terms for which the record has no figure
	risky    []record.Statement // terms that the requests without a response may still break
	latency  bool               // a term is about a latency
	timedOut bool               // a term is broken by requests that were given up, not by their times
}

// checkSLO compares every term of the SLO with the measurement.
func checkSLO(f *runFacts) sloResult {
	var out sloResult
	for _, term := range f.run.Spec.SLO {
		out.asked = true
		stat, what, unitName := termNames(term)
		out.latency = out.latency || term.IsLatency()
		measured, bound, why := f.measure(term)
		if why.Code != "" {
			out.unknown = append(out.unknown, say("slo.unknown", with{"term": term.String(), "why": why}))
			continue
		}
		met := term.Holds(measured)
		if met && timedOut(f.run, term) {
			met, out.timedOut = false, true
		}
		is := say("slo."+kindOf(term), with{"stat": stat, "of": term.Metric, "value": measured})
		if bound {
			w := f.run.Latency.Waited(term.Metric)
			is = say("slo.latency.at-least", with{"stat": stat, "of": term.Metric, "value": measured, "waiting": w.Count, "timed_out": w.TimedOut})
		}
		if !met {
			out.broken = append(out.broken, say("slo.misses", with{"is": is, "term": term.String()}))
		} else if n, oldest := mayBreak(f.run, term); n > 0 {
			out.risky = append(out.risky, say("slo.risky", with{"term": term.String(), "waiting": n, "oldest_ns": oldest}))
		}
		out.terms = append(out.terms, record.SLOTerm{Term: term.String(), Value: measured, Met: met, AtLeast: bound})
		out.evidence = append(out.evidence, record.NewEvidence(what, measured, unitName,
			say("slo.term", with{"is": is, "met": met, "term": term.String()})))
	}
	return out
}

// kindOf says what a term is about.
func kindOf(t spec.Term) string {
	switch t.Metric {
	case spec.MetricErrors, spec.MetricRate:
		return t.Metric
	}
	return "latency"
}

// termNames returns a latency term's statistic, the record's field that has its figure, and its
// unit.
func termNames(t spec.Term) (stat, where, unitName string) {
	switch t.Metric {
	case spec.MetricErrors:
		return "", "errors", "share"
	case spec.MetricRate:
		return "", "rate.completed_per_s", "1/s"
	}
	field := ""
	stat = "p" + strings.TrimSuffix(fmt.Sprintf("%.6g", t.Quantile*100), ".0")
	switch t.Quantile {
	case spec.Mean:
		stat, field = "mean", "mean_ns"
	case spec.Maximum:
		stat, field = "maximum", "max_ns"
	case .5:
		field = "p50_ns"
	case .9:
		field = "p90_ns"
	case .99:
		field = "p99_ns"
	case .999:
		field = "p999_ns"
	default:
		field = "hdr"
	}
	return stat, "latency." + t.Metric + "." + field, "ns"
}

// measure returns a term's figure in the unit of its limit, or why there is none. bound: requests
// without a response make it a lower bound.
func (f *runFacts) measure(t spec.Term) (v float64, bound bool, why record.Statement) {
	switch t.Metric {
	case spec.MetricErrors:
		if !f.errorShare.known {
			return 0, false, say("slo.none-ended", nil)
		}
		return f.errorShare.value, false, why
	case spec.MetricRate:
		return f.rate, false, why
	case spec.MetricService:
		return quantileOf(&f.run.Latency.Service, f.run.Latency.Waited(t.Metric), t.Quantile)
	case spec.MetricFirstByte:
		first := f.run.Latency.FirstByte
		if first == nil { // every response came in one piece
			first = &f.run.Latency.Service
		}
		return quantileOf(first, f.run.Latency.Waited(t.Metric), t.Quantile)
	case spec.MetricFirstEvent:
		if f.run.Latency.FirstEvent == nil {
			return 0, false, say("slo.no-events", nil)
		}
		return quantileOf(f.run.Latency.FirstEvent, f.run.Latency.Waited(t.Metric), t.Quantile)
	case spec.MetricResponse:
		return quantileOf(&f.run.Latency.Response, f.run.Latency.Waited(t.Metric), t.Quantile)
	}
	return 0, false, say("slo.unknown-metric", with{"metric": t.Metric})
}

// quantileOf looks q up in a latency: among the stored quantiles, else in the histogram.
func quantileOf(l *record.Quantiles, w *record.Waited, q float64) (v float64, bound bool, why record.Statement) {
	if l.Count == 0 && w.Count == 0 {
		return 0, false, say("slo.none-ended", nil)
	}
	if q == spec.Mean {
		v, bound = l.MeanWith(w)
		return v, bound, why
	}
	if ns, stored := l.Quantile(q); stored {
		return float64(ns), l.IsBound(q), why
	}
	if l.HDR == "" {
		return 0, false, say("slo.no-histogram", nil)
	}
	h, err := hist.DecodeV2(l.HDR)
	if err != nil {
		return 0, false, say("slo.bad-histogram", with{"error": err.Error()})
	}
	u, err := w.Unanswered()
	if err != nil {
		return 0, false, say("slo.bad-histogram", with{"error": err.Error()})
	}
	if h.TotalCount() == 0 && w.Count == 0 {
		return 0, false, say("slo.empty-histogram", nil)
	}
	ns, bound := record.AtLeast(hist.FromHDR(h), u, q)
	return float64(ns), bound, why
}

// timedOut reports whether a term's quantile falls on a request that was given up: it had no
// response within the limit, even if --timeout is below it.
func timedOut(run *record.Run, t spec.Term) bool {
	return t.Less && run.Latency.Waited(t.Metric).Reach(run.Latency.Response.Count, t.Quantile)
}

// mayBreak returns how many requests without a response have waited longer than the term's share of
// the others took, and the oldest, if they would break the term by taking long enough: those of a
// server that hangs. 0 if they cannot, for there are too few.
func mayBreak(run *record.Run, t spec.Term) (n uint64, oldestNs int64) {
	w := run.Latency.Waited(t.Metric)
	bins, total := run.Latency.ResponseBins, float64(w.Count)
	if t.Metric == spec.MetricService {
		bins = run.Latency.ServiceBins
	}
	if w.Count == 0 || len(bins) == 0 || !t.Less || t.Metric != spec.MetricService && t.Metric != spec.MetricResponse {
		return 0, 0
	}
	u, err := w.Unanswered()
	if err != nil {
		return 0, 0 // measure says so
	}
	q := t.Quantile
	if q == spec.Mean {
		q = spec.Maximum // one request can raise it without limit
	}
	over := 0.0
	for _, b := range bins {
		total += float64(b.Count)
		if float64(b.Ns) > t.Limit {
			over += float64(b.Count)
		}
	}
	n = w.Count - u.Waiting.CountAtMost(usual(bins, q))
	if n == 0 || over+float64(n) <= (1-q)*total {
		return 0, 0
	}
	return n, w.OldestNs
}

// usual returns the end of the bin that the share q of the times does not exceed.
func usual(bins []record.Bin, q float64) int64 {
	all, seen := 0.0, 0.0
	for _, b := range bins {
		all += float64(b.Count)
	}
	for _, b := range bins {
		if seen += float64(b.Count); seen >= q*all {
			return b.Ns + b.Ns/8
		}
	}
	return bins[len(bins)-1].Ns
}
