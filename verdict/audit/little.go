package audit

import (
	"math"

	"ceiling/record"
)

// pointLittle checks a point against Little's law: the requests in flight are the rate times
// their mean latency, and in a closed loop they cannot exceed the slots. If no mean is printed,
// the percentiles bound it: a share 1-q of the requests took at least the q-th quantile, so the
// mean is at least (1-q) times it, and with several quantiles the sum of their steps.
type pointLittle struct {
	broken  record.Statement // why rate and latency cannot both be true, if so
	found   contradictions
	caveats []record.Statement
}

func (l *pointLittle) holds() bool { return l.broken.Code == "" }

// littleLacks returns the figures without which Little's law cannot be checked. An open loop has
// no fixed number of slots.
func (r *run) littleLacks() []string {
	if r.open() || r.tool.fromDue {
		return nil
	}
	var keys []string
	if _, ok := r.opened(); !ok {
		keys = append(keys, "connections")
	}
	if !r.Pipelining.Known {
		keys = append(keys, "pipelining")
	}
	if !r.LatencyAvgMs.Known && !r.P50Ms.Known {
		keys = append(keys, "p50_ms")
	}
	return keys
}

func newLittle(l latencies) pointLittle {
	out := pointLittle{found: l.checkInFlight()}
	least, most, ok := l.point.slots()
	if !ok || !l.point.RPS.Known || l.point.open() || l.point.tool.fromDue {
		// An open loop's latencies may count from when a request was due, and so include time
		// before it was sent, which needs no slot.
		return out
	}
	mean, key, _ := l.leastMean()
	switch {
	case l.point.RPS.Value*mean/1000 > littleImpossible*most:
		out.broken = l.littleBroken(mean, key, most)
		out.note(out.broken, key)
	case l.point.LatencyAvgMs.Known:
		out.holdMean(l.point, least, most)
	case l.point.P50Ms.Known:
		out.holdMedian(l.point, least, most)
	}
	return out
}

func (l *pointLittle) note(says record.Statement, latency string) {
	l.found.note(KindLittle, says, "connections", "pipelining", "rps", latency)
}

// holdMean checks the printed mean against the slots.
func (l *pointLittle) holdMean(r *run, least, most float64) {
	rate, avg := r.RPS.Value, r.LatencyAvgMs
	inFlight := with{"per_s": rate, "mean_ns": ns(avg.Value), "in_flight": rate * avg.Value / 1000}
	switch strained := rate*(avg.Value-avg.Step())/1000 > littleStrained*most; {
	case strained && r.tool.corrected:
		inFlight["slots"] = r.slotsSay()
		l.caveats = append(l.caveats, say("point.little.wrk-corrects", inFlight))
	case strained:
		inFlight["slots"] = r.slotsSay()
		l.note(say("point.little.strained", inFlight), "latency_avg_ms")
	case rate*(avg.Value+avg.Step())/1000 < littleIdle*least:
		inFlight["slots"] = least
		l.note(say("point.little.idle", inFlight), "latency_avg_ms")
	}
}

// holdMedian does the same with the median, which is a weaker bound.
func (l *pointLittle) holdMedian(r *run, least, most float64) {
	rate, p50 := r.RPS.Value, r.P50Ms
	needed := 1000 * least / rate
	switch {
	case rate*(p50.Value-p50.Step())/1000 > littleStrained*most:
		l.note(say("point.little.median-above", with{"slots": r.slotsSay(), "per_s": rate, "most_ns": ns(1000 * most / rate),
			"median_ns": ns(p50.Value)}), "p50_ms")
	case needed > tailLong*(p50.Value+p50.Step()):
		l.caveats = append(l.caveats, say("point.little.long-tail", with{"slots": least, "per_s": rate, "mean_ns": ns(needed),
			"median_ns": ns(p50.Value)}))
	}
}

func (l latencies) littleBroken(mean float64, key string, most float64) record.Statement {
	bound := say("point.mean.by-percentiles", with{"mean_ns": ns(mean)})
	switch key {
	case "latency_avg_ms":
		bound = say("point.mean.printed", with{"mean_ns": ns(l.point.LatencyAvgMs.Value)})
	case "p50_ms":
		bound = say("point.mean.by-median", with{"median_ns": ns(l.point.P50Ms.Value), "mean_ns": ns(mean)})
	}
	byMedian := 0.0
	if l.point.P50Ms.Known && l.point.P50Ms.Value > 0 {
		byMedian = 1000 * most / l.point.P50Ms.Value
	}
	rate := l.point.RPS.Value
	return say("point.little.broken", with{"slots": l.point.slotsSay(), "bound": bound, "most_per_s": 1000 * most / mean, "per_s": rate,
		"in_flight": rate * mean / 1000, "by_median_per_s": byMedian})
}

// checkInFlight checks the author's own product of rate and latency.
func (l latencies) checkInFlight() (found contradictions) {
	latency, author := l.point.P50Ms, l.point.InFlight
	if !author.Known || !l.point.RPS.Known || !latency.Known {
		return nil
	}
	low, high := l.point.RPS.Value*(latency.Value-latency.Step())/1000, l.point.RPS.Value*(latency.Value+latency.Step())/1000
	step := math.Max(author.Step(), 0.02*author.Value)
	if author.Value+step < low || author.Value-step > high {
		found.note(KindLittle, say("point.in-flight.apart", with{"per_s": l.point.RPS.Value, "latency_ns": ns(latency.Value),
			"in_flight": l.point.RPS.Value * latency.Value / 1000, "author": author.Value}), "in_flight_little", "rps", "p50_ms")
	}
	return found
}
