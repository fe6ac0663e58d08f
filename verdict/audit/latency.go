package audit

import (
	"math"
	"slices"

	"ceiling/record"
)

// ns converts milliseconds to nanoseconds.
func ns(ms float64) float64 { return ms * 1e6 }

// latencies are the latencies that a point prints.
type latencies struct {
	point   *run
	printed []printedQuantile // in order
}

// printedQuantile is one printed percentile, milliseconds.
type printedQuantile struct {
	q   float64
	key string
	ms  record.Figure
}

func newLatencies(r *run) latencies {
	l := latencies{point: r}
	for _, c := range []printedQuantile{
		{0.025, "latency_p2_5_ms", r.LatencyP2_5Ms}, {0.5, "p50_ms", r.P50Ms}, {0.75, "p75_ms", r.P75Ms}, {0.9, "p90_ms", r.P90Ms},
		{0.95, "p95_ms", r.P95Ms}, {0.975, "latency_p97_5_ms", r.LatencyP97_5Ms}, {0.99, "p99_ms", r.P99Ms},
		{1, "latency_max_ms", r.LatencyMaxMs},
	} {
		if c.ms.Known {
			l.printed = append(l.printed, c)
		}
	}
	return l
}

// leastMean returns the lowest mean that the printed latencies allow, in milliseconds.
func (l latencies) leastMean() (ms float64, key string, known bool) {
	if avg := l.point.LatencyAvgMs; avg.Known && !l.point.tool.corrected {
		return math.Max(avg.Value-avg.Step(), 0), "latency_avg_ms", true
	}
	return l.leastByQuantiles()
}

func (l latencies) leastByQuantiles() (ms float64, key string, known bool) {
	least := 0.0
	list := l.printed
	if l.point.tool.corrected {
		list = onlyMedian(list)
	}
	for i, c := range list {
		next := 1.0
		if i+1 < len(list) {
			next = list[i+1].q
		}
		// A printed 3 may be anything that rounds or truncates to it.
		ms += (next - c.q) * math.Max(c.ms.Value-c.ms.Step(), 0)
		if (next-c.q)*c.ms.Value > least {
			least, key = (next-c.q)*c.ms.Value, c.key
		}
	}
	return ms, key, key != ""
}

// onlyMedian keeps the one figure of a corrected distribution that still bounds the mean. wrk
// knows the mean interval E of a connection's responses, which in a closed loop is the mean
// latency, and adds x-E, x-2E, … above E for each latency x beyond 2E (stats_correct). It adds
// fewer values than N, the requests, because the latencies sum to N·E and each x adds fewer than
// x/E. For n of the latencies and k of the added values at or above a median P > E: n·P + k·E is
// at most N·E, and 2n + k is at least N for them to be half of all. So n·(P/E - 2) is at most 0:
// the median is at most twice the mean, corrected or not. The mean and the higher quantiles have
// no such bound: a run of 16 connections prints a mean that implies 52 requests in flight.
func onlyMedian(list []printedQuantile) []printedQuantile {
	return slices.DeleteFunc(slices.Clone(list), func(q printedQuantile) bool { return q.q != 0.5 })
}

// check looks for percentiles out of order and for zeros.
func (l latencies) check() (found contradictions) {
	for i := 1; i < len(l.printed); i++ {
		if a, b := l.printed[i-1], l.printed[i]; a.ms.Value > b.ms.Value+math.Max(a.ms.Step(), b.ms.Step())*0.999 {
			found.note(KindOrder, say("point.latency.order", with{"lower": a.key, "lower_ns": ns(a.ms.Value), "upper": b.key,
				"upper_ns": ns(b.ms.Value)}), a.key, b.key)
		}
	}
	avg := l.point.LatencyAvgMs
	if longest := l.point.LatencyMaxMs; avg.Known && longest.Known && avg.Value > longest.Value {
		found.note(KindOrder, say("point.latency.mean-above-max", with{"mean_ns": ns(avg.Value), "max_ns": ns(longest.Value)}),
			"latency_avg_ms", "latency_max_ms")
	}
	if least, key, ok := l.leastByQuantiles(); avg.Known && ok && least > (avg.Value+avg.Step())*littleStrained {
		found.note(KindOrder, say("point.latency.mean-below-percentiles", with{"least_ns": ns(least), "mean_ns": ns(avg.Value)}),
			"latency_avg_ms", key)
	}
	for _, c := range append(slices.Clone(l.printed), printedQuantile{0, "latency_avg_ms", avg}) {
		if c.ms.Known && c.ms.Value == 0 {
			found.note(KindResolution, say("point.latency.zero", with{"key": c.key, "step_ns": ns(c.ms.Step())}), c.key)
		}
	}
	return found
}
