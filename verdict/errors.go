package verdict

import (
	"fmt"

	"ceiling/record"
)

// ruleErrors asks whether the rate counts answers that are not what was asked:
// a server that refuses a tenth of its work has another ceiling than one that
// does it.
func ruleErrors(f *facts) finding {
	out := finding{ceiling: Errors}
	if !f.errorShare.known {
		return out
	}
	share := f.errorShare.value
	if share == 0 {
		return out
	}
	out.pro = []record.Evidence{evidence("errors", share, "share", "%s of the requests were not answered as asked%s", percent(share), causesOf(f.run))}
	if f.bad > 0 {
		out.pro = append(out.pro, evidence("statuses", f.bad, "requests", "%s answers had a status of 400 or more", count(uint64(f.bad))))
	}
	if share < errorsMatter {
		return out
	}
	out.answer = yes
	out.because = fmt.Sprintf("%s of the requests were not answered as asked: the rate is not that of the work", percent(share))
	out.next = "find out why the server fails them (its log, and the causes above), then measure again"
	if f.timeouts > 0 && f.timeouts*2 >= share*(float64(f.run.Requests.Completed)+float64(f.run.Requests.Failed)+f.connects) {
		out.next = "the server takes longer than --timeout: ask for less at once (-c, -R) or raise --timeout"
	}
	return out
}
