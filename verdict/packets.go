package verdict

import (
	"fmt"

	"ceiling/internal/unit"
	"ceiling/record"
)

// rulePackets asks whether packets, not bytes, are what cannot go faster: one
// core does nothing but take them in, or they are dropped below TCP while the
// link is far from full.
func rulePackets(f *facts) finding {
	out := finding{bottleneck: record.Packets, next: "spread the packets over more cores (RSS, RPS, IRQ affinity), or send fewer and larger ones (pipelining, keep-alive)"}
	l := &f.link
	if f.onLoopback() || l.known && l.speed.known && l.share() >= linkTaken {
		return out
	}
	if f.packetsOnOneCore(&out) || f.packetsDropped(&out) {
		out.answer = yes
	}
	return out
}

// packetsOnOneCore looks for a core that is full of softirqs while the others
// are not full.
func (f *facts) packetsOnOneCore(out *finding) bool {
	for _, h := range f.machines() {
		if !h.known || len(h.cores) < 2 || h.full(h.numbers()) {
			continue
		}
		for i := range h.cores {
			c := &h.cores[i]
			if share := soft(c) / c.total; share >= softFull {
				out.pro = append(out.pro, record.NewEvidence("series.cpu.softirq", share, "share", "CPU %d%s spent %s of its time on packets (softirq)", c.cpu,
					f.of(h.name), unit.Percent(share)))
				out.because = fmt.Sprintf("packets: CPU %d%s only receives packets (%s softirq) while other cores are idle", c.cpu, f.of(h.name),
					unit.Percent(share))
				return true
			}
		}
	}
	return false
}

// packetsDropped looks for losses that TCP has had to mend.
func (f *facts) packetsDropped(out *finding) bool {
	l, p := &f.link, &f.packets
	resent := f.places.retrans.known && f.places.retrans.value >= lossMatters
	nic := l.known && l.all > 0 && l.dropped >= lossMatters*l.all && l.perPacket <= smallPacket
	backlog := p.known && p.handled > 0 && p.dropped >= lossMatters*p.handled
	if !resent || !nic && !backlog {
		return false
	}
	var lost record.Evidence
	if nic {
		lost = record.NewEvidence("series.netdev.rx_drop", l.dropped, "packets", "%s dropped %.0f of %.0f packets", l.name, l.dropped, l.all)
	} else {
		lost = record.NewEvidence("series.softnet.dropped", p.dropped, "packets", "the kernel's backlog%s dropped %.0f of %.0f packets", f.of(p.host),
			p.dropped, p.handled)
	}
	out.pro = append(out.pro, lost, f.tripEvidence()[len(f.tripEvidence())-1])
	out.because = "packets: " + lost.Says + ", and TCP sent them again, while the link's bytes are far from full"
	return true
}
