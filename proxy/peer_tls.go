package proxy

import (
	"io"
	"syscall"

	"ceiling/internal/tlsconn"
)

// A destination with TLS is served by the loop, as a client with TLS is: see
// docs/decisions/047-tls-to-destinations.md.

// tlsParty is the owner of a connection to a destination with TLS.
type tlsParty interface {
	party
	// secured: the handshake has succeeded.
	secured()
	// refused: it has not.
	refused(err error)
}

// startTLS begins the handshake on a connection that was just opened.
func (p *pool) startTLS(c *conn) {
	if p.tls == nil {
		p.tls = p.upstream.tls.newClient()
	}
	c.tls = new(ciphered)
	c.tls.Begin(p.tls)
	c.sendRaw(c.tls.Pending())
	c.receive()
}

// decrypt handles the bytes of a destination with TLS.
func decrypt(c *conn, o tlsParty, data []byte) {
	t := c.tls
	for len(data) > 0 && c.fd >= 0 {
		before := t.Established()
		plain, n, err := t.Next(data)
		data = data[n:]
		c.sendRaw(t.Pending())
		switch {
		case err != nil && !before:
			o.refused(err)
			return
		case !before && t.Established():
			o.secured()
		case len(plain) > 0:
			o.received(plain)
		}
		switch {
		case err == io.EOF: // close_notify: nothing more follows, as with a FIN
			o.ended(0)
			return
		case err != nil && c.fd >= 0:
			c.loop.counts.badRecords++
			o.ended(syscall.EPROTO)
			return
		}
	}
}

// torn reports whether the end of a connection's bytes may not be its owner's: without close_notify
// an attacker on the path may have cut it (RFC 8446, section 6.1).
func (t *ciphered) torn() bool { return t != nil && t.EOF() != nil }

// leave announces the end of a connection to a destination, as far as there is room, and frees its
// TLS.
func (t *ciphered) leave(c *conn) {
	if !c.blocked {
		c.sendRaw(t.CloseNotify(nil))
	}
	t.Stop()
}

// endOf is what a handshake that was cut off is refused for.
func endOf(no syscall.Errno) error {
	if no == 0 {
		return tlsconn.ErrHandshake
	}
	return no
}
