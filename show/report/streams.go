package report

import (
	"fmt"
	"strings"

	"ceiling/internal/unit"
	"ceiling/record"
)

// perSecond is the name of the rate, in wrk's form.
func perSecond(r *record.Run) string {
	many := r.Spec.Kind.Many()
	return strings.ToUpper(many[:1]) + many[1:] + "/sec:"
}

// streamsLine describes how the connections were opened, and what is known about the responses.
func streamsLine(r *record.Run) string {
	s := r.Load.Streams
	var parts []string
	for _, o := range []struct {
		q    *record.Quantiles
		when string
	}{{&s.Before, "before the window"}, {&s.Opened, "in the window"}} {
		if o.q.Count > 0 {
			parts = append(parts, fmt.Sprintf("%s opened %s: p50 %s, p99 %s", unit.FormatCount(int64(o.q.Count)), o.when,
				unit.FormatNs(o.q.P50Ns), unit.FormatNs(o.q.P99Ns)))
		}
	}
	if n := s.Opened.Count; n > 0 && r.ElapsedS > 0 && r.Spec.NewConnections > 0 {
		parts = append(parts, unit.FormatSI(float64(n)/r.ElapsedS)+" opened/s")
	}
	if done := r.Requests.Completed; done > 0 {
		switch s.Echoed {
		case done:
			parts = append(parts, "all answers were echoes")
		default:
			parts = append(parts, unit.FormatCount(int64(s.Echoed))+" answers were echoes")
		}
	}
	if s.Pings > 0 {
		parts = append(parts, unit.Plural(int(s.Pings), "ping", "pings")+" answered")
	}
	return strings.Join(parts, " · ")
}
