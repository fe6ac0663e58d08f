// Package tlsconn is one end of TLS connections without I/O, client or server: received bytes go
// in, bytes to send come out, and the caller moves them. It is made for a loop that serves many
// connections from one thread.
//
// crypto/tls does the handshake. From then on a record is one call of the cipher, in the caller's
// buffer and without allocating (RFC 8446, section 5; RFC 5246, section 6.2.3.3). A client's TLS 1.2
// stays with crypto/tls, which costs a few more copies and switches, since servers may choose other
// ciphers.
package tlsconn

import (
	"bytes"
	"crypto/tls"
	"crypto/x509"
	"errors"
	"io"
	"time"
)

// Config says how to make connections.
type Config struct {
	// ServerName is sent (SNI, RFC 6066) and must be in the certificate: a name, or an address,
	// which is not sent but checked.
	ServerName string
	// Roots that a certificate must chain to; nil: those of this host.
	Roots *x509.CertPool
	// Insecure accepts any certificate.
	Insecure bool
	// Certificates of the client, if the server requests one; or Certificate, which is asked each time.
	Certificates []tls.Certificate
	Certificate  func(*tls.CertificateRequestInfo) (*tls.Certificate, error)
	// Protocols to offer (ALPN, RFC 7301).
	Protocols []string
	// Offered in the handshake.
	Offered Offer
	// Resume earlier sessions if the server issues tickets. TLS 1.3 still does its key exchange
	// (psk_dhe_ke); it saves the certificate and the signature.
	Resume bool
}

// Offer is what a handshake offers; zero and nil: crypto/tls's defaults, from TLS 1.2 on.
type Offer struct {
	Min, Max uint16 // versions
	Suites   []uint16
	Groups   []tls.CurveID
}

// Client makes the connections of one thread, and only that thread may use it.
type Client struct {
	thread
	config  *tls.Config
	verify  Config
	trusted []byte    // the last verified leaf
	until   time.Time // when its chain expires
}

// NewClient returns a Client.
func NewClient(c Config) *Client {
	client := &Client{verify: c}
	client.config = &tls.Config{
		ServerName: c.ServerName, Certificates: c.Certificates, NextProtos: c.Protocols,
		MinVersion: max(c.Offered.Min, tls.VersionTLS12), MaxVersion: c.Offered.Max, CipherSuites: c.Offered.Suites,
		CurvePreferences: c.Offered.Groups, KeyLogWriter: &client.thread, GetClientCertificate: c.Certificate,
		// check verifies the certificate: once per certificate, not per connection.
		InsecureSkipVerify: true, VerifyConnection: client.check,
	}
	if c.Resume {
		client.config.ClientSessionCache = &sessions{client: client}
	}
	return client
}

// check verifies the server's certificate as crypto/tls does.
func (c *Client) check(s tls.ConnectionState) error {
	leaf, now := s.PeerCertificates[0], time.Now()
	if c.verify.Insecure || bytes.Equal(leaf.Raw, c.trusted) && now.Before(c.until) {
		return nil
	}
	between := x509.NewCertPool()
	for _, other := range s.PeerCertificates[1:] {
		between.AddCert(other)
	}
	options := x509.VerifyOptions{DNSName: c.verify.ServerName, Roots: c.verify.Roots, Intermediates: between, CurrentTime: now}
	chains, err := leaf.Verify(options)
	if err != nil {
		return err
	}
	c.trusted, c.until = leaf.Raw, leaf.NotAfter
	for _, one := range chains[0] {
		if one.NotAfter.Before(c.until) {
			c.until = one.NotAfter
		}
	}
	return nil
}

// Errors that end a connection, besides a record's, and crypto/tls's in a handshake.
var (
	ErrIdle      = errors.New("too many TLS records without data")
	ErrHandshake = errors.New("connection closed in the TLS handshake")
	ErrTruncated = errors.New("connection closed without close_notify")
)

// idleMost is how many records without data may follow each other; two tickets, and key updates,
// are usual.
const idleMost = 32

// messageMost bounds a handshake message: a ticket has at most 64 KiB (RFC 8446, section 4.6.1),
// plus its frame.
const messageMost = 1<<16 + 1<<10

// Agreed is the result of a handshake.
type Agreed struct {
	// Version and Suite as crypto/tls numbers them.
	Version, Suite uint16
	// Group of the key exchange, also by number; 0: RSA key exchange.
	Group uint16
	// Protocol that the server chose (ALPN), "": none.
	Protocol string
	// Resumed reports whether it resumed an earlier session.
	Resumed bool
}

// Conn is one connection. The zero value is ready for Begin or Accept.
type Conn struct {
	thread  *thread
	server  *Server    // nil at a client's end
	shake   *handshake // in progress, or a client's TLS 1.2; nil: the halves are in use, or nothing has come yet
	former  *handshake // waits for a ticket; nil: none is wanted
	in, out half
	agreed  Agreed
	subject string // see Subject
	partial []byte // a record whose rest is pending
	message []byte // a handshake message whose rest is pending
	pending []byte // to be sent
	idle    int
	owed    bool // the peer has requested new keys from us
	err     error
}

// Begin starts the handshake: its first message is Pending.
func (c *Conn) Begin(client *Client) {
	*c = Conn{thread: &client.thread, shake: &handshake{thread: &client.thread, keeps: client.config.ClientSessionCache != nil}}
	c.shake.begin(tls.Client(c.shake, client.config))
	c.shake.step(nil)
	c.shaken()
}

// Accept makes c the server end of a new connection.
func (c *Conn) Accept(s *Server) { *c = Conn{thread: &s.thread, server: s} }

// shaken handles the result of a step of crypto/tls.
func (c *Conn) shaken() {
	h := c.shake
	if len(h.out) > 0 {
		c.pending, h.out = append(c.pending, h.out...), nil
	}
	if h.over && !c.Established() {
		s := h.conn.ConnectionState()
		c.agreed = Agreed{s.Version, s.CipherSuite, uint16(s.CurveID), s.NegotiatedProtocol, s.DidResume}
		if c.server != nil && len(s.PeerCertificates) > 0 {
			c.subject = s.PeerCertificates[0].Subject.String()
		}
		switch {
		case s.Version >= tls.VersionTLS13:
			if c.shake = nil; !h.ended {
				c.former = h
			}
			theirs, ours := h.secrets.server, h.secrets.client
			if c.server != nil {
				theirs, ours = ours, theirs
			}
			c.err = errors.Join(c.in.keys(s.CipherSuite, theirs), c.out.keys(s.CipherSuite, ours))
			c.out.seq = h.tickets // crypto/tls has sealed these with our keys
		case c.server != nil:
			c.shake = nil
			c.err = h.old.keys12(s.CipherSuite, &c.in, &c.out)
		}
	}
	if c.err == nil {
		c.err = h.err
	}
}

// Established reports whether the handshake has succeeded.
func (c *Conn) Established() bool { return c.agreed.Version != 0 }

// Agreed returns the result of the handshake, once Established.
func (c *Conn) Agreed() Agreed { return c.agreed }

// Subject returns that of the client's certificate at a server's end, as RFC 2253 writes it; "": it
// showed none.
func (c *Conn) Subject() string { return c.subject }

// Pending returns the bytes to send, which belong to the caller from then on.
func (c *Conn) Pending() []byte {
	b := c.pending
	c.pending = nil
	return b
}

// Next consumes the bytes of b that belong to the next record: n of them. plain is the record's
// application data, if any: a view of b, or of a buffer that is valid until the Client's next
// record. io.EOF is the peer's close_notify. An error is final; Pending then has the alert for the
// peer.
func (c *Conn) Next(b []byte) (plain []byte, n int, err error) {
	if c.err != nil {
		return nil, len(b), c.err
	}
	if c.server != nil && c.shake == nil && !c.Established() { // the first byte: a client that sends none costs nothing
		c.shake = c.server.newHandshake()
	}
	record, n := c.whole(b)
	if record == nil {
		return nil, n, c.err
	}
	if c.shake != nil {
		plain = c.shake.step(record)
		c.shaken()
		return plain, n, c.err
	}
	kind, plain, err := c.in.open(record)
	switch {
	case err != nil:
	case kind == typeData && len(plain) > 0 && len(c.message) == 0:
		c.idle = 0
		c.forget()
		return plain, n, nil
	default:
		plain, err = nil, c.other(kind, plain)
	}
	if err != nil {
		c.fail(err)
	}
	return plain, n, err
}

// whole returns the record at the start of b, including earlier pieces of it; nil: more of it is
// pending. It takes n bytes of b.
func (c *Conn) whole(b []byte) (record []byte, n int) {
	if len(c.partial) == 0 && len(b) >= headerBytes {
		size, ok := c.size(b)
		if !ok {
			return c.malformed(b), len(b)
		}
		if len(b) >= size {
			return b[:size], size
		}
	}
	if cap(c.partial) == 0 {
		c.partial = c.thread.buffer()
	}
	if missing := headerBytes - len(c.partial); missing > 0 {
		n = min(missing, len(b))
		c.partial = append(c.partial, b[:n]...)
		if len(c.partial) < headerBytes {
			return nil, n
		}
	}
	size, ok := c.size(c.partial)
	if !ok {
		return c.malformed(c.partial), len(b)
	}
	more := min(size-len(c.partial), len(b)-n)
	c.partial = append(c.partial, b[n:n+more]...)
	n += more
	if len(c.partial) < size {
		return nil, n
	}
	record = c.partial
	c.thread.spare = append(c.thread.spare, record)
	c.partial = nil
	return record, n
}

// size returns the size of the record that begins with b, header included. ok reports whether that
// size is allowed and, in a handshake, whether it is TLS at all.
func (c *Conn) size(b []byte) (size int, ok bool) {
	n := int(b[3])<<8 | int(b[4])
	if c.shake != nil {
		return headerBytes + n, b[1] == 3 && n <= sealedMost12
	}
	return headerBytes + n, n <= sealedMost
}

// malformed gives the beginning of an invalid record to crypto/tls, which words the error, or
// rejects it.
func (c *Conn) malformed(b []byte) []byte {
	if c.shake != nil {
		return b
	}
	if b[0] == typeData {
		c.fail(ErrOversize)
	} else {
		c.fail(ErrUnexpected)
	}
	return nil
}

// Seal appends the records that carry plain to dst.
func (c *Conn) Seal(dst, plain []byte) []byte {
	if c.shake != nil {
		h := c.shake
		_, _ = h.conn.Write(plain) // fails if the connection has, which Next reports
		dst = append(dst, h.out...)
		h.out = h.out[:0]
		return dst
	}
	for len(plain) > 0 {
		n := min(len(plain), plainMost)
		if c.owed || c.out.seq >= keyRecords && c.out.about == nil {
			dst = c.renew(dst)
		}
		dst = c.out.seal(dst, typeData, plain[:n])
		plain = plain[n:]
	}
	return dst
}

// SealApart is Seal where dst does not overlap plain: except for a client's TLS 1.2 it encrypts from one
// to the other, without a prior copy. It temporarily changes the byte after each piece of plain, so
// plain's memory must be the caller's alone.
func (c *Conn) SealApart(dst, plain []byte) []byte {
	if c.shake != nil {
		return c.Seal(dst, plain) // crypto/tls copies anyway
	}
	for len(plain) > 0 {
		n := min(len(plain), plainMost)
		if n == cap(plain) { // no byte after it
			return c.Seal(dst, plain)
		}
		if c.owed || c.out.seq >= keyRecords && c.out.about == nil {
			dst = c.renew(dst)
		}
		dst = c.out.sealApart(dst, plain[:n+1])
		plain = plain[n:]
	}
	return dst
}

// Sealed returns how many bytes Seal adds for n bytes, with TLS 1.3.
func Sealed(n int) int { return n + (n/plainMost+1)*(headerBytes+1+tagBytes) }

// EOF returns what it means that the peer's bytes end here: nil after its close_notify.
func (c *Conn) EOF() error {
	switch {
	case c.err == io.EOF:
		return nil
	case c.err != nil:
		return c.err
	case !c.Established():
		if c.shake != nil {
			c.shake.eof = true
		}
		return ErrHandshake
	}
	return ErrTruncated
}

// End releases what the connection holds. If it was still open, close_notify is Pending.
func (c *Conn) End() {
	if c.thread == nil {
		return
	}
	c.pending = c.CloseNotify(c.pending)
	pending := c.pending
	c.Stop()
	c.pending = pending
}

// CloseNotify appends the close_notify alert to dst, if the connection is still open (RFC 8446,
// section 6.1).
func (c *Conn) CloseNotify(dst []byte) []byte {
	switch h := c.shake; {
	case !c.Established():
	case h == nil && (c.err == nil || c.err == io.EOF):
		dst = c.out.seal(dst, typeAlert, []byte{alertWarning, alertClose})
	case h != nil && c.err == nil:
		_ = h.conn.CloseWrite() // into memory
		dst = append(dst, h.out...)
		h.out = nil
	}
	return dst
}

// Stop releases what the connection holds, without notifying the peer.
func (c *Conn) Stop() {
	if c.shake != nil {
		c.shake.stop()
	}
	c.forget()
	if cap(c.partial) > 0 {
		c.thread.spare = append(c.thread.spare, c.partial)
	}
	*c = Conn{}
}
