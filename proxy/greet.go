package proxy

import (
	"bytes"
	"errors"
	"io"
	"runtime/debug"
	"syscall"

	"ceiling/internal/tlsconn"
)

// A client with TLS 1.3 is served by the loop that accepted it: crypto/tls
// makes the handshake on the loop's thread, and each record after it is one call of the
// cipher, from the ring's buffer and into a parcel. Who wants something else is found out
// by its ClientHello and handed to Beside, with all that it has sent. The reasons are in
// docs/decisions/031-tls-in-the-proxys-loop.md.

// greeting is a loop's part of handshakes.
type greeting struct {
	tls    *tlsconn.Server // nil: nobody is greeted
	steps  int             // of handshakes, in this turn
	queue  []*client       // whose next step is for a later turn
	spared []*client       // the queue's other half
}

// stepsMost bounds the steps of handshakes in a turn. One with a signature takes about
// 0.2 ms with P-256 and 1 ms with RSA, for which the other clients of the loop wait.
const stepsMost = 8

// ciphered is what a loop knows of a client's TLS.
type ciphered struct {
	tlsconn.Conn
	rest   [][]byte // of what is lent, and what follows it: to be sealed when there is room
	notice notice
}

// notice is what has become of our close_notify.
type notice uint8

const (
	noticeNone notice = iota
	noticeDue         // it goes out behind what is to be sent
	noticeSent
)

const (
	// sealPiece is what is sealed at a time: full records, in one large parcel.
	sealPiece = 64 << 10
	// sealRoom is what records need in a large parcel beside what they carry, with
	// close_notify and an update of keys.
	sealRoom = 256
)

// decipher takes what a client with TLS has sent.
func (c *client) decipher(data []byte) {
	switch c.state {
	case atPreface:
		c.received(data)
	case atGreeting:
		if c.listed {
			c.unlist()
		}
		c.keep(data)
		c.greetSoon()
	default:
		c.open(data)
	}
}

// greetSoon makes the next step of the handshake, in this turn unless others have
// taken all of it.
func (c *client) greetSoon() (made bool) {
	l := c.loop
	if l.steps < stepsMost {
		l.steps++
		c.greet()
		return true
	}
	c.intake = intakePaused // the receive had its event: see ring.ReceiveOnce
	l.queue = append(l.queue, c)
	l.hurry = true
	return false
}

// greetQueued goes on with those for whom there was no time.
func (l *loop) greetQueued() {
	l.steps = 0
	if len(l.queue) == 0 {
		return
	}
	list := l.queue
	l.queue, l.spared = l.spared[:0], nil
	for i, c := range list {
		list[i] = nil
		if c.fd >= 0 && c.state == atGreeting && c.greetSoon() && c.state == atGreeting {
			c.resume()
		}
	}
	l.spared = list[:0]
}

// greet gives the handshake what has come.
func (c *client) greet() {
	t, beside := c.tls, c.loop.proxy.options.Beside
	for c.at < c.have() {
		_, n, err := t.Next(c.in.b[c.at:])
		if errors.Is(err, tlsconn.ErrElsewhere) {
			c.handOver()
			return
		}
		c.sendRaw(t.Pending())
		if err != nil {
			beside.Failed(err)
			c.end()
			return
		}
		c.at += n
		if t.Established() {
			c.greeted()
			return
		}
	}
}

// greeted begins with requests.
func (c *client) greeted() {
	l, in, agreed := c.loop, c.in, c.tls.Agreed()
	rest := in.b[c.at:]
	c.in, c.at = nil, 0
	c.state = atHead
	l.proxy.options.Beside.Made(agreed.Version, agreed.Resumed)
	c.gulp()
	c.expire(l.site.timeouts.header)
	if c.enter() {
		c.waits()
		if agreed.Protocol == "h2" {
			l.speakHTTP2(c)
		}
		c.open(rest)
	}
	l.parcels.put(in)
	if c.fd >= 0 && c.state == atHead && c.in == nil && l.stopping {
		c.linger(false)
	}
}

// handOver gives the client, of which nothing but the ClientHello is known, to Beside.
// Its place among the loop's clients is free when it has one there.
func (c *client) handOver() {
	l, fd := c.loop, int(c.fd)
	begun := bytes.Clone(c.in.b)
	c.tls.Stop()
	l.ring.Release(fd, c.tag())
	c.fd, c.deadline = -1, 0
	l.forget(&c.conn)
	l.parcels.put(c.in)
	c.in = nil
	c.state = atLinger
	delete(l.clients, c)
	l.proxy.options.Beside.Take(fd, Origin{Client: c.remote, Scheme: c.scheme}, begun, func() { l.handed.Add(1) })
}

// open decrypts.
func (c *client) open(data []byte) {
	for len(data) > 0 && c.fd >= 0 && !c.eof {
		plain, n, err := c.tls.Next(data)
		data = data[n:]
		if len(plain) > 0 {
			c.received(plain)
		}
		switch {
		case err == io.EOF: // close_notify: nothing more comes, as with a FIN
			c.over(0)
			return
		case err != nil && c.fd >= 0:
			c.loop.counts.badRecords++
			c.flush()
			c.sendRaw(c.tls.Pending())
			c.fail(err.Error())
			return
		}
	}
}

// tornOff tells whether the end of a client's bytes is dealt with, because TLS has its own
// idea of ends.
func (c *client) tornOff(err syscall.Errno) bool {
	switch {
	case c.state == atGreeting:
		cause := io.EOF
		if err != 0 {
			cause = err
		}
		c.loop.proxy.options.Beside.Failed(cause)
		c.end()
		return true
	case err != 0:
		return false
	case c.eof: // its close_notify has said so
		return c.state < atEnd
	case c.state == atTunnel: // without close_notify somebody on the way may have cut it
		c.end()
		return true
	}
	return false // a request is framed, and either whole or not
}

// sendRaw sends bytes that are sealed, behind what was to be sent.
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
func (c *conn) hand(p *parcel) {
	c.loop.ring.Send(int(c.fd), p.b, c.tag())
	c.pending = append(c.pending, p)
	c.unsettle()
}

// seal sends what is in out, as records.
func (c *conn) seal() {
	t, s, plain := c.tls, &c.loop.parcels, c.out
	c.out = nil
	c.leaving += int32(len(plain.b))
	c.flushed += int64(len(plain.b))
	if len(t.rest) > 0 { // it follows what is lent
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

// fit is a parcel with room for n bytes, at most a large one's.
func (s *parcels) fit(n int) *parcel {
	if n <= parcelBytes {
		return s.get()
	}
	return take(&s.large, largeBytes)
}

// lendSealed seals the next piece of what is lent. It is copied: the cipher wants a byte
// behind it, and the memory may be a file's.
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
			c.owner.unsendable(syscall.EFAULT) // as the kernel says of a file that is lent without TLS
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

// copyMapped copies from memory that may be a file's, and tells whether it is there: of a
// file that was cut behind our back the pages are gone, which is a fault (mmap(2), SIGBUS).
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

// unsent is what has not gone out of what is lent.
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

// notify has close_notify follow what is to be sent: that nothing more comes is ours to
// say (RFC 8446, section 6.1).
func (c *conn) notify() {
	if c.tls != nil && c.tls.notice == noticeNone && c.fd >= 0 && c.tls.Established() {
		c.tls.notice = noticeDue
		c.buffer()
	}
}

// part is the end of a client's TLS.
func (t *ciphered) part(from Beside) {
	if t.Established() {
		from.Left()
	}
	t.Stop()
}
