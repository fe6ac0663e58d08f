package verdict

import (
	"fmt"

	"ceiling/internal/unit"
	"ceiling/record"
)

// ruleSlots asks whether the loop itself is the limit: every resource has room,
// no request waits for another, and there are too few of them under way.
func ruleSlots(f *facts) finding {
	out := finding{bottleneck: record.Concurrency}
	if f.open && !f.starvedOfSlots() {
		return out
	}
	free, missing := f.generatorFree()
	if missing != nil {
		out.answer, out.missing = cannotTell, missing
		return out
	}
	idle, missing := f.serverIdle()
	if missing != nil {
		out.answer, out.missing = cannotTell, missing
		return out
	}
	if !free || !idle || f.waiting() == queued && !f.lone.lined {
		return out
	}
	p := &f.places
	itsTime := f.waiting() == alone
	if f.queuesUnread() || f.pathQueues() || !itsTime && (f.waitsFor() != nil || f.poolBefore() != nil) {
		return out
	}
	slow := p.known && p.both && f.tripShare() >= mostOf
	if !itsTime && !f.fewSlots() && !slow {
		return out // serverwait.go says what is missing
	}
	mean := f.run.Latency.Response.MeanNs
	out.answer = yes
	out.pro = append(f.cpuEvidence(), f.generatorEvidence()...)
	out.pro = append(out.pro, record.NewEvidence("latency.response.mean_ns", mean, "ns", "%s, each busy for %s per request",
		unit.Plural(int(f.slots), "slot", "slots"), ns(mean)))
	out.pro = append(out.pro, f.turnEvidence()...)
	out.pro = append(out.pro, f.placeEvidence(wayIn, serverQueue, inServer, wayBack)...)
	out.because = fmt.Sprintf("concurrency: %s × %s = %s; no resource is saturated",
		unit.Plural(int(f.slots), "request in flight", "requests in flight"), ns(mean), unit.FormatRate(f.rate))
	if slow {
		out.because += fmt.Sprintf("; %s of the time is the network (round trip %s)", unit.Percent(f.tripShare()), ns(p.rtt.value))
		out.pro = append(out.pro, f.tripEvidence()...)
	}
	switch {
	case f.lone.lined:
		out.because = fmt.Sprintf("concurrency: the server answers one request at a time on each of %d connections: pipelined ones wait for those before them; no resource is saturated", f.run.Load.Established)
		out.caveats = append(out.caveats, "inferred from requests sent alone: confirm with twice the connections")
	case f.lone.is == alone && f.slots > 1:
		out.because += ", and " + f.lone.asLong(f)
		out.caveats = append(out.caveats, "inferred from requests sent alone, which took as long as those under load: confirm with twice the connections")
	case f.startupQueue.is == alone && itsTime && f.slots > 1:
		out.caveats = append(out.caveats, "inferred from the first responses, which took as long as later ones: confirm with twice the connections")
	case !slow && f.slots > 1:
		out.caveats = append(out.caveats, "that no request waits for another is inferred from how few they are: confirm with twice the connections")
	}
	out.next = fmt.Sprintf("raise the concurrency: -c %d", 2*f.run.Load.Connections)
	return out
}

// starvedOfSlots tells whether an open loop fell behind with every slot taken.
func (f *facts) starvedOfSlots() bool {
	s := &f.schedule
	return s.missed > unsentShare && s.slotsUsed.known && s.slotsUsed.value >= slotsUsedShare
}

// startupEvidence is what the first answers tell.
func (f *facts) startupEvidence() record.Evidence {
	c := &f.startupQueue
	mean := c.lasting
	if c.is == queued && c.firstN == 1 {
		return record.NewEvidence("latency.response.min_ns", c.first, "ns",
			"the fastest answer took %s, all of them %s on average, nearly alike: they queue", ns(c.first), ns(f.run.Latency.Response.MeanNs))
	}
	if c.is == queued {
		return record.NewEvidence("series.load.mean_ns", c.first, "ns", "the first %.0f answers took %s on average, later ones %s: they queue", c.firstN,
			ns(c.first), ns(mean))
	}
	return record.NewEvidence("series.load.mean_ns", c.first, "ns",
		"the first %.0f answers took %s on average, like the later ones (%s): they do not queue", c.firstN, ns(c.first), ns(mean))
}
