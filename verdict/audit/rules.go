package audit

import (
	"fmt"
	"math"
	"strings"

	"ceiling/experiment/spec"
	"ceiling/internal/unit"
	"ceiling/record"
	"ceiling/verdict"
)

// void is the verdict on figures that cannot all be true, or nil.
func (f *pointFacts) void() *record.Verdict {
	p := &f.p
	total, totalKey, counted := f.totalRequests()
	elapsed, _, timed := f.seconds()
	because := ""
	switch {
	case f.little.void != "":
		because = f.little.void
	case f.link.known() && f.link.share() > linkPossible:
		because = fmt.Sprintf("more than the link carries: %s, and %s Gbit/s are %s", f.link.how, plain(p.NICGbps.Value),
			megabytes(f.link.capacity.Value))
	case counted && timed && math.Abs(total/elapsed/p.RPS.Value-1) > totalsImpossible:
		because = fmt.Sprintf("%s = %s in %s s are %s, not %s", totalKey, plain(total), plain(elapsed), unit.FormatRate(total/elapsed),
			unit.FormatRate(p.RPS.Value))
	default:
		return nil
	}
	return &record.Verdict{Outcome: record.Invalid, Bottleneck: record.Inconclusive, Because: because,
		Next: "find which of these figures is wrong before anything is concluded from them"}
}

// verdictErrors is the verdict on a run whose requests failed, or nil: a server
// that refuses a part of its work has another limit than one that does it.
func (f *pointFacts) verdictErrors() *record.Verdict {
	p := &f.p
	total, _, counted := f.totalRequests()
	failed, bad := p.FailedRequests.Value, p.BadStatuses.Value
	all := total + failed
	if !counted && !p.FailedRequests.Known || all <= 0 || failed+bad < spec.ErrorsMatter*all {
		return nil
	}
	var parts []string
	for _, n := range []struct {
		count float64
		what  string
	}{{failed, "without a response"}, {bad, "of an error status"}} {
		if n.count > 0 {
			parts = append(parts, plain(n.count)+" "+n.what)
		}
	}
	share := math.Min((failed+bad)/all, 1)
	return &record.Verdict{Outcome: record.Invalid, Bottleneck: record.Failures,
		Because: fmt.Sprintf("%s of %s requests failed (%s): the rate includes failures", unit.Percent(share), plain(all),
			strings.Join(parts, ", ")),
		Evidence: []record.Evidence{record.NewEvidence("failed_requests", 100*share, "%", "%s of the requests failed", unit.Percent(share))},
		Next:     "find the cause in the server's log, then rerun"}
}

func (f *pointFacts) verdictAskedRate() record.Verdict {
	return record.Verdict{
		Outcome: record.Valid, Bottleneck: record.TargetRate,
		Because: fmt.Sprintf("%s were asked and %s came: no bottleneck was reached", unit.FormatRate(f.p.TargetRPS.Value), unit.FormatRate(f.p.RPS.Value)),
		Next:    "ask for more",
	}
}

func (f *pointFacts) verdictBandwidth() record.Verdict {
	v := record.Verdict{
		Outcome: record.Valid, Bottleneck: record.Bandwidth,
		Because: fmt.Sprintf("the link is full: at least %s of %s (%s Gbit/s), %s", megabytes(f.link.used.Value),
			megabytes(f.link.capacity.Value),
			plain(f.p.NICGbps.Value), unit.Percent(f.link.share())),
		Evidence: f.link.evidence(),
		Next:     "make the responses smaller, or give the link more",
	}
	switch {
	case !f.generator.known():
		v.Caveats = append(v.Caveats, "the generator was not measured (client_cpu_pct is missing): how near it is to its own limit is unknown")
	case f.generator.full():
		v.Caveats = append(v.Caveats, fmt.Sprintf("the generator is full too, at %s of what it can use: a faster link alone helps little",
			unit.Percent(f.generator.use())))
	}
	return v
}

func (f *pointFacts) verdictGenerator() record.Verdict {
	g := &f.generator
	v := record.Verdict{
		Outcome: record.Invalid, Bottleneck: record.LoadGenerator,
		Because: fmt.Sprintf("the generator is full: it used %s of the CPU it can use; this number describes the generator, not the server",
			unit.Percent(g.use())),
		Evidence: g.evidence(),
		Next:     "load from more machines, or with a generator that uses less CPU/request",
	}
	if f.server.known() {
		v.Evidence = append(v.Evidence, f.server.evidence())
	}
	v.Evidence = append(v.Evidence, f.link.evidence()...)
	if !f.link.known() {
		for _, m := range f.link.lacks() {
			v.Caveats = append(v.Caveats, m.says)
		}
	}
	if f.server.full() {
		v.Caveats = append(v.Caveats, fmt.Sprintf("the server is full too, at %s: on one host they share the same CPU",
			unit.Percent(f.server.use())))
	}
	if g.use() < verdict.GeneratorFull {
		v.Caveats = append(v.Caveats, fmt.Sprintf("%s is the mean of a host: whether its threads were full is not stated", unit.Percent(g.use())))
	}
	v.NextBottleneck = f.nextWall()
	return v
}

func (f *pointFacts) verdictServerCPU() record.Verdict {
	v := record.Verdict{
		Outcome: record.Valid, Bottleneck: record.ServerCPU,
		Because: fmt.Sprintf("the server's CPU is full, %s of %s busy, while the generator used %s of what it can and the link is at %s",
			unit.Percent(f.server.use()), f.server.all(), unit.Percent(f.generator.use()), f.link.shareSays()),
		Evidence: append([]record.Evidence{f.server.evidence()}, append(f.generator.evidence(), f.link.evidence()...)...),
		Next:     "make the handler cheaper, or give the server more CPU",
	}
	if f.server.use() < verdict.GeneratorFull {
		v.Caveats = append(v.Caveats, fmt.Sprintf("%s is the mean of a host: how the rest spreads over its CPUs is not stated",
			unit.Percent(f.server.use())))
	}
	v.NextBottleneck = f.nextWall()
	return v
}

// nextWall is the nearest of the resources that were measured and are not
// full, if each grows with the rate.
func (f *pointFacts) nextWall() *record.NextBottleneck {
	var wall *record.NextBottleneck
	offer := func(name record.Bottleneck, what string, share float64) {
		if share <= 0 || share >= pointFull {
			return
		}
		if times := 1 / share; wall == nil || times < wall.Times {
			wall = &record.NextBottleneck{Bottleneck: name, Times: times, Says: fmt.Sprintf("%s, at about %.1f× this rate", what, times)}
		}
	}
	if f.generator.known() && len(f.generator.capacityLacks) == 0 {
		offer(record.LoadGenerator, "generator", f.generator.high/f.generator.capacity)
	}
	if f.server.known() && f.server.refused == "" {
		offer(record.ServerCPU, "server CPU", f.server.use())
	}
	if f.link.known() {
		offer(record.Bandwidth, "bandwidth", f.link.share())
	}
	return wall
}

// verdictUndetermined names what is missing, the generator first: without it
// nothing can be said of the server.
func (f *pointFacts) verdictUndetermined() (record.Verdict, []string) {
	var keys, says []string
	for _, m := range f.lacks() {
		keys = append(keys, m.keys...)
		says = append(says, m.says)
	}
	v := record.Verdict{Outcome: record.Valid, Bottleneck: record.Inconclusive}
	v.Evidence = append(v.Evidence, f.generator.evidence()...)
	if f.server.known() {
		v.Evidence = append(v.Evidence, f.server.evidence())
	}
	v.Evidence = append(v.Evidence, f.link.evidence()...)
	if len(says) == 0 {
		says = []string{fmt.Sprintf("no measured resource is full: generator %s, server's CPU %s, link %s; requests wait where these figures do not look (one thread, a lock, a pool, the path), or there are too few of them",
			unit.Percent(f.generator.use()), unit.Percent(f.server.use()), f.link.shareSays())}
	}
	v.Because = "inconclusive: " + strings.Join(says, "; ")
	v.Next = f.nextMeasurement()
	return v, keys
}

func (f *pointFacts) nextMeasurement() string {
	switch {
	case !f.generator.known():
		return "rerun and record the CPU of the generator's host, every category, beside the server's (mpstat -P ALL 1 on both)"
	case !f.server.known() || f.server.refused != "":
		return "rerun and record the CPU of the server's host, every category (mpstat -P ALL 1)"
	case len(f.generator.capacityLacks) > 0:
		return "state how many threads the generator ran on how many CPUs"
	case !f.link.free() && !f.link.known():
		return "state the link's speed and the bytes of a response"
	}
	return "watch threads and sockets on both ends during the run"
}

// loadEvidence is what the load itself tells.
func (f *pointFacts) loadEvidence() []record.Evidence {
	p := &f.p
	latency, key := p.LatencyAvgMs, "latency_avg_ms"
	if !latency.Known || f.tool.corrected && p.P50Ms.Known {
		latency, key = p.P50Ms, "p50_ms"
	}
	if !p.RPS.Known || !latency.Known || latency.Value == 0 || f.little.void != "" || f.tool.corrected && key == "latency_avg_ms" {
		return nil
	}
	inFlight := p.RPS.Value * latency.Value / 1000
	text := fmt.Sprintf("%s × %s are about %.3g requests in flight", unit.FormatRate(p.RPS.Value), ms(latency.Value), inFlight)
	if inFlight >= 1000 {
		text = fmt.Sprintf("%s × %s are about %s requests in flight", unit.FormatRate(p.RPS.Value), ms(latency.Value), plain(math.Round(inFlight)))
	}
	if least, _, ok := f.slots(); ok && !f.open() {
		text += fmt.Sprintf(" of %s slots", plain(least))
	}
	list := []record.Evidence{record.NewEvidence(key, inFlight, "requests", "%s", text)}
	if f.open() && !f.metSchedule() && p.VCPUs.Known && inFlight < p.VCPUs.Value {
		list[0].Says += fmt.Sprintf(": fewer than the server has CPUs (%s), so it delayed no request while the schedule was missed; the figures point to the generator, without proof", plain(p.VCPUs.Value))
	}
	return list
}
