package verdict

import (
	"ceiling/experiment/spec"
	"ceiling/record"
)

const (
	// heldShare is the share of an interval that the receiver must hold up a socket's bytes for
	// it to count as not reading.
	heldShare = 0.5
	// waitsBelow is the share of the earlier rate below which publishing waits for the slow
	// subscriber. A policy that drops events keeps the rate of the others.
	waitsBelow = 0.5
	// rateSpanNs is the span over which one rate is computed, in ns.
	rateSpanNs = 0.5e9
)

// slowFacts describes a subscriber that does not read what it is sent, seen from the server's
// socket to it.
type slowFacts struct {
	peer                 string // "" for none
	share                float64
	unsent               int64
	heldPerS, beforePerS float64 // events/s while it was held up, and before
	heldKnown, wasBefore bool
}

// slowOf finds the subscriber that was held up the longest. If half or more of the sampled ones
// are held up, the receiving end as a whole is slow, which the generator's rules cover.
func slowOf(f *facts, series *record.Series, load []record.LoadRow) (s slowFacts) {
	if f.base.run.Spec.Kind != spec.Events {
		return s
	}
	type held struct {
		ns, ofNs, fromNs, unsent int64
		rows                     int
	}
	by := map[string]held{}
	for _, row := range ours(f.cpu, series.Observed.TCPInfo) {
		if row.WidthNs <= 0 || 2*len(row.Server.Held) > row.Server.Sockets {
			continue
		}
		for _, one := range row.Server.Held {
			if float64(one.HeldNs) < heldShare*float64(row.WidthNs) {
				continue
			}
			h := by[one.Peer]
			if h.rows++; h.rows == 1 {
				h.fromNs = row.TNs - row.WidthNs
			}
			h.ns, h.ofNs, h.unsent = h.ns+min(one.HeldNs, row.WidthNs), h.ofNs+row.WidthNs, max(h.unsent, one.UnsentBytes)
			by[one.Peer] = h
		}
	}
	var most held
	for peer, h := range by {
		if h.ns > most.ns || h.ns == most.ns && peer < s.peer {
			s.peer, most = peer, h
		}
	}
	if s.peer == "" {
		return s
	}
	s.share, s.unsent = float64(most.ns)/float64(most.ofNs), most.unsent
	s.rates(load, most.fromNs)
	return s
}

// rates computes the delivery rate of all subscribers from a time on, and the best rate before
// it. The subscriber may have stopped reading long before that time, since the buffers in between
// take seconds to fill.
func (s *slowFacts) rates(load []record.LoadRow, fromNs int64) {
	var held, heldNs, span, spanNs float64
	for i := range load {
		r := &load[i]
		switch {
		case r.WidthNs <= 0:
		case r.TNs-r.WidthNs >= fromNs:
			held, heldNs = held+float64(r.Completed), heldNs+float64(r.WidthNs)
		case r.TNs <= fromNs:
			if span, spanNs = span+float64(r.Completed), spanNs+float64(r.WidthNs); spanNs >= rateSpanNs {
				s.beforePerS, s.wasBefore = max(s.beforePerS, span/spanNs*1e9), true
				span, spanNs = 0, 0
			}
		}
	}
	if heldNs > 0 {
		s.heldPerS, s.heldKnown = held/heldNs*1e9, true
	}
}

// waits reports whether publishing waits for the slow subscriber.
func (s *slowFacts) waits() bool {
	return s.peer != "" && s.heldKnown && s.wasBefore && s.beforePerS > 0 && s.heldPerS < waitsBelow*s.beforePerS
}

// dropped reports whether the other subscribers still get their events.
func (s *slowFacts) dropped() bool { return s.peer != "" && !s.waits() }

func (s *slowFacts) says() with {
	return with{"peer": s.peer, "share": s.share, "unsent_bytes": s.unsent, "held_per_s": s.heldPerS, "before_per_s": s.beforePerS}
}

// ruleSlowSubscriber asks whether publishing waits for one subscriber that does not read.
func ruleSlowSubscriber(f *facts) finding {
	out := finding{bottleneck: record.Subscribers}
	if !f.slow.waits() {
		return out
	}
	out.answer = matched
	out.because = just("subscribers.slow", f.slow.says())
	out.next = just("subscribers.slow-next", f.slow.says())
	out.pro = append(out.pro, record.NewEvidence("observed.tcp_info.server.held.held_ns", f.slow.share, "share", out.because[0]))
	return out
}
