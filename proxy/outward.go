package proxy

import (
	"crypto/tls"
	"crypto/x509"
	"errors"
	"io"
	"strings"
	"syscall"

	"ceiling/internal/tlsconn"
)

// A destination with TLS is served by the loop, as a client with TLS is: see
// docs/decisions/047-tls-to-destinations.md.

// outward is the owner of a connection to a destination with TLS.
type outward interface {
	party
	// secured: the handshake has succeeded.
	secured()
	// refused: it has not.
	refused(err error)
}

// outerTLS is an upstream's TLS.
type outerTLS struct {
	config *tls.Config // nil: none is spoken
	failed trouble     // of handshakes
}

// newClient returns what makes the connections of one loop.
func (t *outerTLS) newClient() *tlsconn.Client {
	c := t.config
	return tlsconn.NewClient(tlsconn.Config{ServerName: c.ServerName, Roots: c.RootCAs, Insecure: c.InsecureSkipVerify,
		Certificate: c.GetClientCertificate, Protocols: c.NextProtos})
}

// note reports when handshakes begin to fail, or to fail for another reason, and when they succeed
// again.
func (t *outerTLS) note(key string, err error, report func(string)) {
	if err == nil {
		if t.failed.ends() {
			report("destination " + key + ": TLS works again")
		}
		return
	}
	if why := tlsconn.Explain(err); t.failed.begins(why) {
		report("destination " + key + ": TLS: " + why + "; requests that need a new connection get 502")
	}
}

// noProtocol is the alert of a server that accepts none of the offered protocols (RFC 7301,
// section 3.2); crypto/tls identifies it only by its text.
const noProtocol = "tls: no application protocol"

// errNoHTTP2: ALPN did not select h2, which the configuration requires.
var errNoHTTP2 = errors.New("the destination does not take HTTP/2 by ALPN")

// shownTLS returns why a handshake failed as clients may see it: without names and addresses.
func shownTLS(err error, http2 bool) string {
	var untrusted *tls.CertificateVerificationError
	var wrong x509.HostnameError
	var stranger x509.UnknownAuthorityError
	var invalid x509.CertificateInvalidError
	switch {
	case errors.Is(err, errNoHTTP2), http2 && strings.HasSuffix(err.Error(), noProtocol):
		return "TLS: " + errNoHTTP2.Error()
	case errors.As(err, &untrusted), errors.As(err, &wrong), errors.As(err, &stranger), errors.As(err, &invalid):
		return "TLS: the destination's certificate is not accepted"
	}
	return "TLS: the handshake failed"
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

// take handles the bytes that a connection received.
func (c *conn) take(data []byte) {
	if c.tls == nil {
		c.owner.received(data)
		return
	}
	switch o := c.owner.(type) {
	case *client:
		o.decipher(data)
	case outward:
		decrypt(c, o, data)
	}
}

// decrypt handles the bytes of a destination with TLS.
func decrypt(c *conn, o outward, data []byte) {
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
