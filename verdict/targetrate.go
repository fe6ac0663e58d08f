package verdict

import (
	"math"
	"strconv"

	"ceiling/experiment/spec"
	"ceiling/record"
)

// ruleTargetRate asks whether an open loop reached its target rate: then it hit no bottleneck.
func ruleTargetRate(f *runFacts) finding {
	out := finding{bottleneck: record.TargetRate}
	if !f.open {
		return out
	}
	s := &f.schedule
	asked := positive(f.run.Load.TargetPerS)
	out.pro = []record.Evidence{
		record.NewEvidence("load.target_per_s", asked, "1/s", say("rate.asked", with{"per_s": asked})),
		record.NewEvidence("requests.unsent", s.missed, "share", say("rate.missed", with{"share": s.missed})),
	}
	if asked == 0 || s.missed > unsentShare {
		return out
	}
	if s.owed.known && s.owed.value > backlogMax {
		out.against = append(out.against, record.NewEvidence("series.load.in_flight", s.owed.value, "share",
			say("rate.waiting", with{"share": s.owed.value})))
		return out
	}
	out.answer = matched
	out.because = just("rate.answered", with{"per_s": asked, "lost": f.lostPart()})
	values := with{"per_s": 2 * asked, "logged": f.run.Spec.Arrivals == spec.Logged}
	if f.run.Spec.Arrivals != spec.Logged {
		values["command"] = f.again("run", "-R", strconv.FormatFloat(math.Ceil(2*asked), 'f', 0, 64))
	}
	out.next = just("rate.answered.next", values)
	return out
}
