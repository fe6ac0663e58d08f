package load

import (
	"encoding/binary"
	"io"
	"syscall"

	"ceiling/internal/hist"
	"ceiling/internal/sys"
	"ceiling/internal/tlsconn"
)

// Handshakes has the TLS handshakes that succeeded. Failed ones are Faults of PhaseTLS.
type Handshakes struct {
	// Setup has the full handshakes before the window opened, Window those in it: from the
	// connection being established to the server's Finished, this side's work included.
	Setup, Window hist.Hist
	// Resumed has those that resumed an earlier session.
	Resumed struct{ Setup, Window hist.Hist }
	// CPUNs is the workers' CPU time for handshakes in the window, without sending and receiving;
	// ResumedCPUNs the part of it for resumed ones.
	CPUNs, ResumedCPUNs int64
	// Agreed has what the last handshake negotiated.
	Agreed tlsconn.Agreed
}

// secure is a worker's TLS state.
type secure struct {
	client *tlsconn.Client
	conns  []secured
	Handshakes
}

// secured is the TLS state of one connection.
type secured struct {
	conn tlsconn.Conn
	// out has the bytes sealed for the ring, which may still hold them, in round.
	out   []byte
	round uint64
	rest  []byte // requests still to be sealed, after those in out
	cpuNs int64  // CPU time of its handshake in the window
}

// sealMost is how many bytes of requests are sealed at a time: four full records.
const sealMost = 64 << 10

func newSecure(c *tlsconn.Config, connections int) *secure {
	return &secure{client: tlsconn.NewClient(*c), conns: make([]secured, connections)}
}

// report returns the worker's handshakes; nil for plain connections.
func (s *secure) report() *Handshakes {
	if s == nil {
		return nil
	}
	return &s.Handshakes
}

// shake begins a handshake.
func (w *worker) shake(i uint32, c *conn) {
	c.state, c.since = shaking, w.clock()
	w.tls.conns[i].cpuNs = 0
	w.shaking(i, func() { w.tls.conns[i].conn.Begin(w.tls.client) })
	w.sendPending(i, c)
}

// shaking runs a step of a handshake, and counts the thread's CPU time for it. That costs two
// system calls per some hundred microseconds of cryptography.
func (w *worker) shaking(i uint32, step func()) {
	before := threadCPU(&w.shared.Config)
	step()
	took := threadCPU(&w.shared.Config) - before
	w.tally.Shakes.CPUNs += took
	if w.phase == measuring || w.phase == draining && w.openLoop {
		w.tls.CPUNs += took
		s := &w.tls.conns[i]
		s.cpuNs += took
		if s.conn.Agreed().Resumed {
			w.tls.ResumedCPUNs += s.cpuNs
			s.cpuNs = 0
		}
	}
}

// receivedSealed handles received bytes, record by record.
func (w *worker) receivedSealed(i uint32, c *conn, b []byte) {
	tag := c.tag(i)
	s := &w.tls.conns[i].conn
	for len(b) > 0 && c.tag(i) == tag {
		if c.state == shaking {
			b = w.receivedShaking(i, c, b)
			continue
		}
		plain, n, err := w.next(i, s, b)
		b = b[n:]
		switch {
		case len(plain) > 0 && c.speaks == HTTP2:
			w.receivedH2(i, c, plain)
		case len(plain) > 0:
			w.received(i, c, plain)
		case err != nil:
			w.broken(i, c, err)
		}
	}
	if c.speaks == HTTP2 {
		w.proceed(i, c, tag)
	}
}

// next returns the next record of a connection. The cost of a ticket counts as handshake.
func (w *worker) next(i uint32, s *tlsconn.Conn, b []byte) (plain []byte, n int, err error) {
	if s.AwaitsTicket() {
		w.shaking(i, func() { plain, n, err = s.Next(b) })
		return plain, n, err
	}
	return s.Next(b)
}

// broken ends a connection whose records are broken.
func (w *worker) broken(i uint32, c *conn, err error) {
	if err == io.EOF {
		w.over(i, c, 0)
		return
	}
	w.sendPending(i, c)
	w.fail(i, c, PhaseResponse, tlsconn.Explain(err), causeDropped)
}

// receivedShaking handles one record of a handshake, and returns what follows it.
func (w *worker) receivedShaking(i uint32, c *conn, b []byte) []byte {
	s := &w.tls.conns[i].conn
	var n int
	var err error
	w.shaking(i, func() { _, n, err = s.Next(b) })
	w.sendPending(i, c)
	switch {
	case err != nil:
		w.abandon(i, c, PhaseTLS, tlsconn.Explain(err))
	case s.Established():
		w.shaken(i, c)
	}
	return b[n:]
}

// shaken puts a connection to use after its handshake.
func (w *worker) shaken(i uint32, c *conn) {
	w.tls.Agreed = w.tls.conns[i].conn.Agreed()
	before, within := &w.tls.Setup, &w.tls.Window
	if w.tls.Agreed.Resumed {
		before, within = &w.tls.Resumed.Setup, &w.tls.Resumed.Window
	}
	if w.phase >= measuring {
		within.Record(w.clock() - c.since)
	} else {
		before.Record(w.clock() - c.since)
	}
	w.tally.Shakes.Count++
	w.stands(i, c)
}

// shakeOver handles a connection that ended during its handshake.
func (w *worker) shakeOver(i uint32, c *conn, no syscall.Errno) {
	cause := tlsconn.ErrHandshake.Error()
	if no != 0 && no != syscall.EPIPE {
		cause = sys.ErrnoName(no)
	}
	w.abandon(i, c, PhaseTLS, cause)
}

// cutOff reports whether the end of a connection may not be the server's: without close_notify a
// body that lasts until the end may be truncated (RFC 8446, section 6.1).
func (w *worker) cutOff(i uint32) bool { return w.tls != nil && w.tls.conns[i].conn.EOF() != nil }

// sendPending sends TLS's own messages.
func (w *worker) sendPending(i uint32, c *conn) {
	if b := w.tls.conns[i].conn.Pending(); len(b) > 0 {
		w.ring.Send(int(c.fd), b, c.tag(i))
		w.tally.Written += uint64(len(b))
	}
}

// sendSealed seals requests and sends them; if they are long, the first part now and the rest once
// it has left. It reuses the memory once a Wait has left none of it with the ring.
func (w *worker) sendSealed(i uint32, c *conn, b []byte) {
	s, tag := &w.tls.conns[i], c.tag(i)
	unsent := w.ring.Unsent(tag)
	if s.round != w.rounds && unsent == 0 {
		s.out = s.out[:0]
	}
	if len(b) > sealMost {
		b, s.rest = b[:sealMost], b[sealMost:]
	}
	if need := tlsconn.Sealed(len(b)); cap(s.out)-len(s.out) < need {
		// The ring keeps the old buffer as long as it needs it. The new one has room for several
		// sends of one batch.
		s.out = make([]byte, 0, max(need, min(2*cap(s.out), 2*sealMost)))
	}
	at := len(s.out)
	s.out, s.round = s.conn.Seal(s.out, b), w.rounds
	sealed := s.out[at:]
	if unsent == 0 && len(s.rest) == 0 {
		w.ring.Send(int(c.fd), sealed, tag)
	} else {
		c.sending = true
		w.ring.SendNotify(int(c.fd), sealed, tag)
	}
	w.tally.Written += uint64(len(sealed))
}

// sendRest continues what sendSealed left.
func (w *worker) sendRest(i uint32, c *conn) {
	s := &w.tls.conns[i]
	if rest := s.rest; len(rest) > 0 && c.state == open {
		s.rest = nil
		w.sendSealed(i, c, rest)
	}
}

// endTLS ends the TLS of a connection that is about to be closed, with a close_notify if nothing
// else waits to be sent.
func (w *worker) endTLS(i uint32, c *conn) {
	s := &w.tls.conns[i]
	s.rest = nil
	s.conn.End()
	if b := s.conn.Pending(); c.state == open && !c.sending {
		w.ring.Send(int(c.fd), b, c.tag(i))
		w.tally.Written += uint64(len(b))
	}
}

// add adds another worker's handshakes.
func (h *Handshakes) add(one *Handshakes) {
	h.Setup.Merge(&one.Setup)
	h.Window.Merge(&one.Window)
	h.Resumed.Setup.Merge(&one.Resumed.Setup)
	h.Resumed.Window.Merge(&one.Resumed.Window)
	h.CPUNs += one.CPUNs
	h.ResumedCPUNs += one.ResumedCPUNs
	if one.Agreed.Version != 0 {
		h.Agreed = one.Agreed
	}
}

// append adds the handshakes, or their absence, to the binary form of a result.
func (h *Handshakes) append(b []byte) []byte {
	if h == nil {
		return append(b, 0)
	}
	b = sized(sized(append(b, 1), h.Setup.AppendBinary), h.Window.AppendBinary)
	b = sized(sized(b, h.Resumed.Setup.AppendBinary), h.Resumed.Window.AppendBinary)
	b = binary.AppendUvarint(binary.AppendUvarint(b, uint64(h.CPUNs)), uint64(h.ResumedCPUNs))
	for _, n := range []uint16{h.Agreed.Version, h.Agreed.Suite, h.Agreed.Group} {
		b = binary.BigEndian.AppendUint16(b, n)
	}
	resumed := byte(0)
	if h.Agreed.Resumed {
		resumed = 1
	}
	return append(appendText(b, h.Agreed.Protocol), resumed)
}

// readHandshakes reads what append wrote.
func (r *reader) readHandshakes() *Handshakes {
	if !r.bool() {
		return nil
	}
	h := &Handshakes{}
	r.sized(h.Setup.UnmarshalBinary)
	r.sized(h.Window.UnmarshalBinary)
	r.sized(h.Resumed.Setup.UnmarshalBinary)
	r.sized(h.Resumed.Window.UnmarshalBinary)
	h.CPUNs, h.ResumedCPUNs = r.time(), r.time()
	for _, n := range []*uint16{&h.Agreed.Version, &h.Agreed.Suite, &h.Agreed.Group} {
		if b := r.take(2); b != nil {
			*n = binary.BigEndian.Uint16(b)
		}
	}
	h.Agreed.Protocol, h.Agreed.Resumed = r.text(), r.bool()
	if r.err != nil {
		return nil
	}
	return h
}
