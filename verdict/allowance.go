package verdict

import (
	"cmp"
	"maps"
	"slices"
	"strings"

	"ceiling/record"
)

// allowance is a cloud instance limit that its interface hit: ENA counts the packets that it
// queued or dropped because of it
// (docs.aws.amazon.com/AWSEC2/latest/UserGuide/monitoring-network-performance-ena.html).
type allowance struct {
	record.LinkID
	counter string // pps_allowance_exceeded
	packets float64
}

// Kinds of allowance, by the prefix of their counter.
const (
	allowanceEnd = "_allowance_exceeded"

	bandwidthAllowance = "bw_"  // bw_in, bw_out
	packetAllowance    = "pps_" // both directions together
)

// exceededOf sums the allowances' counters over the window, the most exceeded first.
func exceededOf(f *cpuFacts, series *record.Series) []allowance {
	by := map[allowance]float64{}
	for _, row := range ours(f, series.Observed.NICs) {
		for _, c := range row.Counters {
			if strings.HasSuffix(c.Name, allowanceEnd) && c.Count > 0 {
				by[allowance{LinkID: record.LinkID{Host: row.Host, Side: row.Side, Iface: row.Iface}, counter: c.Name}] += float64(c.Count)
			}
		}
	}
	var list []allowance
	for a := range maps.Keys(by) {
		a.packets = by[a]
		list = append(list, a)
	}
	slices.SortFunc(list, func(a, b allowance) int {
		return cmp.Or(cmp.Compare(b.packets, a.packets), cmp.Compare(a.Host+a.Iface+a.counter, b.Host+b.Iface+b.counter))
	})
	return list
}

// limitedBy returns an allowance of a kind that held back more packets than TCP tolerates without
// slowing down; nil if there is none.
func (f *pathFacts) limitedBy(kind string) *allowance {
	for i := range f.exceeded {
		a := &f.exceeded[i]
		if strings.HasPrefix(a.counter, kind) && f.link.known && a.packets >= lossMatters*f.link.all {
			return a
		}
	}
	return nil
}

// namedBy reports whether a bottleneck was named because of an allowance.
func (f *pathFacts) namedBy(bottleneck record.Bottleneck, a *allowance) bool {
	switch bottleneck {
	case record.Bandwidth:
		return f.limitedBy(bandwidthAllowance) == a
	case record.Packets:
		return f.limitedBy(packetAllowance) == a
	}
	return false
}

// values name an allowance in a sentence.
func (a *allowance) values(f *runFacts) with {
	return with{"counter": a.counter, "interface": a.Iface, "host": f.named(a.Host), "packets": a.packets}
}

// evidence supports a bottleneck that is an allowance.
func (a *allowance) evidence(f *runFacts) record.Evidence {
	return record.NewEvidence("series.nic."+a.counter, a.packets, "packets", say("allowance.exceeded", a.values(f)))
}
