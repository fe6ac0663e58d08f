package verdict

import (
	"fmt"
	"slices"
	"strings"

	"ceiling/internal/unit"
	"ceiling/record"
)

// ruling is what became of a run before all rules.
type ruling struct {
	found finding   // the answer
	all   []finding // one of each rule, for the next bottleneck
	at    int       // the rule that decided, -1 none
}

// arbitrate answers the first rule that holds.
func arbitrate(f *facts) ruling {
	r := ruling{at: -1}
	var missing []string
	next := ""
	for i, rule := range rules() {
		found := rule.judge(f)
		r.all = append(r.all, found)
		switch {
		case found.answer == yes && r.at < 0:
			r.at = i
		case found.answer == cannotTell:
			for _, m := range found.missing {
				if !slices.Contains(missing, m) {
					missing = append(missing, m)
				}
			}
			if found.bottleneck == record.ServerBlocked && f.generator.busy.known {
				next = found.next
			}
		}
	}
	if r.at < 0 {
		r.found = undetermined(f, r.all, missing, next)
		return r
	}
	r.found = r.all[r.at]
	if caveat := r.contradicted(f); caveat != "" {
		r.found, r.at = undetermined(f, r.all, append(missing, caveat), next), -1
		return r
	}
	r.qualify(f)
	return r
}

// contradicted is what speaks against a rule that named the server. A server, or a
// thread of it, that fills the CPU it may use before a generator that is not full is
// the bottleneck wherever answers were seen: what a sample of the sockets catches hangs
// on who ran just before. Only what is concluded from the sockets falls with them.
func (r *ruling) contradicted(f *facts) string {
	at := &f.places
	if !serverOnly(r.found.bottleneck) || !at.known || !at.both || at.share[generatorQueue] <= mostOf {
		return ""
	}
	if !f.together && r.found.bottleneck == record.ServerBlocked {
		return fmt.Sprintf("why %s of the answers lie unread with the generator, which looks free, while %s",
			unit.Percent(at.share[generatorQueue]), r.found.because)
	}
	r.found.against = append(r.found.against, f.placeEvidence(generatorQueue)...)
	return ""
}

// qualify adds what else is near its limit.
func (r *ruling) qualify(f *facts) {
	found := &r.found
	if f.generator.busy.known && f.generator.busy.value >= generatorNear && serverOnly(found.bottleneck) {
		found.caveats = append(found.caveats, fmt.Sprintf("%s is nearly saturated too (%s): it is the next bottleneck", f.worst().who(),
			unit.Percent(f.generator.busy.value)))
	}
	if found.bottleneck == record.TargetRate {
		return // nothing was at its limit
	}
	for _, other := range r.all[r.at+1:] {
		if other.answer == yes && !sameThing(found.bottleneck, other.bottleneck) {
			found.caveats = append(found.caveats, "signs of another bottleneck: "+other.because)
			return
		}
	}
}

// experiment is what to do where nothing was named.
func (f *facts) experiment() string {
	switch {
	case f.together:
		return f.separate()
	case len(f.run.Agents) > 0:
		return "run it longer (-d), and with twice the connections (-c)"
	}
	return "run it longer (-d), and let ceiling prove take a share of one resource at a time"
}

// sameThing tells whether two bottlenecks are two views of one: a full worker is a
// full thread, and a server held to one core has one full thread.
func sameThing(a, b record.Bottleneck) bool {
	of := []record.Bottleneck{record.Uneven, record.ServerThread, record.ServerCPU}
	return a == b || slices.Contains(of, a) && slices.Contains(of, b)
}

// serverOnly tells whether a bottleneck is the server's alone.
func serverOnly(bottleneck record.Bottleneck) bool {
	return slices.Contains([]record.Bottleneck{record.ServerCPU, record.ServerThread, record.ServerBlocked, record.Uneven}, bottleneck)
}

// undetermined says what is missing, or that nothing is near its limit, and
// shows what was seen.
func undetermined(f *facts, all []finding, missing []string, next string) finding {
	out := finding{bottleneck: record.Inconclusive, answer: cannotTell, missing: missing, next: next}
	for _, found := range all {
		for _, e := range slices.Concat(found.pro, found.against) {
			if !slices.ContainsFunc(out.pro, func(have record.Evidence) bool { return have.Says == e.Says }) {
				out.pro = append(out.pro, e)
			}
		}
	}
	if len(missing) > 0 {
		out.because = "inconclusive: " + strings.Join(missing, "; ")
	} else {
		out.because = "inconclusive: no watched resource is saturated, and the queues point to none"
	}
	switch {
	case out.next != "":
	case !f.generator.busy.known && len(f.agents) > 0:
		out.next = "see why the CPU of every agent was not recorded, and rerun"
	case !f.generator.busy.known:
		out.next = "record the generator's CPU beside the figures, or measure with ceiling run"
	case !f.subject.known:
		out.next = "run it where the server's processes can be watched: on the same host, or with the server's PID named"
	default:
		out.next = f.experiment()
	}
	return out
}
