package verdict

import (
	"ceiling/experiment/spec"
	"ceiling/record"
)

// ruleSubscribers asks whether the server has no CPU left for sending its events: one event to n
// subscribers is n sends, so the CPU needed is events/s × subscribers × cost.
func ruleSubscribers(f *facts) finding {
	out := finding{bottleneck: record.Subscribers}
	if f.base.run.Spec.Kind != spec.Events {
		return out
	}
	for _, full := range []finding{ruleServerThread(f), ruleServerCPU(f)} {
		if full.answer != matched {
			continue
		}
		out = full
		out.bottleneck, out.times = record.Subscribers, 0
		out.because = just("subscribers", with{"subscribers": f.base.run.Load.Established, "per_s": f.base.run.PublishedPerS(), "sends_per_s": f.base.rate,
			"cpu_ns": f.cpu.server.subject.cores / max(f.base.rate, 1e-9) * 1e9, "found": full.because})
		out.next = just("subscribers.next", with{"next": full.next})
		return out
	}
	return out
}

// rulePublisher asks whether the server simply published no more: every subscriber got
// everything, and neither end was near a limit.
func rulePublisher(f *facts) finding {
	out := finding{bottleneck: record.TargetRate}
	s := f.base.run.Load.Streams
	if f.base.run.Spec.Kind != spec.Events || s == nil || s.Numbered == 0 || f.base.run.Requests.Failed > 0 {
		return out
	}
	free, missing := f.generatorFree()
	if missing == nil && free {
		free, missing = f.cpu.serverIdle()
	}
	if missing != nil {
		out.answer, out.missing = unknown, missing
		return out
	}
	if !free {
		return out
	}
	out.answer = matched
	out.pro = append(f.cpu.server.cpuEvidence(), f.generatorEvidence()...)
	out.because = just("publisher", with{"subscribers": f.base.run.Load.Established, "per_s": f.base.run.PublishedPerS()})
	out.next = just("publisher.next", with{"connections": 2 * f.base.run.Load.Connections})
	return out
}

// inUnit sets the unit of the run on all statements if that is not requests: the sentences are
// the same for all kinds of load.
func inUnit(v *record.Verdict, kind spec.LoadKind) {
	if kind == spec.Requests {
		return
	}
	mark := func(list []record.Statement) {
		for i := range list {
			own := with{"counted": kind.Many()}
			for name, value := range list[i].With {
				own[name] = value
			}
			list[i].With = own
		}
	}
	for _, list := range [][]record.Statement{v.Because, v.Missing, v.Caveats, v.Next} {
		mark(list)
	}
	for _, list := range [][]record.Evidence{v.Evidence, v.Against} {
		for i := range list {
			one := []record.Statement{list[i].Says}
			mark(one)
			list[i].Says = one[0]
		}
	}
	if n := v.NextBottleneck; n != nil {
		one := []record.Statement{n.Says}
		mark(one)
		n.Says = one[0]
	}
}
