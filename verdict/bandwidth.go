package verdict

import (
	"fmt"
	"math"

	"ceiling/internal/unit"
	"ceiling/record"
)

// ruleBandwidth asks whether the link carries all it can. Where its speed is
// known that is a division; where it is not, see rulePath.
func ruleBandwidth(f *facts) finding {
	out := finding{bottleneck: record.Bandwidth, next: "send fewer bytes (compression, smaller answers), or take a faster link"}
	l := &f.link
	if !l.known || !l.speed.known || f.onLoopback() && !l.shaper.holds() {
		return out
	}
	share := l.share()
	out.pro = []record.Evidence{l.evidence()}
	if share > 0 {
		out.times, out.nearly = math.Max(1/share, 1), fmt.Sprintf("the link%s carried %s of %s", f.of(l.host), bits(l.bits), bits(l.speed.value))
	}
	full := linkTaken
	if l.fromBytes {
		full = linkTakenGuessed
	}
	if share < full {
		return out
	}
	out.answer = yes
	out.because = fmt.Sprintf("bandwidth: the link%s carried %s of %s, %s of it", f.of(l.host), bits(l.bits), bits(l.speed.value),
		unit.Percent(share))
	if l.host != "" && len(f.run.Agents) > 1 && !f.ofServer(l.host) {
		out.next = fmt.Sprintf("load from more agents: the link of %s is full; or send fewer bytes", l.host)
	}
	if l.fromBytes {
		out.caveats = append(out.caveats, "no interface was watched: link use is computed from the run's own bytes")
	}
	if share > linkTooMuch {
		out.answer = no
		out.against = append(out.against, record.NewEvidence("series.netdev", share, "share",
			"more than the link can carry: its speed is not the one given"))
	}
	return out
}

func (l *linkFacts) evidence() record.Evidence {
	if l.fromBytes {
		return record.NewEvidence("bytes", l.bits, "bit/s", "the run's bytes with their framing are %s of %s that were given", bits(l.bits),
			bits(l.speed.value))
	}
	by := ""
	switch l.from {
	case "":
	case "given":
		by = " that were given"
	default:
		by = " that its " + l.from + " lets through"
	}
	return record.NewEvidence("series.netdev", l.bits, "bit/s", "%s %s %s of %s%s", l.name, l.direction, bits(l.bits), bits(l.speed.value), by)
}

// rulePath asks whether requests wait on the way although no known speed is
// reached: bytes stand before a link whose speed is unknown, or is not the one
// that the kernel names. Full packets speak for bytes, small ones for packets.
func rulePath(f *facts) finding {
	out := finding{bottleneck: record.Bandwidth}
	p, l := &f.places, &f.link
	if !p.known || !p.both || !f.pathQueues() {
		return out
	}
	free, missing := f.generatorFree()
	if missing != nil {
		out.answer, out.missing = cannotTell, missing
		return out
	}
	idle, missing := f.serverIdle()
	if missing != nil {
		out.answer, out.missing = cannotTell, missing
		return out
	}
	if !free || !idle {
		return out
	}
	out.pro = append(f.placeEvidence(wayIn, wayBack), f.tripEvidence()...)
	if l.known && !l.fromBytes {
		out.pro = append(out.pro, record.NewEvidence("series.netdev", l.bits, "bit/s", "%s %s %s in %s, %.0f bytes a packet", l.name, l.direction,
			bits(l.bits), unit.FormatRate(l.packets), l.perPacket))
		if l.perPacket > 0 && l.perPacket <= smallPacket {
			out.bottleneck = record.Packets
		}
	}
	out.answer = yes
	share := p.share[wayIn] + p.share[wayBack]
	out.because = fmt.Sprintf("%s: %s of the requests wait in the network while both ends are idle", out.bottleneck,
		unit.Percent(math.Max(share, f.tripShare())))
	if l.known {
		out.because += fmt.Sprintf("; the path stops at %s", bits(l.bits))
		if out.bottleneck == record.Packets {
			out.because += fmt.Sprintf(" in %s packets of %.0f bytes", unit.FormatRate(l.packets), l.perPacket)
		}
	}
	if l.shaper.holds() && l.speed.known {
		out.caveats = append(out.caveats, fmt.Sprintf("its %s is at %s of its rate in bytes: packets, or its burst, are what it counts",
			l.shaper.kind, unit.Percent(l.share())))
		out.next = fmt.Sprintf("look at the queueing discipline of %s (tc -s qdisc show dev %s), or send fewer packets", l.name, l.iface)
		return out
	}
	caveat := "link speed unknown (set --link): saturation is inferred from where the requests wait"
	if l.speed.known {
		caveat = fmt.Sprintf("the link is said to carry %s, and is at %s of that: something on the path is slower (--link)", bits(l.speed.value),
			unit.Percent(l.share()))
	}
	out.caveats = append(out.caveats, caveat)
	out.next = "find what limits the path (tc qdisc, the NIC's and the switch's counters), or send fewer bytes"
	return out
}

// tripShare is the round trip as a share of the response time.
func (f *facts) tripShare() float64 {
	if !f.places.rtt.known || !(f.run.Latency.Response.MeanNs > 0) {
		return 0
	}
	return math.Min(f.places.rtt.value/f.run.Latency.Response.MeanNs, 1)
}

// pathQueues tells whether most requests are on the way, and wait there: the
// round trip is far above its shortest, or packets are lost.
func (f *facts) pathQueues() bool {
	p := &f.places
	if f.onLoopback() && !f.link.shaper.holds() || f.delayed.known && f.delayed.is {
		return false
	}
	where := math.Max(p.share[wayIn]+p.share[wayBack], f.tripShare()-p.share[generatorQueue])
	if where < mostOf {
		return false
	}
	grown := p.rtt.known && p.base.known && p.rtt.value >= tripGrown*p.base.value
	lost := p.retrans.known && p.retrans.value >= lossMatters
	return grown || lost || f.link.shaper.holds()
}

func (f *facts) tripEvidence() []record.Evidence {
	p := &f.places
	var list []record.Evidence
	if s := &f.link.shaper; s.holds() {
		list = append(list, record.NewEvidence("series.netdev.qdisc_overlimits", s.held, "times",
			"the %s of %s delayed packets %.0f times, with %.0f bytes waiting on average", s.kind, f.link.name, s.held, s.backlog))
	}
	if p.rtt.known {
		list = append(list, record.NewEvidence("series.tcp_info.server.rtt_p50_us", p.rtt.value, "ns", "round trip %s", ns(p.rtt.value)))
		if p.base.known {
			list = append(list, record.NewEvidence("series.tcp_info.server.rtt_min_us", p.base.value, "ns", "shortest round trip %s", ns(p.base.value)))
		}
	}
	if p.rwnd.known && p.rwnd.value >= windowMatters {
		list = append(list, record.NewEvidence("series.tcp_info.server.rwnd_ns", p.rwnd.value, "share",
			"the generator's receive window blocked the server for %s of its sending time", unit.Percent(p.rwnd.value)))
	}
	if p.retrans.known && p.retrans.value >= lossMatters {
		list = append(list, record.NewEvidence("series.tcp_info.server.retrans_segs", p.retrans.value, "share", "%s of the TCP segments were retransmitted",
			unit.Percent(p.retrans.value)))
	}
	return list
}
