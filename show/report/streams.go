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

// timeName is the name of the time from start to end of one exchange.
func timeName(r *record.Run) string {
	if r.Load.Mode == "subscribed" {
		return "push to receipt"
	}
	return "response"
}

// streamsName is the noun for the connections.
func streamsName(r *record.Run) string {
	if r.Load.Mode == "subscribed" {
		return "subscriptions"
	}
	return "WebSockets"
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
	if done := r.Requests.Completed; done > 0 && r.Load.Mode != "subscribed" {
		switch s.Echoed {
		case done:
			parts = append(parts, "all answers were echoes")
		default:
			parts = append(parts, unit.FormatCount(int64(s.Echoed))+" answers were echoes")
		}
	}
	if s.First > 0 {
		parts = append(parts, unit.Plural(int(s.First), "message", "messages")+" from the server before the first was sent")
	}
	if s.Pings > 0 {
		parts = append(parts, unit.Plural(int(s.Pings), "ping", "pings")+" answered")
	}
	if r.Load.Mode == "subscribed" {
		parts = append(parts, clockOf(r))
	}
	return strings.Join(parts, " · ")
}

// Subscribed describes the fate of a run's events.
func Subscribed(r *record.Run) string {
	q, s := &r.Requests, r.Load.Streams
	text := unit.FormatCount(int64(q.Completed)) + " received"
	if s == nil || s.Numbered == 0 {
		return text + " · missed ones are not known: the events have no number"
	}
	text += fmt.Sprintf(" · %s missed", unit.FormatCount(int64(q.Failed)))
	if perS := r.PublishedPerS(); perS > 0 {
		text += fmt.Sprintf(" · %s published/s, to %s", unit.FormatSI(perS), unit.Plural(r.Load.Established, "subscriber", "subscribers"))
	}
	return text
}

// clockOf names the clock used for the time from push to receipt.
func clockOf(r *record.Run) string {
	s := r.Load.Streams
	var text string
	switch {
	case s.Monotonic+s.Wall == 0:
		return "the events have no timestamp"
	case s.Wall == 0:
		text = "times by this host's CLOCK_MONOTONIC"
	default:
		text = fmt.Sprintf("time from push to receipt of %s events not measured: their timestamps are from another host's clock, whose offset is unknown",
			unit.FormatCount(int64(s.Wall)))
	}
	if s.Early > 0 {
		text += fmt.Sprintf(" · %s received before they were sent, by the clocks", unit.FormatCount(int64(s.Early)))
	}
	return text
}
