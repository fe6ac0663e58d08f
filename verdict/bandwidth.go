package verdict

import (
	"math"

	"ceiling/record"
)

// ruleBandwidth asks whether the link carries all it can. If its speed is known that is a
// division; if not, see rulePath.
func ruleBandwidth(f *facts) finding {
	out := finding{bottleneck: record.Bandwidth, next: just("bandwidth.next", nil)}
	l := &f.path.link
	if a := f.path.limitedBy(bandwidthAllowance); a != nil {
		out.answer, out.pro = matched, []record.Evidence{a.evidence(f.base)}
		out.because, out.next = just("allowance.limits", a.values(f.base)), just("allowance.next.bandwidth", nil)
		return out
	}
	if !l.known || !l.speed.known || f.path.onLoopback() && !l.held() {
		return out
	}
	share := l.byteShare()
	if l.packetShare() > share { // see rulePackets
		return out
	}
	out.pro = []record.Evidence{l.evidence()}
	carried := with{"host": f.base.named(l.host), "carried_bits": l.bits, "speed_bits": l.speed.value, "share": share}
	if share > 0 {
		out.times, out.nearly = math.Max(1/share, 1), say("bandwidth.nearly", carried)
	}
	full := linkTaken
	if l.fromBytes {
		full = linkTakenGuessed
	}
	if share < full {
		return out
	}
	out.answer = matched
	out.because = just("bandwidth.full", carried)
	if l.host != "" && len(f.base.run.Agents) > 1 && !f.cpu.server.ofServer(l.host) {
		out.next = just("bandwidth.next.agents", with{"host": l.host})
	}
	if l.fromBytes {
		out.caveats = append(out.caveats, say("bandwidth.computed", nil))
	}
	if share > linkTooMuch {
		out.answer = notMatched
		out.against = append(out.against, record.NewEvidence("series.netdev", share, "share",
			say("bandwidth.too-much", nil)))
	}
	return out
}

func (l *linkFacts) evidence() record.Evidence {
	if l.fromBytes {
		return record.NewEvidence("bytes", l.bits, "bit/s",
			say("link.by-bytes", with{"carried_bits": l.bits, "speed_bits": l.speed.value}))
	}
	return record.NewEvidence("series.netdev", l.bits, "bit/s",
		say("link.carried", with{"interface": l.name, "sent": l.sent, "carried_bits": l.bits, "speed_bits": l.speed.value, "by": l.from}))
}

// rulePath asks whether requests queue on the path although no known speed is reached: bytes
// queue before a link whose speed is unknown, or differs from what the kernel reports. Full
// packets indicate bytes as the limit, small ones packets.
func rulePath(f *facts) finding {
	out := finding{bottleneck: record.Bandwidth}
	p, l := &f.places, &f.path.link
	if !p.known || !p.both || !f.pathQueues() {
		return out
	}
	free, missing := f.generatorFree()
	if missing != nil {
		out.answer, out.missing = unknown, missing
		return out
	}
	idle, missing := f.cpu.serverIdle()
	if missing != nil {
		out.answer, out.missing = unknown, missing
		return out
	}
	if !free || !idle {
		return out
	}
	out.pro = append(f.placeEvidence(toServer, toClient), f.tripEvidence()...)
	if l.known && !l.fromBytes {
		out.pro = append(out.pro, record.NewEvidence("series.netdev", l.bits, "bit/s",
			say("link.packets", with{"interface": l.name, "sent": l.sent, "carried_bits": l.bits, "packets_per_s": l.packets,
				"packet_bytes": l.perPacket})))
		if l.perPacket > 0 && l.perPacket <= smallPacket {
			out.bottleneck = record.Packets
		}
	}
	out.answer = matched
	share := math.Max(p.share[toServer]+p.share[toClient], f.tripShare())
	out.because = just("path.queues", with{"share": share, "known": l.known, "carried_bits": l.bits,
		"packets": out.bottleneck == record.Packets, "packets_per_s": l.packets, "packet_bytes": l.perPacket})
	switch {
	case l.held() && l.speed.known:
		out.caveats = append(out.caveats, say("path.shaped", with{"shaper": l.shaper.Kind, "share": l.share()}))
		out.next = just("path.shaped.next", with{"interface": l.name, "device": l.iface})
		return out
	case l.speed.known:
		out.caveats = append(out.caveats, say("path.not-full", with{"speed_bits": l.speed.value, "share": l.share()}))
	default:
		out.caveats = append(out.caveats, say("path.speed-unknown", nil))
	}
	out.next = just("path.next", nil)
	return out
}

// tripShare returns the round trip as a share of the response time.
func (f *facts) tripShare() float64 {
	if !f.places.rtt.known || !(f.base.run.Latency.Response.MeanNs > 0) {
		return 0
	}
	return math.Min(f.places.rtt.value/f.base.run.Latency.Response.MeanNs, 1)
}

// pathQueues reports whether most requests are in transit and queue there: the round trip is far
// above its minimum, or packets are lost.
func (f *facts) pathQueues() bool {
	p := &f.places
	if f.path.onLoopback() && !f.path.link.held() || f.delayed.known && f.delayed.is {
		return false
	}
	where := math.Max(p.share[toServer]+p.share[toClient], f.tripShare()-p.share[generatorQueue])
	if where < mostOf {
		return false
	}
	grown := p.rtt.known && p.base.known && p.rtt.value >= tripGrown*p.base.value
	lost := p.retrans.known && p.retrans.value >= lossMatters
	return grown || lost || f.path.link.held()
}

func (f *facts) tripEvidence() []record.Evidence {
	p := &f.places
	var list []record.Evidence
	if l := &f.path.link; l.held() {
		list = append(list, record.NewEvidence("series.netdev.qdisc_overlimits", l.shaper.Held, "times", say("link.shaper-held",
			with{"shaper": l.shaper.Kind, "interface": l.name, "times": l.shaper.Held, "backlog_bytes": l.shaper.BacklogBytes})))
	}
	if p.rtt.known {
		list = append(list, record.NewEvidence("series.tcp_info.server.rtt_p50_us", p.rtt.value, "ns",
			say("path.rtt", with{"rtt_ns": p.rtt.value})))
		if p.base.known {
			list = append(list, record.NewEvidence("series.tcp_info.server.rtt_min_us", p.base.value, "ns",
				say("path.rtt-min", with{"rtt_ns": p.base.value})))
		}
	}
	if p.rwnd.known && p.rwnd.value >= windowMatters {
		list = append(list, record.NewEvidence("series.tcp_info.server.rwnd_ns", p.rwnd.value, "share",
			say("path.receive-window", with{"share": p.rwnd.value})))
	}
	if p.retrans.known && p.retrans.value >= lossMatters {
		list = append(list, record.NewEvidence("series.tcp_info.server.retrans_segs", p.retrans.value, "share",
			say("path.retransmitted", with{"share": p.retrans.value})))
	}
	return list
}
