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
	latency  bool               // a term is about a latency
}

// checkSLO compares every term of the SLO with the measurement.
func checkSLO(f *runFacts) sloResult {
	var out sloResult
	for _, term := range f.run.Spec.SLO {
		out.asked = true
		stat, what, unitName := termNames(term)
		out.latency = out.latency || term.Metric == spec.MetricResponse || term.Metric == spec.MetricService
		measured, why := f.measure(term)
		if why.Code != "" {
			out.unknown = append(out.unknown, say("slo.unknown", with{"term": term.String(), "why": why}))
			continue
		}
		met := term.Holds(measured)
		is := say("slo."+kindOf(term), with{"stat": stat, "of": term.Metric, "value": measured})
		if !met {
			out.broken = append(out.broken, say("slo.misses", with{"is": is, "term": term.String()}))
		}
		out.terms = append(out.terms, record.SLOTerm{Term: term.String(), Value: measured, Met: met})
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

// measure returns a term's figure in the unit of its limit, or why there is none.
func (f *runFacts) measure(t spec.Term) (v float64, why record.Statement) {
	switch t.Metric {
	case spec.MetricErrors:
		if !f.errorShare.known {
			return 0, say("slo.none-ended", nil)
		}
		return f.errorShare.value, why
	case spec.MetricRate:
		return f.rate, why
	case spec.MetricService:
		return quantileOf(&f.run.Latency.Service, t.Quantile)
	case spec.MetricResponse:
		return quantileOf(&f.run.Latency.Response, t.Quantile)
	}
	return 0, say("slo.unknown-metric", with{"metric": t.Metric})
}

// quantileOf looks q up in a latency: among the stored quantiles, else in the histogram.
func quantileOf(l *record.Quantiles, q float64) (v float64, why record.Statement) {
	if l.Count == 0 {
		return 0, say("slo.none-ended", nil)
	}
	switch q {
	case spec.Mean:
		return l.MeanNs, why
	case spec.Maximum:
		return float64(l.MaxNs), why
	case .5:
		return float64(l.P50Ns), why
	case .9:
		return float64(l.P90Ns), why
	case .99:
		return float64(l.P99Ns), why
	case .999:
		return float64(l.P999Ns), why
	}
	if l.HDR == "" {
		return 0, say("slo.no-histogram", nil)
	}
	h, err := hist.DecodeV2(l.HDR)
	if err != nil {
		return 0, say("slo.bad-histogram", with{"error": err.Error()})
	}
	if h.TotalCount() == 0 {
		return 0, say("slo.empty-histogram", nil)
	}
	return float64(hist.FromHDR(h).Quantile(q)), why
}
