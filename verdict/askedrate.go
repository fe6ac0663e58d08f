package verdict

import (
	"fmt"

	"ceiling/internal/unit"
	"ceiling/record"
)

// ruleAskedRate asks whether an open loop simply got what it asked for: then
// no bottleneck was reached.
func ruleAskedRate(f *facts) finding {
	out := finding{bottleneck: record.TargetRate}
	if !f.open {
		return out
	}
	s := &f.schedule
	asked := positive(f.run.Load.TargetPerS)
	out.pro = []record.Evidence{
		record.NewEvidence("load.target_per_s", asked, "1/s", "asked %s", unit.FormatRate(asked)),
		record.NewEvidence("requests.unsent", s.missed, "share", "%s of the requests due were missing or late when the window closed",
			unit.Percent(s.missed)),
	}
	if asked == 0 || s.missed > unsentShare {
		return out
	}
	if s.owed.known && s.owed.value > owedShare {
		out.against = append(out.against, record.NewEvidence("series.load.in_flight", s.owed.value, "share",
			"%s of the requests due were still waiting when the window closed: the queue grew", unit.Percent(s.owed.value)))
		return out
	}
	out.answer = yes
	out.because = fmt.Sprintf("the target rate of %s was sent and answered: no bottleneck was reached", unit.FormatRate(asked))
	if lost := f.lostPart(); lost > 0 {
		out.because = fmt.Sprintf("of the target rate of %s, %s was lost with its agents; the rest was sent and answered: no bottleneck was reached", unit.FormatRate(asked), unit.Percent(lost))
	}
	out.next = fmt.Sprintf("raise the rate (-R %.0f)", 2*asked)
	return out
}
