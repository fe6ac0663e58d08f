package load

import "ceiling/internal/http2"

// stall is the time in which request bodies of a connection wait for the server's windows
// (RFC 9113, section 5.2). A PING that leaves as one begins tells why: answered when the
// window opens, the distance is what takes the time; answered long before, the server does
// not read.
type stall struct {
	beganNs int64 // 0: nothing waits
	askedNs int64 // when the PING left whose answer is to come; 0: none has
	tookNs  int64 // how long the stall took that began with the PING; 0: it lasts
	tripNs  int64 // how long the PING took; 0: its answer is to come
	// spent: no further PING until the server has answered a request. gRPC's servers end
	// connections with more than two PINGs for which they have sent nothing else
	// (grpc-go, internal/transport/http2_server.go, handlePing).
	spent bool
}

// stallPing tells our PINGs by their payload.
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

// ponged takes the answer to a PING of ours.
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
