package proxy

import (
	"syscall"

	"ceiling/internal/ring"
)

// A party is the owner of a loop's socket. Its methods are called only from the loop.
type party interface {
	// received handles incoming bytes, at least one; data is valid until the turn ends.
	received(data []byte)
	// ended: nothing more arrives, because the peer has closed (0) or failed.
	ended(err syscall.Errno)
	// unsendable: what was sent will not arrive.
	unsendable(err syscall.Errno)
	// stalled: what was sent finds no room; its source should pause.
	stalled()
	// drained: everything was sent, after a stall or a call to conn.deferDrain.
	drained()
	// expired: the deadline has passed.
	expired()
}

// A parcel is a buffer for bytes to send, or received in parts.
type buffer struct{ b []byte }

const (
	// parcelBytes fits a head with a small body, and a receive buffer with its chunk framing.
	// largeBytes fits what a turn takes of a large body, see conn.more: a client that does not
	// read holds one of each.
	parcelBytes = 17 << 10
	largeBytes  = 68 << 10
	// maxSpare and maxLarge bound the parcels kept for reuse: 17 MiB per loop, and as much again.
	maxSpare = 1024
	maxLarge = 256
)

// parcels are stacks of spare parcels: the one warm in the cache comes first.
type parcels struct{ spare, large []*buffer }

func (s *parcels) get() *buffer { return take(&s.spare, parcelBytes) }

func take(stack *[]*buffer, size int) *buffer {
	if n := len(*stack); n > 0 {
		p := (*stack)[n-1]
		*stack = (*stack)[:n-1]
		return p
	}
	return &buffer{make([]byte, 0, size)}
}

func (s *parcels) put(p *buffer) {
	p.b = p.b[:0]
	switch size := cap(p.b); {
	case size < largeBytes && size <= 2*parcelBytes && len(s.spare) < maxSpare:
		s.spare = append(s.spare, p)
	case size == largeBytes && len(s.large) < maxLarge:
		s.large = append(s.large, p)
	}
}

// readMode is how a connection receives.
//
//	from          to            when
//	any           intakePaused  the sink is full, or a flow takes over (conn.pause)
//	intakePaused  intakePiece   there is room again (conn.resume)
//	any           intakeStream  another sink follows (conn.gulp)
//	intakeStream  intakePiece   a connection to a destination with large responses
type readMode uint8

const (
	intakeStream readMode = iota // everything that arrives
	intakePiece                  // one piece at a time: its sink was full once, or may be
	intakePaused                 // nothing
)

// conn is one socket of a loop. It sends nothing before the turn ends, so that what belongs
// together leaves together.
type conn struct {
	loop       *loop
	owner      party
	fd         int32 // -1: closed
	index      uint32
	generation uint32

	dirty         bool // is in loop.dirty: out must be sent
	unsettled     bool // is in loop.sent: check whether everything was sent
	blocked       bool // no room for what was sent; a Sent event will follow
	drainDeferred bool // call drained when everything was sent
	tcp           bool // the socket can be spliced
	intake        readMode

	leaving int32     // bytes sent since the last Wait: a few megabytes at most
	flushed int64     // bytes of out given to the ring
	out     *buffer   // to be sent when the turn ends
	pending []*buffer // sent, perhaps not yet transmitted

	source, sink *flow     // what is spliced from here, and to here
	tls          *ciphered // nil for plain traffic

	session *session     // nil for HTTP/1.1
	stream  *stream      // a client without a socket
	outward *peerSession // nil unless this is HTTP/2 to a destination
	call    *call        // a peer without a socket

	deadline int64 // loop's clock; 0 for none
	checkAt  int64 // tick at which the wheel checks it; 0 for never
}

func (c *conn) tag() ring.Tag { return ring.MakeTag(c.index, c.generation) }

// buffer returns where to append the next bytes to send.
func (c *conn) buffer() *buffer {
	if c.out == nil {
		c.out = c.loop.parcels.get()
		c.mark()
	}
	return c.out
}

// mark schedules the pending output to be sent when the turn ends.
func (c *conn) mark() {
	switch {
	case c.stream != nil:
		c.stream.ready()
	case c.call != nil:
		c.call.ready()
	case !c.dirty:
		c.dirty = true
		c.loop.sending.dirty = append(c.loop.sending.dirty, c)
	}
}

// room returns a buffer with space for n more bytes: a larger parcel if they do not fit, or a
// fresh one after flushing a full large one.
func (c *conn) room(n int) *buffer {
	p := c.buffer()
	if cap(p.b)-len(p.b) >= n {
		return p
	}
	s := &c.loop.parcels
	most := largeBytes
	if c.tls != nil {
		most -= sealRoom
	}
	if len(p.b)+n <= most {
		large := take(&s.large, largeBytes)
		large.b = append(large.b, p.b...)
		s.put(p)
		c.out = large
		return large
	}
	c.flush()
	c.out = take(&s.large, largeBytes)
	c.mark()
	return c.out
}

// write sends a copy of b.
func (c *conn) write(b []byte) {
	p := c.room(len(b))
	p.b = append(p.b, b...)
}

// lend sends b itself, which must not change until the connection has drained.
func (c *conn) lend(b []byte) {
	c.flush()
	if c.stream != nil {
		c.stream.lent(b)
		return
	}
	if t := c.tls; t != nil {
		if t.rest = append(t.rest, b); len(t.rest) == 1 {
			c.lendSealed()
		}
		return
	}
	c.loop.ring.Send(int(c.fd), b, c.tag())
	c.unsettle()
}

// flush hands the pending output to the ring.
func (c *conn) flush() {
	if c.out == nil || c.fd < 0 {
		return
	}
	if c.stream != nil {
		c.stream.enqueue()
		return
	}
	if c.call != nil {
		c.call.enqueue()
		return
	}
	if c.tls != nil {
		c.seal()
		return
	}
	c.loop.ring.Send(int(c.fd), c.out.b, c.tag())
	c.pending = append(c.pending, c.out)
	c.leaving += int32(len(c.out.b))
	c.flushed += int64(len(c.out.b))
	c.out = nil
	c.unsettle()
}

func (c *conn) unsettle() {
	if !c.unsettled {
		c.unsettled = true
		c.loop.sending.sent = append(c.loop.sending.sent, c)
	}
}

// deferDrain schedules drained for a later turn, once all output was sent.
func (c *conn) deferDrain() {
	c.drainDeferred = true
	c.loop.hurry = true
	c.unsettle()
}

// settle checks, one Wait after a send, whether everything was sent.
func (c *conn) settle() {
	c.unsettled, c.leaving = false, 0
	switch {
	case c.fd < 0:
		return
	case c.stream != nil:
		c.stream.settle()
		return
	case c.call != nil:
		c.call.settle()
		return
	case c.blocked:
		return
	}
	if c.loop.ring.Unsent(c.tag()) > 0 {
		c.blocked = true
		c.loop.ring.SendNotify(int(c.fd), nil, c.tag())
		c.owner.stalled()
		return
	}
	c.release()
	if c.drainDeferred {
		c.drainDeferred = false
		c.owner.drained()
	}
}

// sent handles the event that what preceded a SendNotify was sent.
func (c *conn) sent() {
	if c.loop.ring.Unsent(c.tag()) > 0 {
		c.loop.ring.SendNotify(int(c.fd), nil, c.tag())
		return
	}
	c.blocked, c.drainDeferred = false, false
	c.release()
	c.owner.drained()
}

// release frees the parcels that were sent.
func (c *conn) release() {
	for i, p := range c.pending {
		c.loop.parcels.put(p)
		c.pending[i] = nil
	}
	c.pending = c.pending[:0]
}

// pause stops a source whose sink is full. Afterwards it receives piece by piece: otherwise
// everything in its socket, which is megabytes, would arrive before the sink could report again
// that it is full.
func (c *conn) pause() {
	if c.intake != intakePaused {
		c.intake = intakePaused
		if c.hasSocket() {
			c.loop.ring.Pause(c.tag())
		}
	}
}

func (c *conn) resume() {
	if c.intake == intakePaused && c.fd >= 0 && c.source == nil {
		c.intake = intakePiece
		c.receive()
	}
}

// receive requests the next input.
func (c *conn) receive() {
	switch {
	case c.stream != nil:
		c.stream.returnCredit()
	case c.call != nil:
		c.call.returnCredit()
	case c.intake == intakePiece:
		c.loop.ring.ReceiveOnce(int(c.fd), c.tag())
	default:
		c.loop.ring.Receive(int(c.fd), c.tag())
	}
}

// hasSocket reports whether c is a connection, not a stream of one.
func (c *conn) hasSocket() bool { return c.stream == nil && c.call == nil }

// gulp returns to unlimited receiving, because another sink follows.
func (c *conn) gulp() {
	if c.intake != intakeStream && c.fd >= 0 && c.source == nil {
		c.intake = intakeStream
		c.receive()
	}
}

// close closes at once. It leaves parcels that the ring may still use to the garbage collector.
func (c *conn) close() {
	if c.fd < 0 {
		return
	}
	c.unsplice()
	if c.tls != nil {
		if _, out := c.owner.(tlsParty); out { // a client's ends before
			c.tls.leave(c)
		}
	}
	switch {
	case c.stream != nil:
		c.stream.cut()
	case c.call != nil:
		c.call.leave()
	default:
		c.loop.ring.Close(int(c.fd), c.tag())
	}
	c.fd, c.deadline = -1, 0
	if c.out != nil {
		c.loop.parcels.put(c.out)
		c.out = nil
	}
	c.pending = nil
	c.loop.forget(c)
}

// expire sets the deadline, in from now; 0 or less is none.
func (c *conn) expire(in int64) {
	if in <= 0 {
		c.deadline = 0
		return
	}
	c.deadline = c.loop.now + in
	c.loop.wheel.set(c)
}

const (
	wheelSlots = 512
	// tickNs is the width of a slot and the error of a deadline: 64 ms, in a
	// round of 33 s.
	tickNs = 64 << 20
)

// wheel finds the connections whose deadline has passed. A connection has at most one valid
// entry. Extending a deadline only stores it: when its slot comes up, the entry moves on. So a
// request costs the wheel nothing.
type wheel struct {
	slots [wheelSlots][]timed
	at    int64 // tick up to which it was turned
}

type timed struct{ index, generation uint32 }

func (w *wheel) set(c *conn) {
	tick := min(c.deadline/tickNs+1, w.at+wheelSlots-1)
	tick = max(tick, w.at+1)
	if c.checkAt != 0 && c.checkAt <= tick {
		return
	}
	c.checkAt = tick
	slot := &w.slots[tick%wheelSlots]
	*slot = append(*slot, timed{c.index, c.generation})
}

// turn calls expired for everything due by now.
func (w *wheel) turn(l *loop, now int64) {
	for end := now / tickNs; w.at < end; {
		w.at++
		slot := &w.slots[w.at%wheelSlots]
		list := *slot
		*slot = list[:0] // entries added now go to other slots
		for _, t := range list {
			c := l.connAt(t.index, t.generation)
			if c == nil || c.checkAt != w.at {
				continue
			}
			c.checkAt = 0
			switch {
			case c.deadline == 0:
			case c.deadline <= now:
				c.deadline = 0
				c.owner.expired()
			default:
				w.set(c)
			}
		}
	}
}
