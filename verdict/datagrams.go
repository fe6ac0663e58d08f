package verdict

import (
	"math"

	"ceiling/record"
)

// datagramLossMatters is the share of lost datagrams from which the verdict mentions it: QUIC
// halves its congestion window for one lost in a few thousand, as TCP does.
const datagramLossMatters = 1e-4

// datagramFacts are the UDP counters of both ends within the window.
type datagramFacts struct{ taken, dropped float64 }

func datagramsOf(f *cpuFacts, series *record.Series) datagramFacts {
	var d datagramFacts
	for _, row := range ours(f, series.Observed.TCP) {
		d.taken += math.Max(float64(row.UDPIn), 0)
		d.dropped += math.Max(float64(row.UDPRcvbufErrors), 0)
	}
	return d
}

// ofTheDatagrams says that QUIC lost datagrams and its congestion control reacted: the rate is
// then limited by the buffer.
func (d *caveats) ofTheDatagrams(f *runFacts, n datagramFacts) {
	t := f.run.Load.TLS
	if t == nil || t.Protocol != "h3" || n.dropped == 0 || n.dropped < datagramLossMatters*(n.taken+n.dropped) {
		return
	}
	d.add("caveat.datagrams", with{"dropped": n.dropped, "arrived": n.taken + n.dropped})
}
