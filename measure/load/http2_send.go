package load

import (
	"ceiling/internal/http2"
)

// transmitH2 opens streams for the waiting requests, as far as the server allows, and sends the
// frames written: many with one send.
func (w *worker) transmitH2(i uint32, c *conn) {
	h := &w.h2.conns[i]
	for c.waiting > 0 && c.state == open && !c.sending && h.phase != leaving && c.onWire < h.limit {
		if c.room(w.shared.NewConnections, 1) <= 0 {
			break // this one is about to be closed
		}
		if len(h.out)-h.begin > outMost {
			w.flush(i, c, h)
			continue
		}
		w.openStream(i, c, h)
	}
	if len(h.uploads) > 0 {
		w.upload(i, c, h)
	}
	w.flush(i, c, h)
	if c.waiting > 0 && !w.openLoop && h.phase == serving && w.shared.NewConnections == 0 && c.waiting+c.onWire > h.limit {
		w.park(i, c, h)
	}
}

// openStream writes the first waiting request.
func (w *worker) openStream(i uint32, c *conn, h *h2conn) {
	q := w.queue(i)
	f := &q[c.head]
	at, again := c.next, f.again && len(h.again) > 0
	if again {
		at = h.again[0]
		h.again = h.again[:copy(h.again, h.again[1:])]
	} else {
		c.next = w.shared.script.step(c.next, 1)
		c.oldest = c.next
	}
	id := h.next
	s := h.add(id)
	*s = stream{id: id, at: at, due: f.due, left: -1, again: f.again}
	if h.next += 2; h.next > http2.MaxStream {
		h.phase = leaving // section 5.1.1: identifiers are not reused
	}
	r := &w.h2.requests[w.shared.script.target[at]]
	w.room(i, h)
	h.out = r.appendHead(h.out, id)
	w.h2.Sent[http2.Headers]++
	w.h2.Sent[http2.Continuation] += uint64(len(r.frames) - 1)
	if len(r.body) > 0 {
		s.body, s.window = uint32(len(r.body)), http2.Window(h.peer.InitialWindowSize)
		h.uploads = append(h.uploads, id)
	}
	if c.stamped == 0 {
		w.fresh = append(w.fresh, i)
		h.fresh = id
	}
	if f.again {
		c.resend--
		w.tally.Resent++
	} else {
		w.tally.Sent++
		w.inFlight++
	}
	w.sentNs = w.now
	c.onWire++
	c.stamped++
	c.waiting--
	if f.n--; f.n == 0 {
		w.popFlight(c, q)
	}
}

// leaveH2 dates the streams of one connection that leave now.
func (w *worker) leaveH2(i uint32, c *conn, now int64) {
	h := &w.h2.conns[i]
	for id := h.fresh; c.stamped > 0 && id < h.next; id += 2 {
		k := h.find(id)
		if k < 0 {
			continue
		}
		s := &h.table[k]
		s.sent = now
		c.stamped--
		if !s.again && s.due >= w.countFromNs {
			w.countLag(now-s.due, 1)
		}
	}
	c.stamped = 0
}

// upload writes as much of the request bodies as the windows allow (section 5.2), and counts a
// stall if they allow nothing.
func (w *worker) upload(i uint32, c *conn, h *h2conn) {
	if c.state != open {
		return
	}
	kept := h.uploads[:0]
	stalled, before := false, w.h2.Sent[http2.Data]
	for n, id := range h.uploads {
		k := h.find(id)
		if k < 0 {
			continue // it has ended
		}
		s := &h.table[k]
		for s.body > 0 && !c.sending {
			if len(h.out)-h.begin > outMost {
				w.flush(i, c, h)
				continue
			}
			if !w.writeData(i, h, s) {
				stalled = true
				break
			}
		}
		if c.sending {
			kept = append(kept, h.uploads[n:]...)
			break
		}
		if s.body > 0 {
			kept = append(kept, id)
		}
	}
	h.uploads = kept
	if w.h2.Sent[http2.Data] > before {
		w.stalls(i, h, false)
	}
	w.stalls(i, h, stalled)
}

// writeData writes one DATA frame, unless a window is closed.
func (w *worker) writeData(i uint32, h *h2conn, s *stream) bool {
	most := min(int(s.body), int(h.peer.MaxFrameSize), outMost, max(int(h.window), 0))
	n := s.window.Take(most)
	if n == 0 {
		return false
	}
	w.h2.Allowed = max(w.h2.Allowed, uint32(h.window))
	h.window.Take(n)
	body := w.h2.requests[w.shared.script.target[s.at]].body
	from := len(body) - int(s.body)
	flags := uint8(0)
	if s.body -= uint32(n); s.body == 0 {
		flags = http2.EndStream
	}
	w.room(i, h)
	h.out = append(http2.AppendHeader(h.out, n, http2.Data, flags, s.id), body[from:from+n]...)
	w.h2.Sent[http2.Data]++
	h.reader.Forgive()
	return true
}

// room readies the buffer for writing: from its start, once a Wait has left none of it with the
// ring.
func (w *worker) room(i uint32, h *h2conn) {
	if h.begin > 0 && h.begin == len(h.out) && h.round != w.rounds && w.ring.Unsent(w.conns[i].tag(i)) == 0 {
		h.out, h.begin = h.out[:0], 0
	}
}

// flush passes the written frames to the ring: all of them, or a part if much is still waiting to
// leave.
func (w *worker) flush(i uint32, c *conn, h *h2conn) {
	for h.begin < len(h.out) && c.state == open && !c.sending {
		b := h.out[h.begin:]
		b = b[:min(len(b), outMost)]
		h.begin += len(b)
		w.send(i, c, b)
		if w.tls == nil {
			h.round = w.rounds
		} else if h.begin == len(h.out) {
			h.out, h.begin = h.out[:0], 0 // sealed elsewhere
		}
	}
}

// park takes back the requests for which the server allows no stream: in a closed loop a slot that
// has to wait is not one.
func (w *worker) park(i uint32, c *conn, h *h2conn) {
	q := w.queue(i)
	extra := min(c.waiting+c.onWire-h.limit, c.waiting-c.resend)
	for extra > 0 {
		f := &q[wrap(c.head+c.entries-1, len(q))]
		n := min(extra, f.n)
		if f.n -= n; f.n == 0 {
			c.entries--
		}
		extra -= n
		c.waiting -= n
		c.parked += n
		if w.quota >= 0 {
			w.quota += int64(n)
		}
	}
}
