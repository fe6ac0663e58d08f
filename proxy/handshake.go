package proxy

import (
	"bytes"
	"io"
	"runtime/debug"
	"strings"
	"syscall"

	"ceiling/internal/tlsconn"
	"ceiling/proxy/secure"
)

// A client with TLS is served by the loop that accepted it: crypto/tls runs the handshake on the
// loop's thread, and each record afterwards is one call of the cipher, from the ring's buffer into a
// parcel. See docs/decisions/031-tls-in-the-proxys-loop.md for the reasons.

// handshake is a loop's state for handshakes.
type handshake struct {
	tls    *tlsconn.Server // nil without TLS
	steps  int             // handshake steps in this turn
	queue  []*client       // clients whose next step is deferred to a later turn
	spared []*client       // the queue's other half
}

// stepsMost bounds the handshake steps per turn. A step with a signature takes about 0.2 ms with
// P-256 and 1 ms with RSA, during which the loop's other clients wait.
const stepsMost = 8

// ciphered is a loop's TLS state of a client.
type ciphered struct {
	tlsconn.Conn
	rest   [][]byte // lent memory and what follows it, to be sealed when there is room
	notice notice
}

// notice is the state of our close_notify.
type notice uint8

const (
	noticeNone notice = iota
	noticeDue         // it follows the pending output
	noticeSent
)

const (
	// sealPiece is what is sealed at a time: full records, in one large parcel.
	sealPiece = 64 << 10
	// sealRoom is the overhead of the records in a large parcel, including close_notify and a key
	// update.
	sealRoom = 256
)

// decipher handles input from a client with TLS.
func (c *client) decipher(data []byte) {
	switch c.state {
	case atPreface:
		c.received(data)
	case atGreeting:
		c.keep(data)
		if c.listed { // these are its first bytes
			if c.unlist(); speaksHTTP(data) {
				c.conn.tls = nil
				c.conn.loop.admission.secured.failures[notTLS]++
				if c.enter() { // a failed handshake would say nothing to it
					c.refuse(400, "this is plain HTTP, and a port for TLS: use https")
				}
				return
			}
		}
		c.greetSoon()
	default:
		c.open(data)
	}
}

// greetSoon makes the next handshake step, in this turn unless others have used it up.
func (c *client) greetSoon() (made bool) {
	l := c.conn.loop
	if l.admission.steps < stepsMost {
		l.admission.steps++
		c.startHandshake()
		return true
	}
	c.conn.intake = intakePaused // the receive has delivered its event: see ring.ReceiveOnce
	l.admission.queue = append(l.admission.queue, c)
	l.hurry = true
	return false
}

// greetQueued continues with the deferred clients.
func (l *loop) greetQueued() {
	l.admission.steps = 0
	if len(l.admission.queue) == 0 {
		return
	}
	list := l.admission.queue
	l.admission.queue, l.admission.spared = l.admission.spared[:0], nil
	for i, c := range list {
		list[i] = nil
		if c.conn.fd >= 0 && c.state == atGreeting && c.greetSoon() && c.state == atGreeting {
			c.conn.resume()
		}
	}
	l.admission.spared = list[:0]
}

// startHandshake feeds the handshake with the received bytes.
func (c *client) startHandshake() {
	t := c.conn.tls
	for c.at < c.have() {
		_, n, err := t.Next(c.in.b[c.at:])
		c.conn.sendRaw(t.Pending())
		if err != nil {
			c.conn.loop.admission.secured.failed(err)
			c.end()
			return
		}
		c.at += n
		if t.Established() {
			c.handshakeDone()
			return
		}
	}
}

// speaksHTTP reports whether the first bytes are those of a plain request, a method. Those of TLS are no letters
// (RFC 8446, section 5.1).
func speaksHTTP(b []byte) bool {
	method, _, _ := bytes.Cut(b[:min(len(b), len("GET "))], []byte{' '})
	return len(bytes.Trim(method, "ABCDEFGHIJKLMNOPQRSTUVWXYZ")) == 0
}

// inField replaces what a field cannot have.
func inField(r rune) rune {
	if r < ' ' || r == 0x7f {
		return '?'
	}
	return r
}

// handshakeDone starts reading requests.
func (c *client) handshakeDone() {
	l, in, agreed := c.conn.loop, c.in, c.conn.tls.Agreed()
	rest := in.b[c.at:]
	c.in, c.at = nil, 0
	c.state = atHead
	l.admission.secured.made(agreed.Version, agreed.Resumed)
	c.conn.resume()
	c.conn.expire(l.site.timeouts.header)
	switch {
	case secure.IsChallenge(agreed.Protocol):
		c.linger(false)
	case c.enter():
		c.subject = strings.Map(inField, c.conn.tls.Subject())
		c.waits()
		if agreed.Protocol == "h2" {
			c.conn.gulp()
			l.speakHTTP2(c)
		}
		c.open(rest)
	}
	l.parcels.put(in)
}

// open decrypts.
func (c *client) open(data []byte) {
	for len(data) > 0 && c.conn.fd >= 0 && !c.eof {
		plain, n, err := c.conn.tls.Next(data)
		data = data[n:]
		if len(plain) > 0 {
			c.received(plain)
		}
		switch {
		case err == io.EOF: // close_notify: nothing more follows, as with a FIN
			c.over(0)
			return
		case err != nil && c.conn.fd >= 0:
			c.conn.loop.counts.badRecords++
			c.conn.flush()
			c.conn.sendRaw(c.conn.tls.Pending())
			c.fail(err.Error())
			return
		}
	}
}

// tornOff reports whether it has handled the end of a client's bytes, because TLS marks ends in
// its own way.
func (c *client) tornOff(err syscall.Errno) bool {
	switch {
	case c.state == atGreeting:
		cause := io.EOF
		if err != 0 {
			cause = err
		}
		c.conn.loop.admission.secured.failed(cause)
		c.end()
		return true
	case err != 0:
		return false
	case c.eof: // its close_notify said so
		return c.state < atEnd
	case c.state == atTunnel: // without close_notify, an attacker on the path may have cut it
		c.end()
		return true
	}
	return false // a request is framed, and either complete or not
}

// sendRaw sends sealed bytes after the pending output.
func (c *conn) sendRaw(b []byte) {
	if len(b) == 0 || c.fd < 0 {
		return
	}
	c.flush()
	p := c.loop.parcels.get()
	p.b = append(p.b, b...)
	c.hand(p)
}

// hand gives a parcel to the ring.
func (c *conn) hand(p *buffer) {
	c.loop.ring.Send(int(c.fd), p.b, c.tag())
	c.pending = append(c.pending, p)
	c.unsettle()
}

// seal sends out as records.
func (c *conn) seal() {
	t, s, plain := c.tls, &c.loop.parcels, c.out
	c.out = nil
	c.leaving += int32(len(plain.b))
	c.flushed += int64(len(plain.b))
	if len(t.rest) > 0 { // it follows lent memory
		t.rest = append(t.rest, bytes.Clone(plain.b))
		s.put(plain)
		return
	}
	b := plain.b
	for {
		n := len(b)
		if n > largeBytes-sealRoom {
			n = sealPiece
		}
		p := s.fit(n + sealRoom)
		p.b = t.SealApart(p.b, b[:n])
		b = b[n:]
		if len(b) == 0 && t.notice == noticeDue {
			t.notice = noticeSent
			p.b = t.CloseNotify(p.b)
		}
		c.hand(p)
		if len(b) == 0 {
			break
		}
	}
	s.put(plain)
}

// fit returns a parcel with room for n bytes, at most a large one's.
func (s *parcels) fit(n int) *buffer {
	if n <= parcelBytes {
		return s.get()
	}
	return take(&s.large, largeBytes)
}

// lendSealed seals the next piece of the lent memory. It copies it: the cipher needs one byte
// after it, and the memory may be a file's.
func (c *conn) lendSealed() {
	t, s := c.tls, &c.loop.parcels
	plain, sealed := take(&s.large, largeBytes), take(&s.large, largeBytes)
	for len(t.rest) > 0 && len(plain.b) < sealPiece {
		n := min(len(t.rest[0]), sealPiece-len(plain.b))
		at := len(plain.b)
		plain.b = plain.b[:at+n]
		if !copyMapped(plain.b[at:], t.rest[0][:n]) {
			s.put(plain)
			s.put(sealed)
			c.owner.unsendable(syscall.EFAULT) // as the kernel reports for a file lent without TLS
			return
		}
		if t.rest[0] = t.rest[0][n:]; len(t.rest[0]) == 0 {
			t.rest = t.rest[1:]
		}
	}
	sealed.b = t.SealApart(sealed.b, plain.b)
	c.leaving += int32(len(plain.b))
	s.put(plain)
	c.hand(sealed)
}

// copyMapped copies from memory that may be a file's, and reports whether it is there: the pages
// of a file that was truncated since are gone, which is a fault (mmap(2), SIGBUS).
func copyMapped(to, from []byte) (whole bool) {
	defer debug.SetPanicOnFault(debug.SetPanicOnFault(true))
	defer func() {
		if fault := recover(); fault != nil {
			if _, isFault := fault.(interface{ Addr() uintptr }); !isFault {
				panic(fault)
			}
			whole = false
		}
	}()
	return copy(to, from) == len(to)
}

// unsent returns how much of the lent memory was not sent.
func (c *conn) unsent() int {
	if c.stream != nil {
		c.stream.enqueue()
		return c.stream.held
	}
	n := c.loop.ring.Unsent(c.tag())
	if c.tls != nil {
		for _, b := range c.tls.rest {
			n += len(b)
		}
	}
	return n
}

// notify sends close_notify after the pending output: we must announce our end (RFC 8446, section
// 6.1).
func (c *conn) notify() {
	if c.tls != nil && c.tls.notice == noticeNone && c.fd >= 0 && c.tls.Established() {
		c.tls.notice = noticeDue
		c.buffer()
	}
}

// part ends a client's TLS.
func (l *loop) part(t *ciphered) {
	if t.Established() {
		l.admission.secured.clients--
	}
	t.Stop()
}
