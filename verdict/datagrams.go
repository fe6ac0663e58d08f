package verdict

import (
	"math"

	"ceiling/record"
)

// datagramLossMatters is the share of datagrams from which their loss is told: QUIC halves
// what it sends for one that is lost of a few thousand, as TCP does.
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

// ofTheDatagrams says that QUIC lost some, which its congestion control answers: the
// rate is then the buffer's.
func (d *caveats) ofTheDatagrams(f *runFacts, n datagramFacts) {
	t := f.run.Load.TLS
	if t == nil || t.Protocol != "h3" || n.dropped == 0 || n.dropped < datagramLossMatters*(n.taken+n.dropped) {
		return
	}
	d.add("caveat.datagrams", with{"dropped": n.dropped, "arrived": n.taken + n.dropped})
}
