package verdict

import (
	"math"
	"slices"

	"ceiling/record"
)

// delayedAckFacts distinguishes a half-sent response from one in transit. Nagle's algorithm (RFC
// 896) holds back a small write while an earlier one is unacknowledged, and the other end, which
// waits for the rest and has nothing to send, delays the ACK for 40 ms (RFC 1122, 4.2.3.2). In a
// closed loop the next request immediately acknowledges a whole response, so a response
// unacknowledged for 40 ms with all of its bytes written and nothing unread is one of which a
// part was never sent.
type delayedAckFacts struct {
	known bool
	is    bool
	// unacked is the share of the requests in flight whose response is unacknowledged at the
	// server; written is the mean bytes of those, over the size of a response.
	unacked, written float64
	base             figure // the shortest round trip, ns
	flying           figure // segments in flight on each connection of the server
	unsent           figure // bytes of each such response that the server's kernel has not sent
}

func delayedAckOf(f *facts, series *record.Series, rows []*record.SocketsRow) delayedAckFacts {
	var d delayedAckFacts
	if f.open || f.slots <= 0 || !f.responseBytes.known || f.responseBytes.value <= 0 {
		return d
	}
	samples, sockets, unacked, unread, bytes := 0, 0.0, 0.0, 0.0, 0.0
	paired, unsent := 0.0, 0.0
	for _, row := range rows {
		if row.Server.Sockets <= 0 || row.Client.Sockets <= 0 {
			continue
		}
		samples++
		sockets += float64(row.Server.Sockets)
		unacked += math.Max(float64(row.Server.Unacked), 0)
		bytes += math.Max(float64(row.Server.UnackedBytes), 0)
		unread += math.Max(float64(row.Client.Unread), 0)
		if row.ToClient.Pairs > 0 {
			paired += math.Max(row.ToClient.Connections, 0)
			unsent += math.Max(row.ToClient.UnsentBytes, 0)
		}
	}
	if paired > 0 {
		d.unsent = some(unsent / paired)
	}
	if samples < placesFewest || sockets == 0 {
		return d
	}
	d.known = true
	var trips placeFacts
	trips.trips(f.cpuFacts, series)
	d.base, d.flying = trips.base, flyingOf(f.cpuFacts, series)
	d.unacked = math.Max(unacked-unread, 0) / sockets
	if unacked > 0 {
		d.written = bytes / unacked / f.responseBytes.value
	}
	d.is = d.unacked >= delayedUnacked && d.written >= delayedWritten && d.fits(f.pathFacts)
	return d
}

// fits reports whether the response times match one delayed ACK and nothing else on the path
// explains them. Bytes queued before a narrow link are unacknowledged too, with more than a
// segment in flight; on a path that may be narrow, only times just above 40 ms count.
func (d *delayedAckFacts) fits(f *pathFacts) bool {
	l := &f.run.Latency.Response
	median := float64(l.P50Ns)
	switch {
	case d.unsent.known && d.unsent.value < 1: // all of it was sent
		return false
	case median < delayedAckNs || l.MeanNs < delayedAckNs || median < 2*d.base.value || f.link.shaper.holds():
		return false
	case f.onLoopback():
		return l.MeanNs <= delayedAckMost
	}
	return l.MeanNs <= delayedAckTight && float64(l.P90Ns) <= delayedAckTight && d.flying.known && d.flying.value <= delayedFlying
}

// flyingOf returns the mean number of segments in flight per server connection.
func flyingOf(f *cpuFacts, series *record.Series) figure {
	segments, sockets := 0.0, 0.0
	for _, row := range ours(f, series.Observed.TCPInfo) {
		segments += positive(float64(row.Server.UnackedSegs))
		sockets += positive(float64(row.Server.Sockets))
	}
	if sockets == 0 {
		return figure{}
	}
	return some(segments / sockets)
}

// ruleDelayedAck asks whether the responses wait for acknowledgements.
func ruleDelayedAck(f *facts) finding {
	out := finding{bottleneck: record.ServerBlocked}
	d := &f.delayed
	if !d.is {
		return out
	}
	free, missing := f.generatorFree()
	if missing != nil {
		out.answer, out.missing = cannotTell, missing
		return out
	}
	if !free {
		return out
	}
	l := &f.run.Latency.Response
	out.answer, out.explained = yes, true
	out.pro = append([]record.Evidence{
		record.NewEvidence("series.sockets.server.unacked", d.unacked, "share",
			say("delayed-ack.unacked", with{"share": math.Min(d.unacked, 1), "written": math.Min(d.written, 1)})),
		record.NewEvidence("latency.response.p50_ns", float64(l.P50Ns), "ns",
			say("delayed-ack.median", with{"p50_ns": l.P50Ns})),
	}, f.cpuEvidence()...)
	if d.unsent.known {
		out.pro = slices.Insert(out.pro, 1, record.NewEvidence("series.sockets.to_client.unsent_bytes", d.unsent.value, "bytes",
			say("delayed-ack.unsent", with{"unsent_bytes": d.unsent.value})))
	}
	if d.base.known {
		out.pro = append(out.pro, record.NewEvidence("series.tcp_info.server.rtt_min_us", d.base.value, "ns",
			say("delayed-ack.path", with{"rtt_ns": d.base.value})))
	}
	out.because = just("delayed-ack", with{"server": f.subjectName()})
	out.next = just("delayed-ack.next", nil)
	return out
}
