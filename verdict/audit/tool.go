package audit

import (
	"math"
	"strings"

	"ceiling/record"
)

// pointTool is what is known about a load generator, whatever the run.
type pointTool struct {
	name string
	// share is how its threads or processes divide the connections.
	share sharing
	// binary: it prints powers of 1024 labelled MB and GB.
	binary bool
	// wholeMs: it records latencies in whole milliseconds. Their mean has decimals but is still
	// up to 1 ms too small.
	wholeMs bool
	// corrected: it adds latencies that it never measured to those it did.
	corrected bool
	// fromDue: its latencies count from when a request was due, so they include time in which the
	// request needed no connection.
	fromDue bool
}

// sharing is how workers divide connections.
type sharing int

const (
	sharedUnknown sharing = iota // somewhere between sharedFloor and sharedAll
	sharedAll                    // all are opened; some workers have one more
	sharedFloor                  // floor(connections ÷ workers) each
	sharedFloor1                 // the same, at least one
)

// pointTools is sorted so that a name precedes those that it contains. The rules come from the
// tools' sources: wrk src/wrk.c (connections ÷ threads in main, stats_correct at the end), wrk2
// the same without the correction, autocannon lib/manager.js (Math.max(Math.floor(…), 1)) and its
// histogram of whole milliseconds, h2load src/h2load.cc (the first clients % threads get one
// more); hey, ab, oha, ghz, k6, go-wrk and vegeta have no such split.
func pointTools() []pointTool {
	return []pointTool{
		{name: "go-wrk", share: sharedAll, binary: true},
		{name: "wrk2", share: sharedFloor, binary: true, fromDue: true},
		{name: "wrk", share: sharedFloor, binary: true, corrected: true},
		{name: "autocannon", share: sharedFloor1, wholeMs: true},
		{name: "h2load", share: sharedAll, binary: true},
		{name: "vegeta", share: sharedAll, fromDue: true},
		{name: "hey", share: sharedAll},
		{name: "oha", share: sharedAll},
		{name: "ghz", share: sharedAll},
		{name: "k6", share: sharedAll},
		{name: "apachebench", share: sharedAll, wholeMs: true},
		{name: "ab", share: sharedAll, wholeMs: true},
	}
}

// toolOf finds the tool in a point's text, such as "vegeta v12.11.1".
func toolOf(text string) pointTool {
	words := strings.FieldsFunc(strings.ToLower(text), func(r rune) bool {
		return !(r >= 'a' && r <= 'z' || r >= '0' && r <= '9' || r == '-')
	})
	for _, word := range words {
		for _, t := range pointTools() {
			if word == t.name {
				return t
			}
		}
	}
	return pointTool{}
}

// connections returns bounds for how many of the requested connections so many workers open.
func (t *pointTool) connections(asked, workers float64) (least, most float64) {
	floor := math.Floor(asked/workers) * workers
	switch t.share {
	case sharedFloor:
		return floor, floor
	case sharedFloor1:
		return math.Max(floor, workers), math.Max(floor, workers)
	case sharedAll:
		return asked, asked
	}
	if floor == 0 {
		floor = asked
	}
	return floor, asked
}

// megabyte and gigabyte return what the tool prints as MB and GB.
func (t *pointTool) megabyte() float64 {
	if t.binary {
		return mebi
	}
	return mega
}

func (t *pointTool) gigabyte() float64 {
	if t.binary {
		return 1 << 30
	}
	return 1e9
}

// coarsen removes from the latencies the digits that the tool does not measure.
func (t *pointTool) coarsen(p *record.Point) {
	if !t.wholeMs {
		return
	}
	for _, f := range []*record.Figure{&p.LatencyAvgMs, &p.P50Ms, &p.P75Ms, &p.P90Ms, &p.P95Ms, &p.P99Ms, &p.LatencyP2_5Ms, &p.LatencyP97_5Ms,
		&p.LatencyMaxMs} {
		f.Decimals = 0
	}
}
