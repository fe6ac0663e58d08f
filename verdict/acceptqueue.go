package verdict

import (
	"ceiling/record"
)

// ruleAcceptQueue asks whether the listening socket's accept queue is full: the kernel drops new
// connections, and the client retries after 1 s, 3 s, 7 s (net/ipv4/tcp_timer.c,
// TCP_TIMEOUT_INIT).
func ruleAcceptQueue(f *cpuFacts) finding {
	a, run := &f.server.accept, f.base.run
	out := finding{bottleneck: record.AcceptQueue, next: acceptNext()}
	if f.server.neverAccepted() == 0 && !a.known && !a.fullShare.known {
		return out
	}
	if a.overflows > 0 || a.before > 0 {
		out.pro = append(out.pro, record.NewEvidence("series.tcp.listen_overflows", a.overflows+a.before, "connections",
			say("accept.overflows", with{"connections": a.overflows + a.before, "before": a.before})))
	}
	if a.fullShare.known && a.fullShare.value > 0 {
		out.pro = append(out.pro, record.NewEvidence("series.listener.queue", a.fullShare.value, "share",
			say("accept.at-limit", with{"limit": a.limit, "share": a.fullShare.value})))
	}
	if a.resent > 0 {
		out.pro = append(out.pro, record.NewEvidence("series.tcp.syn_retrans", a.resent, "segments",
			say("accept.syn-resent", with{"syns": a.resent})))
	}
	overflowed := a.overflows >= overflowShare*(a.overflows+a.opened) && a.overflows > 0
	stood := a.fullShare.known && a.fullShare.value >= queueFullShare
	never := f.server.neverAccepted()
	if never > 0 {
		out.pro = append(out.pro, f.server.unacceptedEvidence()...)
	}
	opens := run.Spec.NewConnections > 0 || float64(run.Load.Reconnects) > reconnectShare*float64(run.Requests.Completed)
	lacking := run.Load.Established < run.Load.Connections || f.base.refused > 0
	switch {
	case never >= unacceptedShare*f.server.unaccepted.of && never > 0:
		if idle, missing := f.serverIdle(); missing == nil && !idle && !f.server.unaccepted.files.full() {
			out.against = f.server.cpuEvidence() // the connections it already holds fill it
			return out
		}
		out.because, out.next = just("accept.never", with{"says": f.server.unacceptedSays()}), f.server.unacceptedNext()
	case opens && (overflowed || stood) && f.server.acceptHurtsTail():
		out.against = append(out.against, record.NewEvidence("latency.response.p50_ns", float64(run.Latency.Response.P50Ns), "ns",
			say("accept.tail-only", with{"p50_ns": run.Latency.Response.P50Ns})))
		return out
	case opens && (overflowed || stood):
		if idle, missing := f.serverIdle(); missing == nil && !idle {
			out.against = f.server.cpuEvidence() // it cannot accept faster: the queue is a symptom
			return out
		}
		out.because = just("accept.slow", nil)
	case lacking && (overflowed || stood || a.before > 0):
		out.because = f.base.lackingSays()
	default:
		return out
	}
	out.answer = matched
	return out
}

// acceptHurtsTail reports whether connections found the queue full and came late in a run whose
// rate was not limited by that: an open loop reached its target rate, or less than half of the
// time of a closed loop's slots went to them.
func (f *serverSide) acceptHurtsTail() bool {
	a, l := &f.accept, &f.base.run.Latency.Response
	if a.overflows <= 0 || float64(l.P50Ns) >= retriedNs || f.base.acceptTail().Code == "" {
		return false
	}
	if f.base.open {
		s := &f.base.schedule
		return s.asked > 0 && s.missed <= unsentShare && !(s.owed.known && s.owed.value > backlogMax)
	}
	return l.MeanNs-float64(l.P50Ns) < mostOf*l.MeanNs
}

// acceptTail returns the lowest quantile that retransmitted connection requests explain; empty if
// none is that long.
func (f *runFacts) acceptTail() record.Statement {
	l := &f.run.Latency.Response
	for _, q := range []struct {
		name string
		ns   int64
	}{{"p90", l.P90Ns}, {"p99", l.P99Ns}, {"p999", l.P999Ns}, {"max", l.MaxNs}} {
		if float64(q.ns) >= retriedNs {
			return say("accept.tail-quantile", with{"quantile": q.name, "value_ns": q.ns})
		}
	}
	return record.Statement{}
}

// acceptTailSays describes what a full queue did to the tail alone.
func (f *serverSide) acceptTailSays() record.Statement {
	a := &f.accept
	return say("accept.tail", with{"share": a.overflows / (a.overflows + a.opened), "tail": f.base.acceptTail()})
}

// acceptNext says what to do about a queue that is too short.
func acceptNext() []record.Statement { return just("accept.next", nil) }

// lackingSays describes what a full queue did to the run's connections: they were not
// established, or only after others were refused.
func (f *runFacts) lackingSays() []record.Statement {
	l := &f.run.Load
	if l.Established < l.Connections {
		return just("accept.lacking", with{"established": l.Established, "asked": l.Connections})
	}
	return just("accept.refused", with{"attempts": f.refused, "asked": l.Connections})
}
