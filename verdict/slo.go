package verdict

import (
	"fmt"
	"strings"

	"ceiling/experiment/spec"
	"ceiling/internal/hist"
	"ceiling/internal/unit"
	"ceiling/record"
)

// sloResult is what became of the asked SLO.
type sloResult struct {
	asked    bool
	terms    []record.SLOTerm  // those that could be measured
	evidence []record.Evidence // one for each of them
	broken   []string          // "p99 9.10 ms, asked <5 ms"
	unknown  []string          // terms for which the record has no figure
	latency  bool              // a term is about a latency
}

// checkSLO sets every term of the SLO against what was measured.
func checkSLO(f *facts) sloResult {
	var out sloResult
	for _, term := range f.run.Spec.SLO {
		out.asked = true
		name, what, unitName := termNames(term)
		out.latency = out.latency || term.Metric == spec.MetricResponse || term.Metric == spec.MetricService
		measured, why := f.measure(term)
		if why != "" {
			out.unknown = append(out.unknown, fmt.Sprintf("%s (%s)", term, why))
			continue
		}
		shown := showTerm(term, measured)
		verb := "meets"
		if !term.Holds(measured) {
			verb = "misses"
			out.broken = append(out.broken, fmt.Sprintf("%s is %s, asked %s", name, shown, term))
		}
		out.terms = append(out.terms, record.SLOTerm{Term: term.String(), Value: measured, Met: term.Holds(measured)})
		out.evidence = append(out.evidence, record.NewEvidence(what, measured, unitName, "%s is %s: %s %s", name, shown, verb, term))
	}
	return out
}

// termNames are a term's name in a sentence, where its figure is in the
// record, and its unit.
func termNames(t spec.Term) (name, where, unitName string) {
	switch t.Metric {
	case spec.MetricErrors:
		return "the share of errors", "errors", "share"
	case spec.MetricRate:
		return "the rate", "rate.completed_per_s", "1/s"
	}
	stat, field := "p"+strings.TrimSuffix(fmt.Sprintf("%.6g", t.Quantile*100), ".0"), ""
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
	return stat + " of the " + t.Metric + " time", "latency." + t.Metric + "." + field, "ns"
}

func showTerm(t spec.Term, v float64) string {
	switch t.Metric {
	case spec.MetricErrors:
		return unit.Percent(v)
	case spec.MetricRate:
		return unit.FormatRate(v)
	}
	return ns(v)
}

// measure is a term's figure in the unit of its limit, or why there is none.
func (f *facts) measure(t spec.Term) (v float64, why string) {
	switch t.Metric {
	case spec.MetricErrors:
		if !f.errorShare.known {
			return 0, "no request has ended"
		}
		return f.errorShare.value, ""
	case spec.MetricRate:
		return f.rate, ""
	case spec.MetricService:
		return quantileOf(&f.run.Latency.Service, t.Quantile)
	case spec.MetricResponse:
		return quantileOf(&f.run.Latency.Response, t.Quantile)
	}
	return 0, "unknown metric " + t.Metric
}

// quantileOf looks q up in a latency: the kept ones, else the histogram.
func quantileOf(l *record.Quantiles, q float64) (v float64, why string) {
	if l.Count == 0 {
		return 0, "no request has ended"
	}
	switch q {
	case spec.Mean:
		return l.MeanNs, ""
	case spec.Maximum:
		return float64(l.MaxNs), ""
	case .5:
		return float64(l.P50Ns), ""
	case .9:
		return float64(l.P90Ns), ""
	case .99:
		return float64(l.P99Ns), ""
	case .999:
		return float64(l.P999Ns), ""
	}
	if l.HDR == "" {
		return 0, "the record has no histogram to read it from"
	}
	h, err := hist.DecodeV2(l.HDR)
	if err != nil {
		return 0, err.Error()
	}
	if h.TotalCount() == 0 {
		return 0, "the histogram is empty"
	}
	return float64(hist.FromHDR(h).Quantile(q)), ""
}
