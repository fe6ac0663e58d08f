package proxy

import (
	"math"
	"syscall"

	"ceiling/internal/ring"
)

// Large bodies and busy tunnels between TCP sockets are spliced: the kernel moves the pages that
// it received into, without copying them here. See docs/decisions/007-splice.md for what this
// saves and where it does not.

const (
	// spliceLeast is the remaining body length from which splicing pays: the switch costs two
	// turns without a byte, and a poll per piece.
	spliceLeast = 40 << 10
	// spliceMost is the most moved at a time, and the size of a pipe.
	spliceMost = 512 << 10
	// pipesMost bounds the pipes of a loop, of two descriptors each. A flow holds one while it
	// has bytes in it that its sink has no room for; without a pipe, bytes are copied.
	pipesMost = 32
	// busyPieces is how many consecutive full receive buffers make a direction of a tunnel busy,
	// and how many small pieces end that.
	busyPieces = 16
	// fullPiece is a full receive buffer of the ring.
	fullPiece = 16 << 10
)

// flow is a spliced transfer from one socket to another: the rest of a body, or a direction of a
// tunnel.
type flow struct {
	from, to *conn
	pipe     *ring.Pipe
	held     int   // bytes in the pipe
	left     int64 // bytes still to be taken
	begun    bool
	small    int // consecutive small pieces
}

// splices reports whether bytes can be spliced from one to the other.
func splices(from, to *conn) bool {
	return from.tcp && to.tcp && from.tls == nil && to.tls == nil && from.source == nil && from.fd >= 0 && to.fd >= 0
}

// spliceBody starts a flow for the rest of a body if that pays and there is a pipe. If there is
// none, the body is copied to its end: retrying with each piece costs more.
func (x *exchange) spliceBody(from, to *conn, left int64) bool {
	l := from.loop
	if left < spliceLeast || x.copied || !splices(from, to) {
		return false
	}
	if len(l.pipes.spare) == 0 && l.pipes.open >= pipesMost {
		x.copied = true
		l.counts.pipesMissed++
		return false
	}
	from.splice(to, left)
	return true
}

// splice starts a flow of left bytes once earlier output was sent and receiving has stopped.
func (c *conn) splice(to *conn, left int64) {
	f := &flow{from: c, to: to, left: left}
	c.pause()
	c.source, to.sink = f, f
	c.loop.beginning = append(c.loop.beginning, f)
}

// begin starts the flows that are ready.
func (l *loop) begin() {
	list := l.beginning
	l.beginning = nil // a flow that ends at once may start another
	for _, f := range list {
		switch {
		case f.from.source != f || f.begun: // stopped in the meantime
		case f.to.blocked:
			l.beginning = append(l.beginning, f)
		case f.to.out != nil, f.to.unsettled, !l.ring.Quiet(f.from.tag()):
			l.hurry = true
			l.beginning = append(l.beginning, f)
		default:
			f.begun = true
			f.rest()
			f.step()
		}
	}
}

// rest sets the remaining length of a body, part of which arrived before the flow started.
func (f *flow) rest() {
	switch o := f.from.owner.(type) {
	case *peer:
		if o.state == peerBody {
			f.left = o.length - o.client.x.sentBytes
		}
	case *client:
		if o.state == atRequest {
			f.left = o.x.request.ContentLength - o.x.receivedBytes
		}
	}
}

// step moves what is available, as far as there is room.
func (f *flow) step() {
	l := f.from.loop
	if f.held > 0 && !f.drain() {
		return
	}
	for range 2 { // twice spliceMost, then others get their turn
		if f.left == 0 {
			f.done()
			return
		}
		if f.pipe == nil {
			if f.pipe = l.pipes.get(l); f.pipe == nil {
				f.exchange().copied = true
				f.copy()
				return
			}
		}
		n, err := l.ring.Fill(f.pipe, int(f.from.fd), f.from.tag(), int(min(f.left, spliceMost)))
		switch {
		case err == syscall.EAGAIN:
			f.wait()
			return
		case n == 0:
			f.stop()
			f.from.owner.ended(err)
			return
		}
		f.held = n
		f.left -= int64(n)
		if !f.drain() {
			return
		}
		if f.left == math.MaxInt64-int64(n) { // a tunnel's
			f.left = math.MaxInt64
			if f.small++; n >= fullPiece {
				f.small = 0
			}
			if f.small >= busyPieces {
				f.copy()
				return
			}
		}
	}
	if f.left == 0 {
		f.done()
		return
	}
	f.wait()
}

// wait for more input. The empty pipe is free for others until then.
func (f *flow) wait() {
	f.putPipe()
	f.from.loop.ring.Readable(int(f.from.fd), f.from.tag())
}

// drain moves the pipe's bytes on; false if there is no room for all.
func (f *flow) drain() bool {
	l := f.from.loop
	for f.held > 0 {
		n, err := l.ring.Drain(f.pipe, int(f.to.fd), f.held)
		switch {
		case err == syscall.EAGAIN:
			f.to.blocked = true
			l.ring.Writable(int(f.to.fd), f.to.tag())
			return false
		case err != 0:
			to := f.to
			f.stop()
			to.owner.unsendable(err)
			return false
		}
		f.held -= n
		l.counts.spliced += uint64(n)
		f.moved(n)
	}
	return true
}

// blank stands in for bytes that were never here: only its length is used, so that its pages are
// never allocated.
func (l *loop) blank(n int) []byte {
	if l.nothing == nil {
		l.nothing = make([]byte, spliceMost)
	}
	return l.nothing[:n]
}

// moved counts bytes, as for copied ones, and extends the deadline.
func (f *flow) moved(n int) {
	l := f.from.loop
	switch o := f.from.owner.(type) {
	case *peer:
		x := o.client.x
		x.sentBytes += int64(n)
		if o.state == peerTunnel {
			x.touch()
			return
		}
		_, _, _ = o.response.Skip(l.blank(n)) // with a known length nothing can be wrong
		o.conn.expire(x.location.within.idle)
	case *client:
		x := o.x
		x.receivedBytes += int64(n)
		if o.state == atTunnel {
			x.touch()
			return
		}
		_, _, _ = x.body.Skip(l.blank(n)) // as above
		if x.peer.state < peerBody {
			x.peer.conn.expire(x.location.within.idle)
		}
	}
}

// done ends a body.
func (f *flow) done() {
	f.stop()
	switch o := f.from.owner.(type) {
	case *peer:
		o.done(true) // what follows it is noticed when it arrives
	case *client:
		o.x.requestDone()
		o.conn.resume()
	}
}

// exchange returns the request that the flow belongs to.
func (f *flow) exchange() *exchange {
	if p, ok := f.from.owner.(*peer); ok {
		return p.client.x
	}
	return f.from.owner.(*client).x
}

// copy continues without splicing.
func (f *flow) copy() {
	f.stop()
	f.from.gulp()
}

// stop ends the flow in any state.
func (f *flow) stop() {
	if f.from.source != f {
		return
	}
	f.from.source = nil
	f.to.sink = nil
	if f.held > 0 { // there was no room for them
		f.to.blocked = false
		if c, ok := f.from.owner.(*client); ok && c.state == atRequest { // its body may go on, to be discarded
			_, _, _ = c.x.body.Skip(f.from.loop.blank(f.held))
		}
	}
	f.putPipe()
}

func (f *flow) putPipe() {
	if f.pipe == nil {
		return
	}
	l := f.from.loop
	if f.held > 0 { // nothing needs these bytes any more
		l.pipes.open--
		f.pipe.Close()
	} else {
		l.pipes.spare = append(l.pipes.spare, f.pipe)
	}
	f.pipe = nil
}

// unsplice ends the flows of a connection.
func (c *conn) unsplice() {
	if c.source != nil {
		c.source.stop()
	}
	if c.sink != nil {
		c.sink.stop()
	}
}

// pipes are a loop's pipes.
type pipes struct {
	spare []*ring.Pipe
	open  int
}

// get returns a pipe; nil if there are too many, or no descriptors are left.
func (s *pipes) get(l *loop) *ring.Pipe {
	if n := len(s.spare); n > 0 {
		p := s.spare[n-1]
		s.spare = s.spare[:n-1]
		return p
	}
	if s.open >= pipesMost {
		l.counts.pipesMissed++
		return nil
	}
	p, err := ring.OpenPipe(spliceMost)
	if err != nil { // no descriptors: copying needs none
		l.counts.pipesMissed++
		return nil
	}
	s.open++
	return p
}

func (s *pipes) close() {
	for _, p := range s.spare {
		p.Close()
	}
	s.spare = nil
}
