package verdict

import (
	"math"

	"ceiling/record"
)

// acceptFacts is how the server took new connections.
type acceptFacts struct {
	known     bool
	overflows float64 // connections refused for a full queue, within the window
	opened    float64 // connections taken, within the window
	before    float64 // overflows before the window
	resent    float64 // connection requests sent again, within the window
	// fullShare of the looks at the listener found its queue at its limit.
	fullShare figure
	queue     int // longest seen
	limit     int // its limit then
}

func acceptOf(f *facts, series *record.Series) acceptFacts {
	var a acceptFacts
	for _, row := range ours[*record.TCPRow](f, series) {
		if row.Side == record.SideGenerator {
			continue
		}
		a.known = true
		a.overflows += math.Max(math.Max(float64(row.ListenOverflows), float64(row.ListenDrops)), 0)
		a.opened += math.Max(float64(row.PassiveOpens), 0)
		a.resent += math.Max(float64(row.SynRetrans), 0)
	}
	for _, row := range setup[*record.TCPRow](f, series) {
		if row.Side == record.SideGenerator {
			continue
		}
		a.before += math.Max(float64(row.ListenOverflows), 0)
	}
	looks, full := 0.0, 0.0
	for _, row := range ours[*record.ListenerRow](f, series) {
		if len(row.Listeners) == 0 {
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

// packetFacts is what happened to packets below TCP.
type packetFacts struct {
	known   bool
	dropped float64 // for a full backlog
	handled float64
}

func packetsOf(f *facts, series *record.Series) packetFacts {
	var p packetFacts
	for _, row := range ours[*record.SoftnetRow](f, series) {
		p.known = true
		for _, c := range row.CPUs {
			p.dropped += float64(c.Dropped)
			p.handled += float64(c.Processed)
		}
	}
	return p
}

// clockFacts is how fast the CPUs ran, kHz.
type clockFacts struct {
	throttles        float64 // thermal events
	slowest, fastest float64 // mean over the CPUs, of the slowest and the fastest sample
}

func clockOf(f *facts, series *record.Series) clockFacts {
	var c clockFacts
	for _, row := range ours[*record.FreqRow](f, series) {
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
	return c
}
