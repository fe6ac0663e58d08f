package verdict

import (
	"slices"

	"ceiling/record"
)

// ruling is the outcome of applying all rules to a run.
type ruling struct {
	found finding   // the answer
	all   []finding // one finding per rule, for the next bottleneck
	at    int       // the rule that decided, -1 for none
}

// arbitrate returns the first rule that holds.
func arbitrate(f *facts) ruling {
	r := ruling{at: -1}
	var missing, next []record.Statement
	for i, rule := range rules() {
		found := rule.judge(f)
		r.all = append(r.all, found)
		switch {
		case found.answer == matched && r.at < 0:
			r.at = i
		case found.answer == unknown:
			missing = addNew(missing, found.missing)
			if found.bottleneck == record.ServerBlocked && f.cpu.generator.self.busy.known && f.cpu.server.subject.known {
				next = found.next
			}
		}
	}
	if r.at < 0 {
		r.found = undetermined(f.cpu, r.all, missing, next)
		return r
	}
	r.found = r.all[r.at]
	if why := r.contradicted(f); why.Code != "" {
		r.found, r.at = undetermined(f.cpu, r.all, append(missing, why), next), -1
		return r
	}
	r.qualify(f)
	return r
}

// contradicted returns what speaks against a rule that named the server. A server, or a thread of
// it, that fills its allowed CPU while the generator is not full is the bottleneck wherever the
// responses were seen: a socket sample depends on who ran just before. Only what is inferred from
// the sockets falls with them.
func (r *ruling) contradicted(f *facts) record.Statement {
	at := &f.places
	if !serverOnly(r.found.bottleneck) || !at.known || !at.both || at.share[generatorQueue] <= mostOf {
		return record.Statement{}
	}
	if !f.cpu.together && r.found.bottleneck == record.ServerBlocked {
		return say("verdict.contradicted", with{"unread": at.share[generatorQueue], "found": r.found.because})
	}
	r.found.against = append(r.found.against, f.placeEvidence(generatorQueue)...)
	return record.Statement{}
}

// qualify adds what else is near its limit.
func (r *ruling) qualify(f *facts) {
	found := &r.found
	busy, times := f.cpu.generator.self.busy, f.base.run.Headroom()
	switch {
	case !serverOnly(found.bottleneck):
	case busy.known && busy.value >= generatorNear:
		found.caveats = append(found.caveats, say("caveat.generator-near", with{"who": f.worst().cpu.generator.who(), "busy": busy.value}))
	case times > 0 && times <= 1/generatorNear:
		found.caveats = append(found.caveats, say("caveat.headroom", with{"who": f.worst().cpu.generator.who(), "times": times}))
	}
	if found.bottleneck == record.TargetRate || found.alone {
		return // nothing was at its limit, or no figure counts
	}
	for _, other := range r.all[r.at+1:] {
		if other.answer == matched && !sameThing(found.bottleneck, other.bottleneck) {
			found.caveats = append(found.caveats, say("caveat.other-bottleneck", with{"bottleneck": other.bottleneck, "found": other.because}))
			return
		}
	}
}

// experiment says what to try if no bottleneck was found.
func (f *cpuFacts) experiment() record.Statement {
	switch {
	case f.together:
		return f.separate()
	case len(f.base.run.Agents) > 0:
		return say("inconclusive.next.longer-agents", nil)
	}
	return say("inconclusive.next.longer", nil)
}

// sameThing reports whether two bottlenecks are two views of one: a full worker is a full thread,
// and a server limited to one core has one full thread.
func sameThing(a, b record.Bottleneck) bool {
	of := []record.Bottleneck{record.Uneven, record.ServerThread, record.ServerCPU}
	return a == b || slices.Contains(of, a) && slices.Contains(of, b)
}

// serverOnly reports whether a bottleneck is the server's alone.
func serverOnly(bottleneck record.Bottleneck) bool {
	return slices.Contains([]record.Bottleneck{record.ServerCPU, record.ServerThread, record.ServerBlocked, record.Uneven},
		bottleneck)
}

// undetermined says what is missing, or that nothing is near its limit, and shows what was
// observed.
func undetermined(f *cpuFacts, all []finding, missing, next []record.Statement) finding {
	out := finding{bottleneck: record.Inconclusive, answer: unknown, missing: missing, next: next,
		because: just("inconclusive", with{"missing": missing})}
	for _, found := range all {
		for _, e := range slices.Concat(found.pro, found.against) {
			if !slices.ContainsFunc(out.pro, func(have record.Evidence) bool { return have.Says.Same(e.Says) }) {
				out.pro = append(out.pro, e)
			}
		}
	}
	switch {
	case out.next != nil:
	case !f.generator.self.busy.known && len(f.generator.agents) > 0:
		out.next = just("inconclusive.next.agents-cpu", nil)
	case !f.generator.self.busy.known:
		out.next = just("inconclusive.next.generator-cpu", nil)
	case !f.server.subject.known && slices.ContainsFunc(missing, func(s record.Statement) bool { return s.Code == "missing.too-short" }):
		out.next = just("missing.too-short.next", with{"command": f.base.again("run", "-d", "10s")})
	case !f.server.subject.known:
		out.next = just("inconclusive.next.watch-server", with{"agents": len(f.base.run.Agents) > 0})
	default:
		out.next = []record.Statement{f.experiment()}
	}
	return out
}

// addNew appends the statements that the list does not have yet.
func addNew(list, more []record.Statement) []record.Statement {
	for _, s := range more {
		if !slices.ContainsFunc(list, s.Same) {
			list = append(list, s)
		}
	}
	return list
}
