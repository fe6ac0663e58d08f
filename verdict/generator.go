package verdict

import (
	"slices"

	"ceiling/record"
)

// ruleGenerator asks whether the generator is the bottleneck: a worker that always has something
// to do sends no faster for a faster server.
func ruleGenerator(f *facts) finding {
	if len(f.cpu.generator.agents) > 0 {
		return f.fullAgent()
	}
	g := &f.cpu.generator.self
	out := finding{bottleneck: record.LoadGenerator, next: generatorNext(f.cpu.generator)}
	if !g.busy.known {
		out.answer = unknown
		out.missing = []record.Statement{f.cpu.generator.cpuNotRecorded()}
		return out
	}
	out.pro = f.generatorEvidence()
	out.times, out.nearly = g.room()
	if !g.full() && !f.answersLie() && !f.cpu.generatorStarved() && !f.aloneNearFull() {
		return out
	}
	if f.cpu.fightForCores() {
		out.against = f.cpu.server.cpuEvidence() // it lacks CPU because the server uses it
		return out
	}
	if part := f.cpu.generatorPart(); f.cpu.together && f.cpu.serverFull() && part.known && part.value <= 1-serversPart &&
		g.busy.value < generatorFull {
		out.against = f.cpu.server.cpuEvidence()
		return out
	}
	if p := &f.places; p.known && p.both && p.share[serverQueue] >= mostOf && p.share[generatorQueue] < starvedQueue/4 {
		out.against = append(out.against, f.placeEvidence(serverQueue, generatorQueue)...)
	}
	out.answer = matched
	out.because = just("generator.full", with{"who": f.cpu.generator.who(), "busy": g.busy.value})
	switch {
	case g.full() && g.busy.value >= generatorFull:
	case g.full() || f.cpu.generatorStarved():
		out.next, out.pro = []record.Statement{f.cpu.starvedNext()}, append(out.pro, f.cpu.generator.homeEvidence()...)
		out.because = just("generator.starved", with{"who": f.cpu.generator.who(), "busy": g.busy.value, "delayed": g.delay.value})
	case f.aloneNearFull():
		out.because = just("generator.full-alone", with{"who": f.cpu.generator.who(), "wanting": g.wanting.value})
	default:
		out.next = []record.Statement{f.cpu.starvedNext()}
		out.pro = append(append(out.pro, f.placeEvidence(generatorQueue)...), f.cpu.generator.homeEvidence()...)
		out.because = just("generator.starved-unread", with{"who": f.cpu.generator.who(), "delayed": g.delay.value, "unread": f.places.share[generatorQueue]})
	}
	return out
}

// answersLie reports whether responses queue at a generator that cannot read them because it gets
// no CPU: it is the queue, though never quite full.
func (f *facts) answersLie() bool {
	g, p := &f.cpu.generator.self, &f.places
	return g.delay.known && g.delay.value >= starvedDelay && p.known &&
		p.share[generatorQueue] >= starvedQueue && p.share[generatorQueue] >= 2*p.share[serverQueue]
}

// fullAgent asks each of several agents, the one nearest to its limit first. A full agent holds
// back what it loads, and so the overall rate: the finding names it and all other full ones.
func (f *facts) fullAgent() finding {
	worst := f.worst()
	out := finding{bottleneck: record.LoadGenerator, next: generatorNext(worst.cpu.generator)}
	rest := slices.DeleteFunc(slices.Clone(f.cpu.generator.agents), func(v *facts) bool { return v == worst })
	for _, v := range append([]*facts{worst}, rest...) {
		one := ruleGenerator(v)
		switch one.answer {
		case unknown:
			out.missing = append(out.missing, one.missing...)
		case matched:
			if out.answer != matched {
				out.answer, out.because, out.next = matched, one.because, one.next
			}
			out.pro = append(append(out.pro, one.pro...), v.cpu.generator.partEvidence(f.cpu.generator))
		}
		out.against = append(out.against, one.against...)
		if one.times > 0 && (out.times == 0 || one.times < out.times) {
			out.times, out.nearly = one.times, say("generator.agent-near", with{"who": v.cpu.generator.who(), "nearly": one.nearly})
		}
	}
	if out.answer != matched {
		out.pro = f.generatorEvidence()
		if len(out.missing) > 0 {
			out.answer = unknown
		}
	}
	return out
}

// partEvidence returns an agent's part of the overall rate.
func (f *generatorSide) partEvidence(whole *generatorSide) record.Evidence {
	return record.NewEvidence(f.at("rate.completed_per_s"), f.base.rate, "1/s",
		say("agent.part", with{"who": f.who(), "per_s": f.base.rate, "of_per_s": whole.base.rate, "slots": f.base.slots, "of_slots": whole.base.slots}))
}

// generatorEvidence returns how busy the generator is; of several agents, the one nearest to its
// limit.
func (f *facts) generatorEvidence() []record.Evidence {
	if len(f.cpu.generator.agents) > 0 {
		return f.worst().generatorEvidence()
	}
	g := &f.cpu.generator.self
	if !g.busy.known {
		return nil
	}
	list := []record.Evidence{record.NewEvidence(f.cpu.generator.at(g.where), g.busy.value, "share",
		say("generator.busy", with{"who": f.cpu.generator.who(), "busy": g.busy.value}))}
	if g.delay.known && g.delay.value >= delayWorthSaying {
		list = append(list, record.NewEvidence(f.cpu.generator.at("generator.run_delay"), g.delay.value, "share",
			say("generator.delayed", with{"agent": f.cpu.generator.agent, "delayed": g.delay.value})))
	}
	if times := f.base.run.Headroom(); times > 0 {
		list = append(list, record.NewEvidence(f.cpu.generator.at("generator.headroom"), times, "ratio",
			say("generator.headroom", with{"agent": f.cpu.generator.agent, "times": times})))
	}
	return append(list, f.base.handshakeEvidence()...)
}

// room returns how many times this rate the generator could make: as calibrated, and no more than
// its own use of the CPU leaves.
func (g *generatorFacts) room() (times float64, nearly record.Statement) {
	byUse := g.byUse
	if byUse == 0 && g.busy.known { // seen by an observer
		byUse = 1 / g.busy.value
	}
	switch {
	case g.headroom.known && (byUse == 0 || g.headroom.value <= byUse):
		return max(g.headroom.value, 1), say("generator.calibrated", nil)
	case g.busy.known && byUse >= 1/g.busy.value:
		return max(1/g.busy.value, 1), say("generator.worker-busy", with{"busy": g.busy.value})
	case byUse > 0:
		return max(byUse, 1), say("generator.cores-busy", with{"used": g.mayUse / byUse, "cores": g.mayUse})
	}
	return 0, record.Statement{}
}

// starvedNext says what to do for a generator that gets too little CPU.
func (f *cpuFacts) starvedNext() record.Statement {
	switch {
	case f.generator.agent != "":
		return say("generator.starved.next.agent", with{"agent": f.generator.agent})
	case f.together:
		return say("generator.starved.next.separate", with{"separate": f.separate()})
	case len(f.generator.atHomeToo) > 0:
		return say("generator.starved.next.stop", with{"process": f.generator.atHomeToo[0].comm})
	}
	return say("generator.starved.next", nil)
}

// homeEvidence returns who else used CPU on the generator's host.
func (f *generatorSide) homeEvidence() []record.Evidence {
	if len(f.atHomeToo) == 0 {
		return nil
	}
	return []record.Evidence{record.NewEvidence(f.at("series.neighbours"), f.atHomeToo[0].cores, "cores",
		say("neighbours.generator-host", with{"who": whoElse(f.atHomeToo)}))}
}

func generatorNext(f *generatorSide) []record.Statement {
	cores := f.base.run.Environment.CoresAllowed
	if a := f.base.run.Agent(f.homeHost); a != nil {
		cores = a.Environment.CoresAllowed
	}
	threads := f.base.run.Load.Threads
	switch {
	case cores > 1 && threads > 0 && threads < cores:
		return just("generator.next.threads", with{"threads": min(2*threads, cores), "agent": f.agent})
	case f.base.run.Load.Pipelining <= 1 && !f.base.open:
		return just("generator.next.pipelining", with{"agent": f.agent})
	}
	return just("generator.next", with{"agent": f.agent})
}

// handshakeEvidence returns what TLS handshakes cost the generator, if that matters.
func (f *runFacts) handshakeEvidence() []record.Evidence {
	t, g := f.run.Load.TLS, &f.run.Generator
	cpuNs := positive(float64(g.UserNs + g.SystemNs))
	if t == nil || t.Count() == 0 || cpuNs == 0 {
		return nil
	}
	share := positive(float64(t.CPUNs)) / cpuNs
	if share < handshakesMatter || share > 1 {
		return nil
	}
	return []record.Evidence{record.NewEvidence("load.tls.handshake_cpu_ns", share, "share",
		say("generator.handshakes", with{"share": share, "each_ns": float64(t.CPUNs) / float64(t.Count())}))}
}
