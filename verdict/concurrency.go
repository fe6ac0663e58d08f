package verdict

import "ceiling/record"

// ruleConcurrency asks whether the loop itself is the limit: every resource has headroom, no request
// waits for another, and too few are in flight.
func ruleConcurrency(f *facts) finding {
	out := finding{bottleneck: record.Concurrency}
	if f.base.open && !f.base.starvedOfSlots() {
		return out
	}
	free, missing := f.generatorFree()
	if missing != nil {
		out.answer, out.missing = unknown, missing
		return out
	}
	idle, missing := f.cpu.serverIdle()
	if missing != nil {
		out.answer, out.missing = unknown, missing
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
	if !itsTime && !f.cpu.fewSlots() && !slow {
		return out // serverwait.go says what is missing
	}
	mean := f.base.run.Latency.Response.MeanNs
	out.answer = matched
	out.pro = append(f.cpu.server.cpuEvidence(), f.generatorEvidence()...)
	out.pro = append(out.pro, record.NewEvidence("latency.response.mean_ns", mean, "ns",
		say("slots.busy", with{"slots": f.base.slots, "mean_ns": mean})))
	out.pro = append(out.pro, f.turnEvidence()...)
	out.pro = append(out.pro, f.placeEvidence(toServer, serverQueue, inServer, toClient)...)
	var network, lone record.Statement
	if slow {
		network = say("slots.network", with{"share": f.tripShare(), "rtt_ns": p.rtt.value})
		out.pro = append(out.pro, f.tripEvidence()...)
	}
	switch {
	case f.lone.lined:
		out.caveats = append(out.caveats, say("slots.inferred.pipelined", nil))
	case f.lone.is == alone && f.base.slots > 1:
		lone = f.lone.asLong(f.base)
		out.caveats = append(out.caveats, say("slots.inferred.lone", nil))
	case f.time.startupQueue.is == alone && itsTime && f.base.slots > 1:
		out.caveats = append(out.caveats, say("slots.inferred.first", nil))
	case !slow && f.base.slots > 1:
		out.caveats = append(out.caveats, say("slots.inferred.few", nil))
	}
	out.because = just("slots.few", with{"slots": f.base.slots, "mean_ns": mean, "per_s": f.base.rate, "network": network, "lone": lone})
	if f.lone.lined {
		out.because = just("slots.pipelined", with{"connections": f.base.run.Load.Established})
	}
	out.next = just("slots.next", f.base.more())
	return out
}

// starvedOfSlots reports whether an open loop fell behind with every slot taken.
func (f *runFacts) starvedOfSlots() bool {
	s := &f.schedule
	return s.missed > unsentShare && s.slotsUsed.known && s.slotsUsed.value >= slotsUsedShare
}

// startupEvidence returns what the first responses show.
func (f *timeFacts) startupEvidence() record.Evidence {
	c := &f.startupQueue
	switch {
	case c.is == queued && c.firstN == 1:
		return record.NewEvidence("latency.response.min_ns", c.first, "ns",
			say("startup.fastest", with{"first_ns": c.first, "mean_ns": f.base.run.Latency.Response.MeanNs}))
	case c.is == queued:
		return record.NewEvidence("series.load.mean_ns", c.first, "ns",
			say("startup.queue", with{"answers": c.firstN, "first_ns": c.first, "later_ns": c.lasting}))
	}
	return record.NewEvidence("series.load.mean_ns", c.first, "ns",
		say("startup.no-queue", with{"answers": c.firstN, "first_ns": c.first, "later_ns": c.lasting}))
}
