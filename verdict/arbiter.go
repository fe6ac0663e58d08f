package verdict

import (
	"fmt"
	"slices"
	"strings"

	"ceiling/internal/unit"
	"ceiling/record"
)

// rules in the order in which they are believed: first what makes the rate
// something else than the work that was asked for, then what is measured
// against a known capacity, then what is concluded from where requests wait.
// The generator comes before everything that could be called the server.
func rules() []func(*facts) finding {
	return []func(*facts) finding{
		ruleAcceptQueue, ruleErrors, ruleAskedRate,
		ruleGenerator, ruleStandstill, ruleDelayedAck, ruleBandwidth, rulePackets,
		ruleUneven, ruleServerThread, ruleBehind, ruleServerCPU, ruleSharedCPU, ruleNeighbours,
		rulePath, ruleOwnDisk, ruleServerWait, ruleSlots,
	}
}

// arbitrate answers the first rule that holds, and every rule's finding for the
// next wall.
func arbitrate(f *facts) (ceiling finding, all []finding) {
	var missing []string
	next, at := "", -1
	for _, rule := range rules() {
		found := rule(f)
		all = append(all, found)
		switch {
		case found.answer == yes && at < 0:
			at = len(all) - 1
		case found.answer == cannotTell:
			for _, m := range found.missing {
				if !slices.Contains(missing, m) {
					missing = append(missing, m)
				}
			}
			if found.ceiling == ServerWait && f.generator.busy.known {
				next = found.next
			}
		}
	}
	if at < 0 {
		return undetermined(f, all, missing, next), all
	}
	ceiling = all[at]
	if at := &f.places; serverOnly(ceiling.ceiling) && at.known && at.both && at.share[generatorQueue] > mostOf {
		// A server, or a thread of it, that fills the CPU it may use before a
		// generator that is not full is the ceiling wherever answers were seen: what
		// a sample of the sockets catches hangs on who ran just before. Only what is
		// concluded from the sockets falls with them.
		if !f.together && ceiling.ceiling == ServerWait {
			missing = append(missing, fmt.Sprintf("why %s of the answers lie unread with the generator, which looks free, while %s", unit.Percent(at.share[generatorQueue]), ceiling.because))
			return undetermined(f, all, missing, next), all
		}
		ceiling.against = append(ceiling.against, f.placeEvidence(generatorQueue)...)
	}
	if f.generator.busy.known && f.generator.busy.value >= generatorNear && serverOnly(ceiling.ceiling) {
		ceiling.doubts = append(ceiling.doubts, fmt.Sprintf("%s is nearly full too (%s): it is the next wall", f.worst().who(), unit.Percent(f.generator.busy.value)))
	}
	if ceiling.ceiling == AskedRate {
		return ceiling, all // nothing was at its limit
	}
	for i, other := range all {
		if i > at && other.answer == yes && !sameThing(ceiling.ceiling, other.ceiling) {
			ceiling.doubts = append(ceiling.doubts, "there are also signs of another ceiling: "+other.because)
			break
		}
	}
	return ceiling, all
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

// sameThing tells whether two ceilings are two views of one: a full worker is a
// full thread, and a server held to one core has one full thread.
func sameThing(a, b string) bool {
	of := []string{Uneven, ServerThread, ServerCPU}
	return a == b || slices.Contains(of, a) && slices.Contains(of, b)
}

// serverOnly tells whether a ceiling is the server's alone.
func serverOnly(ceiling string) bool {
	return slices.Contains([]string{ServerCPU, ServerThread, ServerWait, Uneven}, ceiling)
}

// undetermined says what is missing, or that nothing is near its limit, and
// shows what was seen.
func undetermined(f *facts, all []finding, missing []string, next string) finding {
	out := finding{ceiling: Undetermined, answer: cannotTell, missing: missing, next: next}
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
		out.because = "inconclusive: nothing that was watched is at its limit, and where the requests wait does not name one"
	}
	switch {
	case out.next != "":
	case !f.generator.busy.known && len(f.agents) > 0:
		out.next = "see why the CPU of every agent was not recorded, and run again"
	case !f.generator.busy.known:
		out.next = "record the generator's CPU beside the figures, or measure with ceiling run"
	case !f.subject.known:
		out.next = "run it where the server's processes can be watched: on the same host, or with the server's PID named"
	default:
		out.next = f.experiment()
	}
	return out
}
