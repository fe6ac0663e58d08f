package proxy

import (
	"syscall"

	"ceiling/internal/ring"
)

// A party is what stands behind a socket of a loop. Its methods are called from
// the loop alone.
type party interface {
	// received takes what has come, at least one byte, a view valid until the
	// turn ends.
	received(data []byte)
	// ended tells that nothing more comes: the peer has closed (0) or failed.
	ended(err syscall.Errno)
	// unsendable tells that what was sent will not arrive.
	unsendable(err syscall.Errno)
	// stalled tells that what was sent finds no room: its source should pause.
	stalled()
	// drained tells that all that was sent is out, after a stall or when asked
	// for with conn.atEase.
	drained()
	// expired tells that the deadline is over.
	expired()
}

// A parcel is memory for what is sent, or received in parts.
type parcel struct{ b []byte }

const (
	// parcelBytes fits a head with a small body, and a receive buffer with the
	// frame of its chunk. largeBytes fits what is taken of a large body in a turn, see
	// conn.more: whoever does not read holds one of each.
	parcelBytes = 17 << 10
	largeBytes  = 68 << 10
	// maxSpare and maxLarge bound the parcels that are kept: 17 MiB for each loop,
	// and as much again.
	maxSpare = 1024
	maxLarge = 256
)

// parcels are stacks of spare parcels: the one that is warm in the cache comes
// first.
type parcels struct{ spare, large []*parcel }

func (s *parcels) get() *parcel { return take(&s.spare, parcelBytes) }

func take(stack *[]*parcel, size int) *parcel {
	if n := len(*stack); n > 0 {
		p := (*stack)[n-1]
		*stack = (*stack)[:n-1]
		return p
	}
	return &parcel{make([]byte, 0, size)}
}

func (s *parcels) put(p *parcel) {
	p.b = p.b[:0]
	switch size := cap(p.b); {
	case size < largeBytes && size <= 2*parcelBytes && len(s.spare) < maxSpare:
		s.spare = append(s.spare, p)
	case size == largeBytes && len(s.large) < maxLarge:
		s.large = append(s.large, p)
	}
}

// intake is how a connection is received from.
//
//	from          to            when
//	any           intakePaused  the sink is full, or a flow takes over (conn.pause)
//	intakePaused  intakePiece   there is room again (conn.resume)
//	any           intakeStream  another sink follows (conn.gulp)
//	intakeStream  intakePiece   a connection to a destination with large responses
type intake uint8

const (
	intakeStream intake = iota // all that comes
	intakePiece                // a piece at a time: its sink was full once, or may be
	intakePaused               // nothing
)

// conn is one socket of a loop. Nothing is sent before the turn ends, so that
// what belongs together leaves together.
type conn struct {
	loop       *loop
	owner      party
	fd         int32 // -1: closed
	index      uint32
	generation uint32

	dirty     bool // stands in loop.dirty: out is to be sent
	unsettled bool // stands in loop.sent: whether it is out is to be looked at
	blocked   bool // what was sent has no room; a Sent event will tell
	ease      bool // drained is to be called when all is out
	tcp       bool // the socket can be spliced
	intake    intake

	leaving int32     // bytes sent since the last Wait: a few megabytes at most
	flushed int64     // bytes of out that the ring was given
	out     *parcel   // to be sent when the turn ends
	pending []*parcel // sent, perhaps not out

	source, sink *flow     // what is spliced from here, and to here
	tls          *ciphered // nil: what is sent and received is plain

	session *session     // nil: HTTP/1.1 is spoken
	stream  *stream      // a client without a socket
	outward *peerSession // nil: not to a destination with HTTP/2
	call    *call        // a peer without a socket

	deadline int64 // loop's clock; 0: none
	checkAt  int64 // tick at which the wheel looks at it; 0: it does not
}

func (c *conn) tag() ring.Tag { return ring.MakeTag(c.index, c.generation) }

// buffer is where the next bytes to send are appended.
func (c *conn) buffer() *parcel {
	if c.out == nil {
		c.out = c.loop.parcels.get()
		c.mark()
	}
	return c.out
}

// mark has what is to be sent looked at when the turn ends.
func (c *conn) mark() {
	switch {
	case c.stream != nil:
		c.stream.ready()
	case c.call != nil:
		c.call.ready()
	case !c.dirty:
		c.dirty = true
		c.loop.dirty = append(c.loop.dirty, c)
	}
}

// room is buffer with place for n bytes more: in a larger parcel where they do not
// fit, and behind what is sent at once where that is full.
func (c *conn) room(n int) *parcel {
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

// flush hands what is to be sent to the ring.
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
		c.loop.sent = append(c.loop.sent, c)
	}
}

// atEase has drained called once all that was written is out, in a later turn.
func (c *conn) atEase() {
	c.ease = true
	c.loop.hurry = true
	c.unsettle()
}

// settle looks, a Wait after a send, whether all is out.
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
	if c.ease {
		c.ease = false
		c.owner.drained()
	}
}

// sent takes the news that what was sent before a SendNotify is out.
func (c *conn) sent() {
	if c.loop.ring.Unsent(c.tag()) > 0 {
		c.loop.ring.SendNotify(int(c.fd), nil, c.tag())
		return
	}
	c.blocked, c.ease = false, false
	c.release()
	c.owner.drained()
}

// release gives back the parcels that are out.
func (c *conn) release() {
	for i, p := range c.pending {
		c.loop.parcels.put(p)
		c.pending[i] = nil
	}
	c.pending = c.pending[:0]
}

// pause stops a source whose sink is full. From then on it is received from piece
// by piece: all that its socket holds, which is megabytes, would come before the
// sink could say again that it is full.
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

// receive asks for what comes next.
func (c *conn) receive() {
	switch {
	case c.stream != nil:
		c.stream.repay()
	case c.call != nil:
		c.call.repay()
	case c.intake == intakePiece:
		c.loop.ring.ReceiveOnce(int(c.fd), c.tag())
	default:
		c.loop.ring.Receive(int(c.fd), c.tag())
	}
}

// hasSocket tells a connection from a stream of one, of a client or to a destination.
func (c *conn) hasSocket() bool { return c.stream == nil && c.call == nil }

// moreBytes is what more takes at most: with the piece before it a full large parcel.
const moreBytes = 3 * fullPiece

// more takes what lies behind a full piece, which is all that a receive has room
// for. A multishot receive would take up to half a megabyte in a turn
// (io_uring/net.c: MULTISHOT_MAX_RETRY, 32 buffers), too much to keep for a client
// that does not read; one piece a turn costs a turn each. What is wrong with the
// socket is found by the receive that follows.
func (c *conn) more() {
	l := c.loop
	if l.extra == nil {
		l.extra = make([]byte, moreBytes)
	}
	n, err := syscall.Read(int(c.fd), l.extra) // the socket does not block
	if err == nil && n > 0 {
		c.owner.received(l.extra[:n])
	}
}

// gulp receives again as it comes: another sink follows.
func (c *conn) gulp() {
	if c.intake != intakeStream && c.fd >= 0 && c.source == nil {
		c.intake = intakeStream
		c.receive()
	}
}

// close closes at once. Parcels that may still be in the ring's hands are left to
// the collector.
func (c *conn) close() {
	if c.fd < 0 {
		return
	}
	c.unsplice()
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
