package verdict

import (
	"maps"
	"math"
	"slices"

	"ceiling/record"
)

// acceptFacts describes how the server accepted new connections.
type acceptFacts struct {
	known     bool
	overflows float64 // connections refused because the queue was full, within the window
	opened    float64 // connections accepted, within the window
	before    float64 // overflows before the window
	resent    float64 // connection requests retransmitted, within the window
	// fullShare is the share of listener samples that found the queue at its limit.
	fullShare figure
	queue     int // longest seen
	limit     int // its limit then
}

func acceptOf(f *cpuFacts, series *record.Series) acceptFacts {
	var a acceptFacts
	for _, row := range ours(f, series.Observed.TCP) {
		if row.Side == record.SideGenerator {
			continue
		}
		if !f.server.ofServer(row.Host) {
			a.resent += math.Max(float64(row.SynRetrans), 0)
			continue
		}
		a.known = true
		a.overflows += math.Max(math.Max(float64(row.ListenOverflows), float64(row.ListenDrops)), 0)
		a.opened += math.Max(float64(row.PassiveOpens), 0)
		a.resent += math.Max(float64(row.SynRetrans), 0)
	}
	for _, row := range setup(f, series.Observed.TCP) {
		if row.Side == record.SideGenerator || !f.server.ofServer(row.Host) {
			continue
		}
		a.before += math.Max(float64(row.ListenOverflows), 0)
	}
	looks, full := 0.0, 0.0
	for _, row := range ours(f, series.Observed.Listeners) {
		if len(row.Listeners) == 0 || !f.server.ofServer(row.Host) {
			continue
		}
		looks++
		at := false
		for _, l := range row.Listeners {
			at = at || l.Max > 0 && l.Queue >= l.Max
			if l.Queue > a.queue {
				a.queue, a.limit = l.Queue, l.Max
			}
		}
		if at {
			full++
		}
	}
	if looks > 0 {
		a.fullShare = some(full / looks)
	}
	return a
}

// ofServer reports whether a host's row is about the server's end. A single host has both ends;
// with several agents, the server's processes identify its host.
func (f *serverSide) ofServer(host string) bool {
	return len(f.base.run.Agents) == 0 || f.subject.known && host == f.subject.host
}

// packetFacts describes packets dropped below TCP on the host that dropped the larger share.
type packetFacts struct {
	known   bool
	host    string
	dropped float64 // because the backlog was full
	handled float64
}

func packetsOf(f *cpuFacts, series *record.Series) packetFacts {
	by := map[string]*packetFacts{}
	for _, row := range ours(f, series.Observed.Softnet) {
		p := by[row.Host]
		if p == nil {
			p = &packetFacts{known: true, host: row.Host}
			by[row.Host] = p
		}
		for _, c := range row.CPUs {
			p.dropped += float64(c.Dropped)
			p.handled += float64(c.Processed)
		}
	}
	return worstOf(by, func(p *packetFacts) float64 { return p.dropped / math.Max(p.handled, 1) })
}

// worstOf picks the host with the largest figure; of several, the first by name.
func worstOf[T any](by map[string]*T, figure func(*T) float64) T {
	var worst T
	for i, host := range slices.Sorted(maps.Keys(by)) {
		if i == 0 || figure(by[host]) > figure(&worst) {
			worst = *by[host]
		}
	}
	return worst
}

// clockFacts is the CPU frequency, kHz, on the host where it fell most.
type clockFacts struct {
	host             string
	throttles        float64 // thermal events
	slowest, fastest float64 // mean over the CPUs, of the slowest and the fastest sample
}

// fell returns by how much the frequency dropped along with thermal events, as a share.
func (c *clockFacts) fell() float64 {
	if c.throttles <= 0 || c.fastest <= 0 {
		return 0
	}
	return 1 - c.slowest/c.fastest
}

func clockOf(f *cpuFacts, series *record.Series) clockFacts {
	by := map[string]*clockFacts{}
	for _, row := range ours(f, series.Observed.Freqs) {
		c := by[row.Host]
		if c == nil {
			c = &clockFacts{host: row.Host}
			by[row.Host] = c
		}
		c.throttles += math.Max(float64(row.Throttles), 0)
		khz := float64(row.MeanKHz)
		if khz <= 0 {
			continue
		}
		if c.slowest == 0 || khz < c.slowest {
			c.slowest = khz
		}
		c.fastest = math.Max(c.fastest, khz)
	}
	return worstOf(by, (*clockFacts).fell)
}
