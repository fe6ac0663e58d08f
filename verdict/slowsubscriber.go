package verdict

import (
	"ceiling/experiment/spec"
	"ceiling/record"
)

const (
	// heldShare of an interval that a socket's bytes are held up by the receiver tells that it is not read.
	heldShare = 0.5
	// waitsBelow this share of the rate before, publishing waits for the slow one. A policy that drops leaves the others theirs.
	waitsBelow = 0.5
	// rateSpanNs is what one rate is taken over.
	rateSpanNs = 0.5e9
)

// slowFacts is a subscriber that does not read what it is sent, by the server's socket to it.
type slowFacts struct {
	peer                 string // "" none
	share                float64
	unsent               int64
	heldPerS, beforePerS float64 // events that arrived while it was held up, and before
	heldKnown, wasBefore bool
}

// slowOf finds the subscriber that was held up the longest. Where as many as half of those that were looked at are held up, it is
// the receiving end as a whole, which the generator's rules are about.
func slowOf(f *facts, series *record.Series, load []record.LoadRow) (s slowFacts) {
	if f.run.Spec.Kind != spec.Events {
		return s
	}
	type held struct {
		ns, ofNs, fromNs, unsent int64
		rows                     int
	}
	by := map[string]held{}
	for _, row := range ours(f.cpuFacts, series.Observed.TCPInfo) {
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

// rates are what all subscribers of the run got from a time on, and at best before it: it may have stopped to read long before
// it was seen, for the buffers between take some seconds to fill.
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

// waits tells that publishing waits for it.
func (s *slowFacts) waits() bool {
	return s.peer != "" && s.heldKnown && s.wasBefore && s.beforePerS > 0 && s.heldPerS < waitsBelow*s.beforePerS
}

// dropped tells that the others get theirs all the same.
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
	out.answer = yes
	out.because = just("subscribers.slow", f.slow.says())
	out.next = just("subscribers.slow-next", f.slow.says())
	out.pro = append(out.pro, record.NewEvidence("observed.tcp_info.server.held.held_ns", f.slow.share, "share", out.because[0]))
	return out
}
