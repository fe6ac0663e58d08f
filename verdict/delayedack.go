package verdict

import (
	"math"
	"slices"

	"ceiling/record"
)

// delayedAckFacts is the time that responses wait for a delayed ACK. Nagle's algorithm (RFC 896)
// holds back a small write while an earlier one is unacknowledged, and the other end, which waits
// for the rest and has nothing to send, delays the ACK for 40 ms (RFC 1122, 4.2.3.2). The sampled
// sockets of the server show it: less than a segment unsent although the window has room. By
// Little's law, their mean number over the rate is how long each response waits.
//
// Where both ends of a connection were not sampled together, it is inferred. In a closed loop the
// next request immediately acknowledges a whole response, so a response unacknowledged for 40 ms
// with all of its bytes written and nothing unread is one of which a part was never sent.
type delayedAckFacts struct {
	known bool
	// waits: the time matters; is: it is half of the response time or more.
	waits, is bool
	held      float64 // responses held back, on average
	ns, share float64 // of each response's time
	// unacked is the share of the requests in flight whose response is unacknowledged at the
	// server; written is the mean bytes of those, over the size of a response.
	unacked, written float64
	base             figure // the shortest round trip, ns
	flying           figure // segments in flight on each connection of the server
	unsent           figure // bytes of each such response that the server's kernel has not sent
}

func delayedAckOf(f *facts, series *record.Series, rows []*record.SocketsRow) delayedAckFacts {
	var d delayedAckFacts
	mean := positive(f.base.run.Latency.Response.MeanNs)
	if f.base.rate <= 0 || mean == 0 {
		return d
	}
	var trips placeFacts
	trips.trips(f.cpu, series)
	d.base, d.flying = trips.base, flyingOf(f.cpu, series)
	// Behind a shaper with a queue a part is unsent because the kernel keeps the queue short
	// (tcp_small_queue_check in net/ipv4/tcp_output.c).
	if f.path.link.held() {
		return d
	}
	if !d.seen(rows) {
		d.inferred(f.path, rows)
	}
	d.ns = d.held / f.base.rate * 1e9
	d.share = math.Min(d.ns/mean, 1)
	d.waits = d.share >= waitMatters && d.ns >= 2*d.base.value
	d.is = d.waits && d.share >= mostOf
	return d
}

// seen counts the responses held back in the samples of both ends; false if too few saw one.
func (d *delayedAckFacts) seen(rows []*record.SocketsRow) bool {
	moments, held, times := 0.0, 0.0, 0
	for _, row := range rows {
		if row.ToClient.Pairs <= 0 {
			continue
		}
		weight := float64(max(row.Moments, 1))
		moments += weight
		if n := positive(row.ToClient.HeldBack); n > 0 {
			held, times = held+weight*n, times+1
		}
	}
	if times < minSamples {
		return false
	}
	d.known, d.held = true, held/moments
	return true
}

// inferred estimates the same from what is unacknowledged.
func (d *delayedAckFacts) inferred(f *pathFacts, rows []*record.SocketsRow) {
	if f.base.open || f.base.slots <= 0 || !f.base.responseBytes.known || f.base.responseBytes.value <= 0 {
		return
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
	if samples < minSamples || sockets == 0 {
		return
	}
	d.known = true
	if paired > 0 {
		d.unsent = some(unsent / paired)
	}
	d.unacked = math.Max(unacked-unread, 0) / sockets
	if unacked > 0 {
		d.written = bytes / unacked / f.base.responseBytes.value
	}
	if d.fits(f) {
		d.held = d.unacked * f.base.slots
	}
}

// fits reports whether the time for which a response is unacknowledged is that of one delayed ACK
// and nothing else on the path explains it. Bytes queued before a narrow link are unacknowledged
// too, with more than a segment in flight.
func (d *delayedAckFacts) fits(f *pathFacts) bool {
	waits := d.unacked*f.base.slots/f.base.rate*1e9 - d.base.value
	switch {
	case d.written < delayedWritten, waits < delayedAckNs, waits > delayedAckTight:
		return false
	case d.unsent.known && d.unsent.value < 1: // all of it was sent
		return false
	}
	return f.onLoopback() || d.flying.known && d.flying.value <= delayedFlying
}

// waitNs is how long a response waits for a delayed ACK; 0 if that does not matter.
func (d *delayedAckFacts) waitNs() float64 {
	if !d.waits {
		return 0
	}
	return d.ns
}

// toServer moves the responses held back from the network to the server: they are in its kernel.
func (d *delayedAckFacts) toServer(at *[stations]float64, rate float64) {
	if d.waits {
		held := math.Min(d.held, math.Max(at[toClient]-rate*d.base.value/1e9, 0))
		at[toClient] -= held
		at[inServer] += held
	}
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
		out.answer, out.missing = unknown, missing
		return out
	}
	if !free {
		return out
	}
	out.answer, out.explained = matched, true
	out.pro = append(f.delayedAckEvidence(), f.cpu.server.cpuEvidence()...)
	if d.base.known {
		out.pro = append(out.pro, record.NewEvidence("series.tcp_info.server.rtt_min_us", d.base.value, "ns",
			say("delayed-ack.path", with{"rtt_ns": d.base.value})))
	}
	out.because = just("delayed-ack", with{"server": f.cpu.server.subjectName(), "held_ns": d.ns, "share": d.share})
	out.next = just("delayed-ack.next", nil)
	return out
}

// delayedAckEvidence says how long responses wait for a delayed ACK, and how that is known.
func (f *facts) delayedAckEvidence() []record.Evidence {
	d := &f.delayed
	list := []record.Evidence{record.NewEvidence("series.sockets.to_client.held_back", d.ns, "ns",
		say("delayed-ack.part", with{"held_ns": d.ns, "share": d.share}))}
	if d.unacked > 0 {
		list = append(list, record.NewEvidence("series.sockets.server.unacked", d.unacked, "share",
			say("delayed-ack.unacked", with{"share": math.Min(d.unacked, 1), "written": math.Min(d.written, 1)})))
	}
	if d.unsent.known {
		list = append(list, record.NewEvidence("series.sockets.to_client.unsent_bytes", d.unsent.value, "bytes",
			say("delayed-ack.unsent", with{"unsent_bytes": d.unsent.value})))
	}
	return list
}

// explainDelayedAck adds the wait for delayed ACKs to a finding of another bottleneck. In a closed
// loop without a queue, requests that do not wait for it make room for more.
func explainDelayedAck(f *facts, found *finding) {
	d := &f.delayed
	if !d.waits || found.bottleneck == record.ServerBlocked && found.explained {
		return
	}
	found.pro = slices.Concat(f.delayedAckEvidence(), found.pro)
	if found.bottleneck == record.Concurrency {
		found.because = append(found.because, say("delayed-ack.part", with{"held_ns": d.ns, "share": d.share}))
		found.next = slices.Insert(found.next, 0, say("delayed-ack.next.gain", with{"times": 1 / (1 - d.share)}))
	}
}
