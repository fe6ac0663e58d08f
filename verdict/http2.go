package verdict

import "ceiling/record"

// streams returns how many requests can be in flight per connection: with HTTP/2 no more than the
// server allows.
func streams(l *record.Load) float64 {
	n := float64(l.Pipelining)
	if l.HTTP2 != nil && l.HTTP2.MaxStreams > 0 {
		n = min(n, float64(l.HTTP2.MaxStreams))
	}
	return max(n, 1)
}

// ofTheStreams adds what the server's HTTP/2 settings did to the load: fewer streams than
// requested, and windows that held uploads back.
func (d *caveats) ofTheStreams(run *record.Run) {
	l := &run.Load
	h := l.HTTP2
	if h == nil {
		return
	}
	if streams(l) < float64(l.Pipelining) {
		d.add("caveat.h2-streams", with{"allowed": h.MaxStreams, "asked": l.Pipelining})
	}
	if share := stalledShare(run); share >= h2WindowMatters {
		d.add("caveat.h2-window", with{"share": share, "window": h.InitialWindow, "stalls": h.Stalls})
		if h.StallPings > 0 && h.StallPingedNs > windowTrips*h.StallPingNs {
			d.add("caveat.h2-unread", with{"ping_ns": h.StallPingNs, "stall_ns": h.StallPingedNs})
		}
	}
}

// stalledShare returns the share of the connections' time in which request bodies waited for the
// server's windows.
func stalledShare(run *record.Run) float64 {
	ns := run.ElapsedS * 1e9 * float64(run.Load.Connections)
	if run.Load.HTTP2 == nil || !(ns > 0) {
		return 0
	}
	return min(positive(float64(run.Load.HTTP2.StalledNs))/ns, 1)
}

// ruleWindow asks whether the server's windows hold uploads back because it is far away: at most
// one window may leave per round trip (RFC 9113, section 5.2), whatever capacity there is
// elsewhere. A server that does not read also keeps its windows closed, but still answers a PING:
// then whatever keeps it from reading is the limit.
func ruleWindow(f *facts) finding {
	out := finding{bottleneck: record.HTTP2Window}
	l := &f.base.run.Load
	h, share := l.HTTP2, stalledShare(f.base.run)
	if share < mostOf || h.StallPings == 0 || h.StallPingedNs > windowTrips*h.StallPingNs {
		return out
	}
	window := min(float64(h.ConnectionWindow), float64(h.InitialWindow)*streams(l))
	most := window / h.StallPingNs * 1e9
	each := float64(f.base.run.Bytes.Written) / f.base.run.ElapsedS / float64(l.Connections)
	if !(window > 0) || each < windowFilled*most {
		return out
	}
	free, missing := f.generatorFree()
	if missing != nil {
		out.answer, out.missing = unknown, missing
		return out
	}
	if !free {
		return out
	}
	out.answer, out.explained = matched, true
	out.pro = append([]record.Evidence{
		record.NewEvidence("load.http2.stalled_ns", share, "share", say("h2-window.stalled", with{"share": share, "stalls": h.Stalls})),
		record.NewEvidence("load.http2.stall_ping_ns", h.StallPingNs, "ns",
			say("h2-window.ping", with{"ping_ns": h.StallPingNs, "stall_ns": h.StallPingedNs})),
		record.NewEvidence("bytes.written", each, "bytes per second", say("h2-window.carried", with{"each": each, "most": most})),
	}, f.cpu.server.cpuEvidence()...)
	out.because = just("h2-window", with{"server": f.cpu.server.subjectName(), "window": window, "trip_ns": h.StallPingNs, "most": most})
	out.next = just("h2-window.next", with{"window": 2 * window, "connections": 2 * l.Connections})
	return out
}
