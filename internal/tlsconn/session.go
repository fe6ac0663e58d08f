package tlsconn

import "crypto/tls"

// sessions are what a thread's servers have given it to go on from, as crypto/tls
// asks for it: one server's, for a Client has one.
//
// A ticket of TLS 1.3 is used once (RFC 8446, appendix C.4) and each connection keeps
// the first that it gets; the session of TLS 1.2 serves until the server has another.
type sessions struct {
	client  *Client
	tickets []*tls.ClientSessionState
	lasting *tls.ClientSessionState
}

// sessionsMost bounds the tickets: as many as connections of a thread may stand.
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

// Put implements tls.ClientSessionCache: of TLS 1.2 within the handshake, of TLS 1.3
// behind it; nil takes one back that did not serve.
func (s *sessions) Put(_ string, one *tls.ClientSessionState) {
	switch h := s.client.thread.current; {
	case one == nil || h == nil || !h.over:
		s.lasting = one
	case len(s.tickets) < sessionsMost:
		s.tickets = append(s.tickets, one)
		h.kept = true
	}
}

// AwaitsTicket tells whether the server may yet send the ticket that this connection
// keeps: it does with its first bytes, or not at all.
func (c *Conn) AwaitsTicket() bool { return c.former != nil }

// keep has crypto/tls take a ticket, which alone has the secret that belongs to it. It
// has not read a record since the handshake, so the ticket comes to it as the first
// one, or as the next.
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
