package verdict

import (
	"fmt"
)

// ruleAcceptQueue asks whether connections wait to be taken: the queue of the
// listening socket is full, what comes is dropped, and the client tries again
// after 1 s, 3 s, 7 s (net/ipv4/tcp_timer.c, TCP_TIMEOUT_INIT).
func ruleAcceptQueue(f *facts) finding {
	a, run := &f.accept, f.run
	out := finding{ceiling: AcceptQueue, next: "raise the server's backlog (listen, net.core.somaxconn), or let it accept from more threads"}
	if !a.known && !a.fullShare.known {
		return out
	}
	if a.overflows > 0 || a.before > 0 {
		out.pro = append(out.pro, evidence("series.tcp.listen_overflows", a.overflows+a.before, "connections",
			"%.0f connections found the accept queue full, %.0f of them before the window", a.overflows+a.before, a.before))
	}
	if a.fullShare.known && a.fullShare.value > 0 {
		out.pro = append(out.pro, evidence("series.listener.queue", a.fullShare.value, "share", "the accept queue was at its limit of %d in %s of the samples", a.limit, percent(a.fullShare.value)))
	}
	if a.resent > 0 {
		out.pro = append(out.pro, evidence("series.tcp.syn_retrans", a.resent, "segments", "%.0f connection requests were sent again", a.resent))
	}
	overflowed := a.overflows >= overflowShare*(a.overflows+a.opened) && a.overflows > 0
	stood := a.fullShare.known && a.fullShare.value >= queueFullShare
	opens := run.Spec.NewConnections || float64(run.Load.Reconnects) > reconnectShare*float64(run.Requests.Completed)
	lacking := run.Load.Established < run.Load.Connections || f.refused > 0
	switch {
	case opens && (overflowed || stood):
		if idle, missing := f.serverIdle(); missing == nil && !idle {
			out.against = f.cpuEvidence() // it cannot accept faster: the queue is a symptom
			return out
		}
		out.because = "accept queue: the server takes new connections slower than they come, and its queue is full"
	case lacking && (overflowed || stood || a.before > 0):
		out.because = f.lackingSentence()
	case stood && f.places.known && f.places.unaccepted >= unacceptedShare:
		out.because = fmt.Sprintf("accept queue: %s of the connections were never taken by the server, whose queue is full", percent(f.places.unaccepted))
	default:
		return out
	}
	out.answer = yes
	return out
}

// lackingSentence is what a full queue did to the connections of the run: they
// were not established, or only after others were refused.
func (f *facts) lackingSentence() string {
	l := &f.run.Load
	if l.Established < l.Connections {
		return fmt.Sprintf("accept queue: only %d of %d connections were established, because the server's queue was full", l.Established, l.Connections)
	}
	return fmt.Sprintf("accept queue: %s connection attempts failed before all %d connections were established, because the server's queue was full", count(uint64(f.refused)), l.Connections)
}
