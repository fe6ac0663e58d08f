package importer

import (
	"math"
	"strconv"
	"strings"

	"ceiling/record"
)

// Point converts the result to a point that can be classified (docs/points.md). It leaves out
// figures that the tool did not print or that cannot support a conclusion.
func (r *Result) Point(id string) record.Point {
	p := record.Point{ID: id, Line: 1, ClientTool: r.Tool, RPS: exact(r.CompletedPerS), ElapsedS: exact(r.DurationS),
		TotalRequests:  exact(float64(r.Requests)),
		FailedRequests: exact(float64(r.Failed())), BadStatuses: exact(float64(r.BadStatuses()))}
	if r.Connections > 0 && r.Tool != K6 { // a virtual user may sleep, or keep several
		p.Connections = exact(float64(r.Connections))
	}
	if r.Workers > 0 {
		p.ClientWorkers = exact(float64(r.Workers))
	}
	if r.Pipelining > 0 {
		p.Pipelining = exact(float64(r.Pipelining))
	}
	if r.BytesRead != nil && r.Requests > 0 {
		each := exact(float64(*r.BytesRead) / float64(r.Requests))
		if r.BodiesOnly {
			p.BodyBytes = each
		} else {
			p.ResponseBytes = each
		}
	}
	if r.MadeUp > 0 {
		return p // they include latencies that were never measured
	}
	for q, into := range map[float64]*record.Figure{.025: &p.LatencyP2_5Ms, .5: &p.P50Ms, .75: &p.P75Ms, .9: &p.P90Ms, .95: &p.P95Ms,
		.975: &p.LatencyP97_5Ms, .99: &p.P99Ms} {
		for _, have := range r.Quantiles {
			if math.Abs(have.Q-q) < 1e-9 {
				*into = milliseconds(have.Ns, have.ResolutionNs)
			}
		}
	}
	if r.MeanNs != nil && r.Tool != GoWrk { // go-wrk derives its rate from its mean
		p.LatencyAvgMs = milliseconds(*r.MeanNs, r.MeanDigitNs)
	}
	if r.MaxNs != nil {
		p.LatencyMaxMs = milliseconds(*r.MaxNs, r.MeanDigitNs)
	}
	return p
}

// BadStatuses counts the responses with an error status.
func (r *Result) BadStatuses() uint64 {
	var n uint64
	for status, count := range r.Statuses {
		code, err := strconv.Atoi(status)
		if err == nil && code >= 400 || status == "400 or more" || status == "not 2xx" || strings.HasPrefix(status, "4xx") ||
			strings.HasPrefix(status, "5xx") {
			n += count
		}
	}
	return n
}

// exact returns a figure known to all its digits.
func exact(v float64) record.Figure { return record.Figure{Value: v, Known: true, Decimals: 6} }

// milliseconds returns a time with the digits that were printed.
func milliseconds(ns, digitNs int64) record.Figure {
	decimals := 6
	if digitNs > 1 {
		decimals = int(math.Floor(6 - math.Log10(float64(digitNs)) + 1e-9))
	}
	return record.Figure{Value: float64(ns) / 1e6, Known: true, Decimals: max(decimals, 0)}
}
