package audit

import (
	"math"
	"slices"

	"ceiling/experiment/spec"
	"ceiling/record"
	"ceiling/verdict"
)

// void returns the verdict on figures that cannot all be true, or nil.
func (f *pointFacts) void() *record.Verdict {
	total, totalKey, counted := f.point.totalRequests()
	elapsed, _, timed := f.point.seconds()
	because := f.little.broken
	switch {
	case !f.little.holds():
	case f.link.impossible():
		because = say("point.link.impossible", with{"how": f.link.used.how, "gbps": f.point.NICGbps.Value,
			"capacity_mb_per_s": f.link.capacity.Value / mega})
	case counted && timed && math.Abs(total/elapsed/f.point.RPS.Value-1) > totalsImpossible:
		because = say("point.totals.impossible", with{"key": totalKey, "requests": total, "time_s": elapsed, "counted_per_s": total / elapsed,
			"per_s": f.point.RPS.Value})
	default:
		return nil
	}
	return &record.Verdict{Outcome: record.Invalid, Bottleneck: record.Inconclusive, Because: []record.Statement{because},
		Next: just("point.impossible.next", nil)}
}

// verdictErrors returns the verdict on a run whose requests failed, or nil: a server that refuses
// part of its work has a different limit from one that does it.
func (f *pointFacts) verdictErrors() *record.Verdict {
	total, _, counted := f.point.totalRequests()
	failed, bad := f.point.FailedRequests.Value, f.point.BadStatuses.Value
	all := total + failed
	if !counted && !f.point.FailedRequests.Known || all <= 0 || failed+bad < spec.ErrorsMatter*all {
		return nil
	}
	share := math.Min((failed+bad)/all, 1)
	return &record.Verdict{Outcome: record.Invalid, Bottleneck: record.Failures,
		Because: just("point.failed", with{"share": share, "requests": all, "unanswered": failed, "bad_statuses": bad}),
		Evidence: []record.Evidence{record.NewEvidence("failed_requests", 100*share, "%",
			say("point.failed.share", with{"share": share}))},
		Next: just("point.failed.next", nil)}
}

func (f *pointFacts) verdictAskedRate() record.Verdict {
	return record.Verdict{Outcome: record.Valid, Bottleneck: record.TargetRate, Because: just("point.target-reached", f.point.schedule()),
		Next: just("point.target-reached.next", nil)}
}

func (f *pointFacts) verdictBandwidth() record.Verdict {
	l, g := &f.link, &f.generator
	v := record.Verdict{
		Outcome: record.Valid, Bottleneck: record.Bandwidth,
		Because: just("point.link.full", with{"mb_per_s": l.used.perS / mega, "capacity_mb_per_s": l.capacity.Value / mega,
			"gbps": f.point.NICGbps.Value, "share": l.share()}),
		Evidence: l.evidence(), Next: just("point.link.full.next", nil),
	}
	switch {
	case !g.known():
		v.Caveats = just("point.generator.unknown-too", nil)
	case g.full():
		v.Caveats = just("point.generator.full-too", with{"share": g.use()})
	}
	return v
}

func (f *pointFacts) verdictGenerator() record.Verdict {
	g, s := &f.generator, &f.server
	v := record.Verdict{
		Outcome: record.Invalid, Bottleneck: record.LoadGenerator, Because: just("point.generator.full", with{"share": g.use()}),
		Evidence: f.evidence(), Next: just("point.generator.full.next", nil), NextBottleneck: f.nextBottleneck(),
	}
	if !f.link.known() {
		for _, m := range f.link.lacks() {
			v.Caveats = append(v.Caveats, m.says)
		}
	}
	if s.full() {
		v.Caveats = append(v.Caveats, say("point.server.full-too", with{"share": s.use()}))
	}
	if g.use() < verdict.GeneratorFull {
		v.Caveats = append(v.Caveats, say("point.generator.mean", with{"share": g.use()}))
	}
	return v
}

func (f *pointFacts) verdictServerCPU() record.Verdict {
	g, s := &f.generator, &f.server
	v := record.Verdict{
		Outcome: record.Valid, Bottleneck: record.ServerCPU,
		Because: just("point.server.full", with{"share": s.use(), "allowed_cpus": s.part(), "generator_share": g.use(),
			"link_share": f.link.shareSays()}),
		Evidence:       slices.Concat(s.evidence(), g.evidence(), f.link.evidence()),
		Next:           just("point.server.full.next", nil),
		NextBottleneck: f.nextBottleneck(),
	}
	if s.use() < verdict.GeneratorFull {
		v.Caveats = just("point.server.mean", with{"share": s.use()})
	}
	return v
}

// nextBottleneck returns the fullest of the measured resources that are not full, assuming that
// each grows with the rate.
func (f *pointFacts) nextBottleneck() *record.NextBottleneck {
	var next *record.NextBottleneck
	offer := func(name record.Bottleneck, share float64) {
		if share <= 0 || share >= pointFull {
			return
		}
		if times := 1 / share; next == nil || times < next.Times {
			next = &record.NextBottleneck{Bottleneck: name, Times: times,
				Says: say("point.next-bottleneck", with{"bottleneck": name, "times": times})}
		}
	}
	if f.generator.known() && len(f.generator.capacityLacks) == 0 {
		offer(record.LoadGenerator, f.generator.high/f.generator.capacity)
	}
	if f.server.known() && f.server.whole() {
		offer(record.ServerCPU, f.server.use())
	}
	if f.link.known() {
		offer(record.Bandwidth, f.link.share())
	}
	return next
}

// verdictInconclusive names what is missing, the generator first: without it, nothing can be said
// about the server.
func (f *pointFacts) verdictInconclusive(lacks []record.Statement) record.Verdict {
	if len(lacks) == 0 {
		lacks = just("point.nothing-full", with{"generator_share": f.generator.use(), "server_share": f.server.use(),
			"link_share": f.link.shareSays()})
	}
	return record.Verdict{Outcome: record.Valid, Bottleneck: record.Inconclusive, Because: just("inconclusive", with{"missing": lacks}),
		Evidence: f.evidence(), Next: f.nextMeasurement()}
}

func (f *pointFacts) nextMeasurement() []record.Statement {
	switch {
	case !f.generator.known():
		return just("point.measure.generator", nil)
	case !f.server.known() || !f.server.whole():
		return just("point.measure.server", nil)
	case len(f.generator.capacityLacks) > 0:
		return just("point.measure.capacity", nil)
	case !f.link.free() && !f.link.known():
		return just("point.measure.link", nil)
	}
	return just("point.measure.threads", nil)
}

// evidence returns what the point itself states about the generator, the server and the link.
func (f *pointFacts) evidence() []record.Evidence {
	return slices.Concat(f.generator.evidence(), f.server.evidence(), f.link.evidence())
}

// loadEvidence returns what the load itself shows.
func (f *pointFacts) loadEvidence() []record.Evidence {
	latency, key := f.point.LatencyAvgMs, "latency_avg_ms"
	if !latency.Known || f.point.tool.corrected && f.point.P50Ms.Known {
		latency, key = f.point.P50Ms, "p50_ms"
	}
	if !f.point.RPS.Known || !latency.Known || latency.Value == 0 || !f.little.holds() || f.point.tool.corrected && key == "latency_avg_ms" {
		return nil
	}
	inFlight := f.point.RPS.Value * latency.Value / 1000
	slots, idle := 0.0, 0.0
	if least, _, ok := f.point.slots(); ok && !f.point.open() {
		slots = least
	}
	if f.point.open() && !f.point.metSchedule() && inFlight < f.point.VCPUs.Value {
		idle = f.point.VCPUs.Value
	}
	return []record.Evidence{record.NewEvidence(key, inFlight, "requests", say("point.in-flight", with{"per_s": f.point.RPS.Value,
		"latency_ns": ns(latency.Value), "in_flight": inFlight, "slots": slots, "more_cpus": idle}))}
}
