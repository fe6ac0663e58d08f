package verdict

import (
	"fmt"

	"ceiling/internal/unit"
	"ceiling/record"
)

// ruleAcceptQueue asks whether connections wait to be taken: the queue of the
// listening socket is full, what comes is dropped, and the client tries again
// after 1 s, 3 s, 7 s (net/ipv4/tcp_timer.c, TCP_TIMEOUT_INIT).
func ruleAcceptQueue(f *facts) finding {
	a, run := &f.accept, f.run
	out := finding{bottleneck: record.AcceptQueue, next: acceptNext()}
	if f.neverAccepted() == 0 && !a.known && !a.fullShare.known {
		return out
	}
	if a.overflows > 0 || a.before > 0 {
		out.pro = append(out.pro, record.NewEvidence("series.tcp.listen_overflows", a.overflows+a.before, "connections",
			"%.0f connections found the accept queue full, %.0f of them before the window", a.overflows+a.before, a.before))
	}
	if a.fullShare.known && a.fullShare.value > 0 {
		out.pro = append(out.pro, record.NewEvidence("series.listener.queue", a.fullShare.value, "share",
			"the accept queue was at its limit of %d in %s of the samples", a.limit, unit.Percent(a.fullShare.value)))
	}
	if a.resent > 0 {
		out.pro = append(out.pro, record.NewEvidence("series.tcp.syn_retrans", a.resent, "segments", "%.0f SYNs were retransmitted", a.resent))
	}
	overflowed := a.overflows >= overflowShare*(a.overflows+a.opened) && a.overflows > 0
	stood := a.fullShare.known && a.fullShare.value >= queueFullShare
	never := f.neverAccepted()
	if never > 0 {
		out.pro = append(out.pro, f.unacceptedEvidence()...)
	}
	opens := run.Spec.NewConnections || float64(run.Load.Reconnects) > reconnectShare*float64(run.Requests.Completed)
	lacking := run.Load.Established < run.Load.Connections || f.refused > 0
	switch {
	case never >= unacceptedShare*f.unaccepted.of && never > 0:
		if idle, missing := f.serverIdle(); missing == nil && !idle && !f.unaccepted.files.full() {
			out.against = f.cpuEvidence() // those that it holds fill it
			return out
		}
		out.because, out.next = "accept queue: "+f.unacceptedSays(), f.unacceptedNext()
	case opens && (overflowed || stood) && f.acceptHurtsTail():
		out.against = append(out.against, record.NewEvidence("latency.response.p50_ns", float64(run.Latency.Response.P50Ns), "ns",
			"half of the responses took %s or less: only the tail waits for a connection", ns(float64(run.Latency.Response.P50Ns))))
		return out
	case opens && (overflowed || stood):
		if idle, missing := f.serverIdle(); missing == nil && !idle {
			out.against = f.cpuEvidence() // it cannot accept faster: the queue is a symptom
			return out
		}
		out.because = "accept queue: the server takes new connections slower than they come, and its queue is full"
	case lacking && (overflowed || stood || a.before > 0):
		out.because = f.lackingSentence()
	default:
		return out
	}
	out.answer = yes
	return out
}

// acceptHurtsTail tells whether connections found the queue full and came late,
// in a run whose rate that did not limit: an open loop got what it asked for, or
// less than half of the time of a closed loop's slots went to them.
func (f *facts) acceptHurtsTail() bool {
	a, l := &f.accept, &f.run.Latency.Response
	if a.overflows <= 0 || float64(l.P50Ns) >= retriedNs || f.acceptTail() == "" {
		return false
	}
	if f.open {
		s := &f.schedule
		return s.asked > 0 && s.missed <= unsentShare && !(s.owed.known && s.owed.value > owedShare)
	}
	return l.MeanNs-float64(l.P50Ns) < mostOf*l.MeanNs
}

// acceptTail is the lowest quantile that a connection request sent again accounts
// for, with its value; "" where none is that long.
func (f *facts) acceptTail() string {
	l := &f.run.Latency.Response
	for _, q := range []struct {
		name string
		ns   int64
	}{{"p90", l.P90Ns}, {"p99", l.P99Ns}, {"p999", l.P999Ns}, {"max", l.MaxNs}} {
		if float64(q.ns) >= retriedNs {
			return q.name + " " + ns(float64(q.ns))
		}
	}
	return ""
}

// acceptTailSays is what a full queue did to the tail alone.
func (f *facts) acceptTailSays() string {
	a := &f.accept
	return fmt.Sprintf("accept queue: %s of the new connections found it full and came 1 s, 3 s or 7 s late, which is the tail (%s) and not the rate",
		unit.Percent(a.overflows/(a.overflows+a.opened)), f.acceptTail())
}

// acceptNext is what to do about a queue that is too short.
func acceptNext() string {
	return "raise the server's backlog (listen, net.core.somaxconn), or let it accept from more threads"
}

// lackingSentence is what a full queue did to the connections of the run: they
// were not established, or only after others were refused.
func (f *facts) lackingSentence() string {
	l := &f.run.Load
	if l.Established < l.Connections {
		return fmt.Sprintf("accept queue: only %d of %d connections were established, because the server's queue was full", l.Established,
			l.Connections)
	}
	return fmt.Sprintf("accept queue: %s connection attempts failed before all %d connections were established, because the server's queue was full", count(uint64(f.refused)), l.Connections)
}
