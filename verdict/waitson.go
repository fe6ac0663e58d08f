package verdict

import (
	"slices"

	"ceiling/record"
)

// A server with CPU to spare keeps requests waiting for something. This file
// names the next step from what the record says of it, in the order of how much
// it says: the server's own profiles (waitprofiles.go), the connections it
// keeps to others (waitpeers.go), where its threads sleep (waitthreads.go).

// clue is what one source says of what the requests inside the server wait for.
type clue struct {
	says    []record.Evidence
	next    []record.Statement // what to do about it; none where it names nothing
	caveats []record.Statement
	// whereOnly: it names the place in the server where they wait, and a pool
	// among the connections may be what they wait for.
	whereOnly bool
}

// explainWait puts what the requests wait for into a finding that says that
// they wait, or that they are inside the server and nobody knows why. bottleneck is
// what would limit next.
func explainWait(f *facts, found *finding, upcoming *record.NextBottleneck) {
	idle, _ := f.serverIdle()
	if found.explained || found.bottleneck != record.ServerBlocked &&
		!(found.bottleneck == record.Inconclusive && idle && f.requestsInside()) {
		return
	}
	var next []record.Statement
	var first, rest []record.Evidence
	profiles := f.profileClue(upcoming)
	for i, c := range []clue{profiles, f.peerClue(upcoming), f.stackClue(), f.threadClue()} {
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

// requestsInside tells whether most requests are with the server: unread
// before it or in nobody's socket.
func (f *facts) requestsInside() bool {
	p := &f.places
	return p.known && p.both && p.share[serverQueue]+p.share[inServer] >= mostOf
}

// underWay is how many requests were in flight on average.
func (f *facts) underWay() float64 {
	if !f.open || len(f.places.flight) == 0 {
		return f.slots
	}
	sum := 0.0
	for _, n := range f.places.flight {
		sum += n
	}
	return sum / float64(len(f.places.flight))
}

// gain says what at most comes of a change that allows times the rate, in this
// run: no more than the next bottleneck.
func gain(times float64, upcoming *record.NextBottleneck) record.Statement {
	switch {
	case upcoming != nil && times >= upcoming.Times:
		return say("gain.next-bottleneck", with{"times": upcoming.Times, "bottleneck": upcoming.Bottleneck})
	case times > timesMost:
		return say("gain.unlimited", with{"times": timesMost})
	}
	return say("gain", with{"times": times})
}
