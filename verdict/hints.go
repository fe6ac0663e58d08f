package verdict

import (
	"slices"

	"ceiling/record"
)

// A server with CPU to spare keeps requests waiting for something. This file derives the next
// step from the record, trying the most specific source first: the server's own profiles
// (waitprofiles.go), its outgoing connections (waitpeers.go), where its threads sleep
// (waitthreads.go).

// hint is what one source says about what the requests inside the server wait for.
type hint struct {
	says    []record.Evidence
	next    []record.Statement // what to do about it; empty if the source names nothing
	caveats []record.Statement
	// whereOnly: the source names where in the server they wait; they may still be waiting for a
	// connection pool.
	whereOnly bool
}

// explainWait adds what the requests wait for to a finding that says they wait, or that they are
// inside the server for an unknown reason. upcoming is the next bottleneck.
func explainWait(f *facts, found *finding, upcoming *record.NextBottleneck) {
	idle, _ := f.cpu.serverIdle()
	if found.explained || found.bottleneck != record.ServerBlocked &&
		!(found.bottleneck == record.Inconclusive && idle && f.requestsInside()) {
		return
	}
	var next []record.Statement
	var first, rest []record.Evidence
	profiles := f.cpu.server.profileClue(upcoming)
	for i, c := range []hint{profiles, f.peerClue(upcoming), f.cpu.server.stackClue(), f.cpu.server.threadClue()} {
		if c.next == nil || next != nil && !(i == 1 && profiles.whereOnly) {
			rest = append(rest, c.says...)
			continue
		}
		first = append(first, c.says...)
		next = append(next, c.next...)
		found.caveats = append(found.caveats, c.caveats...)
	}
	found.pro = slices.Concat(first, found.pro, rest)
	switch {
	case next == nil:
	case found.bottleneck == record.Inconclusive:
		found.next = append(found.next, say("as-it-looks", with{"next": next}))
	default:
		found.next = next
	}
}

// requestsInside reports whether most requests are with the server: in its receive queue, or in
// no socket at all.
func (f *facts) requestsInside() bool {
	p := &f.places
	return p.known && p.both && p.share[serverQueue]+p.share[inServer] >= mostOf
}

// underWay returns the mean number of requests in flight.
func (f *facts) underWay() float64 {
	if !f.base.open || len(f.places.flight) == 0 {
		return f.base.slots
	}
	sum := 0.0
	for _, n := range f.places.flight {
		sum += n
	}
	return sum / float64(len(f.places.flight))
}

// gain says how much a change that allows times the rate can gain in this run: no more than the
// next bottleneck permits.
func gain(times float64, upcoming *record.NextBottleneck) record.Statement {
	switch {
	case upcoming != nil && times >= upcoming.Times && upcoming.Times < gainLeast:
		return say("gain.none", with{"bottleneck": upcoming.Bottleneck})
	case upcoming != nil && times >= upcoming.Times:
		return say("gain.next-bottleneck", with{"times": upcoming.Times, "bottleneck": upcoming.Bottleneck})
	case times > timesMost:
		return say("gain.unlimited", with{"times": timesMost})
	}
	return say("gain", with{"times": times})
}
