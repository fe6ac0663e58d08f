package tlsconn

import "crypto/tls"

// sessions are the resumable sessions of a thread, in the form crypto/tls asks for: one server's,
// because a Client has one.
//
// A ticket of TLS 1.3 is used once (RFC 8446, appendix C.4) and each connection keeps the first
// that it gets; the session of TLS 1.2 is reused until the server sends another.
type sessions struct {
	client  *Client
	tickets []*tls.ClientSessionState
	lasting *tls.ClientSessionState
}

// sessionsMost bounds the tickets: as many as a thread may have connections.
const sessionsMost = 1 << 16

// Get implements tls.ClientSessionCache.
func (s *sessions) Get(string) (*tls.ClientSessionState, bool) {
	if last := len(s.tickets) - 1; last >= 0 {
		one := s.tickets[last]
		s.tickets[last], s.tickets = nil, s.tickets[:last]
		return one, true
	}
	return s.lasting, s.lasting != nil
}

// Put implements tls.ClientSessionCache: for TLS 1.2 within the handshake, for TLS 1.3 after it;
// nil withdraws one that failed.
func (s *sessions) Put(_ string, one *tls.ClientSessionState) {
	switch h := s.client.thread.current; {
	case one == nil || h == nil || !h.over:
		s.lasting = one
	case len(s.tickets) < sessionsMost:
		s.tickets = append(s.tickets, one)
		h.kept = true
	}
}

// AwaitsTicket reports whether the server may still send the ticket that this connection keeps: it
// does with its first bytes, or not at all.
func (c *Conn) AwaitsTicket() bool { return c.former != nil }

// keep lets crypto/tls process a ticket, since it alone has the secret that belongs to it. It has
// not read a record since the handshake, so the ticket must reach it as the first record, or as the
// next.
func (c *Conn) keep(body []byte) {
	h := c.former
	if h == nil || len(body) > plainMost-messageHeader {
		return
	}
	if h.relay.aead == nil {
		if h.err = h.relay.keys(c.agreed.Suite, h.secrets.server); h.err != nil {
			c.forget()
			return
		}
	}
	n := len(body)
	message := append([]byte{messageTicket, byte(n >> 16), byte(n >> 8), byte(n)}, body...)
	h.step(h.relay.seal(nil, typeHandshake, message))
	if h.kept || h.err != nil {
		c.forget()
	}
}

// forget ends the handshake that waited for a ticket.
func (c *Conn) forget() {
	if c.former != nil {
		c.former.stop()
		c.former = nil
	}
}
