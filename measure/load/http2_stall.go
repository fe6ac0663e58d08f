package load

import "ceiling/internal/http2"

// stall is the time in which a connection's request bodies wait for the server's windows (RFC 9113,
// section 5.2). A PING sent as one begins shows the cause: if its answer comes when the window
// opens, the round trip takes the time; if long before, the server is not reading.
type stall struct {
	beganNs int64 // 0: nothing waits
	askedNs int64 // when the PING left whose answer is pending; 0: none
	tookNs  int64 // how long the stall that began with the PING took; 0: it lasts
	tripNs  int64 // round trip of the PING; 0: its answer is pending
	// spent: no further PING until the server has answered a request. Some servers end connections
	// with more than two PINGs without other traffic of theirs in between.
	spent bool
}

// stallPing is the payload that identifies our PINGs.
const stallPing = "ceiling?"

// stalls counts the time in which a request body waits for the server's windows.
func (w *worker) stalls(i uint32, h *h2conn, stalled bool) {
	s := &h.stall
	switch {
	case stalled && s.beganNs == 0:
		s.beganNs = max(w.now, 1)
		w.h2.Stalls++
		if !s.spent && h.phase == serving {
			*s = stall{beganNs: s.beganNs, askedNs: s.beganNs, spent: true}
			w.room(i, h)
			h.out = http2.AppendPing(h.out, []byte(stallPing), false)
			w.h2.Sent[http2.Ping]++
		}
	case !stalled && s.beganNs != 0:
		w.h2.StalledNs += w.now - max(s.beganNs, min(w.windowNs, w.now))
		if s.beganNs == s.askedNs {
			s.tookNs = max(w.now-s.beganNs, 1)
			w.compared(s)
		}
		s.beganNs = 0
	}
}

// ponged handles the answer to a PING of ours.
func (w *worker) ponged(h *h2conn, payload []byte) {
	if s := &h.stall; s.askedNs != 0 && s.tripNs == 0 && string(payload) == stallPing {
		s.tripNs = max(w.now-s.askedNs, 1)
		w.compared(s)
	}
}

// compared counts a stall and its PING once both are over.
func (w *worker) compared(s *stall) {
	if s.tookNs == 0 || s.tripNs == 0 {
		return
	}
	if s.askedNs >= w.windowNs {
		w.h2.Pings++
		w.h2.PingNs += s.tripNs
		w.h2.PingedNs += s.tookNs
	}
	s.askedNs, s.tookNs, s.tripNs = 0, 0, 0
}
