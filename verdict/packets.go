package verdict

import (
	"math"

	"ceiling/record"
)

// rulePackets asks whether packets rather than bytes are the limit: a shaper lets so many through, one
// core does nothing but receive them, or they are dropped below TCP while the link is far from full.
func rulePackets(f *facts) finding {
	out := finding{bottleneck: record.Packets, next: just("packets.next", nil)}
	l := &f.path.link
	if a := f.path.limitedBy(packetAllowance); a != nil {
		out.answer, out.pro = matched, []record.Evidence{a.evidence(f.base)}
		out.because, out.next = just("allowance.limits", a.values(f.base)), just("allowance.next.packets", nil)
		return out
	}
	if share := l.packetShare(); share > l.byteShare() {
		sent := with{"interface": l.name, "per_s": share * l.shaper.PacketsPerS, "limit": l.shaper.PacketsPerS, "by": l.shaper.Kind, "share": share}
		out.pro, out.times, out.nearly = []record.Evidence{record.NewEvidence("series.netdev.tx_packets", share*l.shaper.PacketsPerS, "packets/s",
			say("packets.shaped", sent))}, math.Max(1/share, 1), say("packets.nearly", sent)
		if share >= linkTaken {
			out.answer, out.because, out.next = matched, just("packets.full", sent), just("packets.full.next", nil)
		}
		return out
	}
	if f.path.onLoopback() || l.known && l.speed.known && l.share() >= linkTaken {
		return out
	}
	if f.cpu.packetsOnOneCore(&out) || f.packetsDropped(&out) {
		out.answer = matched
	}
	return out
}

// packetsOnOneCore looks for a core saturated with softirqs while the others are not full.
func (f *cpuFacts) packetsOnOneCore(out *finding) bool {
	for _, h := range f.machines() {
		if !h.known || len(h.cores) < 2 || h.full(h.numbers()) {
			continue
		}
		for i := range h.cores {
			c := &h.cores[i]
			if share := soft(c) / c.total; share >= softFull {
				out.pro = append(out.pro, record.NewEvidence("series.cpu.softirq", share, "share",
					say("packets.softirq", with{"cpu": c.cpu, "host": f.base.named(h.name), "share": share})))
				out.because = just("packets.one-core", with{"cpu": c.cpu, "host": f.base.named(h.name), "share": share})
				return true
			}
		}
	}
	return false
}

// packetsDropped looks for losses that TCP had to repair.
func (f *facts) packetsDropped(out *finding) bool {
	l, p := &f.path.link, &f.path.packets
	resent := f.places.retrans.known && f.places.retrans.value >= lossMatters
	nic := l.known && l.all > 0 && l.dropped >= lossMatters*l.all && l.perPacket <= smallPacket
	backlog := p.known && p.handled > 0 && p.dropped >= lossMatters*p.handled
	if !resent || !nic && !backlog {
		return false
	}
	var lost record.Evidence
	if nic {
		lost = record.NewEvidence("series.netdev.rx_drop", l.dropped, "packets",
			say("packets.dropped-interface", with{"interface": l.name, "dropped": l.dropped, "packets": l.all}))
	} else {
		lost = record.NewEvidence("series.softnet.dropped", p.dropped, "packets",
			say("packets.dropped-backlog", with{"host": f.base.named(p.host), "dropped": p.dropped, "packets": p.handled}))
	}
	out.pro = append(out.pro, lost, f.tripEvidence()[len(f.tripEvidence())-1])
	out.because = just("packets.dropped", with{"lost": lost.Says})
	return true
}
