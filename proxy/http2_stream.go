package proxy

import (
	"strconv"

	"ceiling/internal/http1"
	"ceiling/internal/http2"
)

// A stream is a client without a socket: its request is a head of HTTP/1.1 in the
// client's parcel, and what the loop answers, a head and a body without framing, waits in
// its queue until the session makes frames of it.
type stream struct {
	client
	session *session
	id      uint32
	place   int // in session.streams

	chunked bool   // the body goes on in chunks, since its length is not known
	length  int64  // what is to come of a body of known length
	heard   bool   // END_STREAM came
	key     string // of the WebSocket that it asks for, or is (RFC 8441); "": it is none
	credit  http2.Credit
	owed    uint32 // of windows, for bytes that have no room yet

	queue  []piece
	first  int // of queue
	held   int // bytes in queue
	headed bool
	over   bool // the answer is whole
	listed bool // stands in session.ready
	ended  bool // it is being ended, before its answer is out
	silent bool // which the client is not told: it has ended the stream, or is gone
	window http2.Window
	code   http2.Code // to reset it with
	tail   []byte     // header block of the answer's trailers
}

// piece is what is to be sent: a parcel, or memory that is lent.
type piece struct {
	b      []byte
	parcel *parcel
}

// ready has the session look at what the stream has to send.
func (st *stream) ready() {
	s := st.session
	if !st.listed {
		st.listed = true
		s.ready = append(s.ready, st)
	}
	s.connection.mark()
}

// enqueue queues what is written.
func (st *stream) enqueue() {
	p := st.out
	st.out = nil
	switch {
	case p == nil:
	case len(p.b) == 0: // it would stay in a queue of which all is sent
		st.loop.parcels.put(p)
	default:
		st.queue = append(st.queue, piece{p.b, p})
		st.held += len(p.b)
		st.session.held += len(p.b)
	}
}

// crowded tells whether the client's connection holds so much of its streams' answers that
// each is to take less at a time.
func (st *stream) crowded() bool { return st.session.held >= heldMost }

// lent queues memory that is lent.
func (st *stream) lent(b []byte) {
	st.queue = append(st.queue, piece{b: b})
	st.held += len(b)
	st.ready()
}

// answered notes that the answer is whole. What the client still sends is for nobody.
func (st *stream) answered() {
	st.over = true
	st.state = atEnd
	st.deadline = 0
	st.ready()
}

// settle tells the stream's source whether there is room, as conn.settle does.
func (st *stream) settle() {
	switch {
	case st.held > 0 && !st.blocked:
		st.blocked = true
		if st.over {
			st.code = http2.Cancel // should the client take no more of it
			st.expire(st.loop.site.timeouts.idle)
		}
		st.stalled()
	case st.over: // its last frame is for the session to make
	case st.held == 0 && (st.blocked || st.ease):
		st.blocked, st.ease = false, false
		st.drained()
	}
}

// outcome is what making frames came to.
type outcome uint8

const (
	framedAll  outcome = iota // nothing is left, for the moment
	framedSome                // there is more, and room
	framedPart                // there is more, and no room: of the turn, or of the connection's window
	framedHeld                // there is more, and the stream's window is used up
)

// frame makes frames of a head, and one of DATA, of at most room bytes.
func (st *stream) frame(room *int) outcome {
	st.enqueue()
	for !st.headed && st.held > 0 {
		if *room <= 0 {
			return framedPart
		}
		if !st.frameHead(room) {
			return framedAll
		}
	}
	if st.held == 0 {
		switch {
		case !st.over || !st.headed:
		case len(st.tail) == 0:
			st.session.data(st, 0, true)
		case *room <= 0:
			return framedPart
		default:
			st.frameTail(room)
		}
		return framedAll
	}
	s := st.session
	n := min(st.held, *room, http2.DefaultFrame)
	switch {
	case n <= 0 || s.window <= 0:
		return framedPart
	case st.window <= 0:
		return framedHeld
	}
	n = s.window.Take(min(n, int(st.window)))
	st.window.Take(n)
	*room -= n + http2.HeaderBytes
	if st.over && st.blocked {
		st.expire(st.loop.site.timeouts.idle)
	}
	if !s.data(st, n, st.over && n == st.held && len(st.tail) == 0) || st.held == 0 && len(st.tail) == 0 {
		return framedAll
	}
	return framedSome
}

// frameTail ends the answer with its trailers.
func (st *stream) frameTail(room *int) {
	p := st.session.connection.room(len(st.tail) + http2.HeaderBytes*(2+len(st.tail)/http2.DefaultFrame))
	before := len(p.b)
	p.b = st.session.table.appendBlock(p.b, st.id, st.tail, true)
	*room -= len(p.b) - before
	st.session.finish(st)
}

// frameHead makes frames of the head that is first in the queue; false once the stream has
// ended with it.
func (st *stream) frameHead(room *int) bool {
	s, c := st.session, st.session.connection
	first := &st.queue[st.first]
	block, status, n := st.loop.heads.of(first.b)
	if n == 0 {
		panic("proxy: the answer of a stream begins without a head")
	}
	st.headed = status >= 200
	st.pass(n)
	last := st.headed && st.over && st.held == 0 && len(st.tail) == 0
	p := c.room(len(block) + http2.HeaderBytes*(2+len(block)/http2.DefaultFrame))
	before := len(p.b)
	p.b = s.table.appendBlock(p.b, st.id, block, last)
	*room -= len(p.b) - before
	if last {
		s.finish(st)
	}
	return !last
}

// pass takes n bytes of the first piece off the queue.
func (st *stream) pass(n int) {
	first := &st.queue[st.first]
	first.b = first.b[n:]
	st.held -= n
	if first.parcel != nil {
		st.session.held -= n
	}
	if len(first.b) > 0 {
		return
	}
	if first.parcel != nil {
		st.loop.parcels.put(first.parcel)
	}
	*first = piece{}
	if st.first++; st.first == len(st.queue) {
		st.queue, st.first = st.queue[:0], 0
	}
}

// copyTo takes n bytes of the queue to b; false where a file that was lent is gone.
func (st *stream) copyTo(b []byte, n int) ([]byte, bool) {
	for n > 0 {
		first := &st.queue[st.first]
		k := min(n, len(first.b))
		at := len(b)
		if b = b[:at+k]; first.parcel != nil {
			copy(b[at:], first.b)
		} else if !copyMapped(b[at:], first.b[:k]) {
			return b, false
		}
		st.pass(k)
		n -= k
	}
	return b, true
}

// take gives a piece of the request's body, which took flow of the windows, to the loop.
func (st *stream) take(piece []byte, flow uint32, end bool) {
	s := st.session
	st.owed += flow
	switch {
	case st.key != "": // bytes of the tunnel, perhaps before it is there
	case st.length != unknownLength && int64(len(piece)) > st.length, end && st.length > int64(len(piece)):
		st.heard = end
		s.kill(st, http2.ProtocolError, "a body that is not as long as its head says")
		return
	case st.chunked:
		l := st.loop
		if l.chunk = l.chunk[:0]; len(piece) > 0 {
			l.chunk = appendChunk(l.chunk, piece)
		}
		if end {
			l.chunk = append(l.chunk, lastChunk...)
		}
		piece = l.chunk
	default:
		st.length -= int64(len(piece))
	}
	st.heard = end
	if len(piece) > 0 {
		st.client.received(piece)
	}
	if end && st.key != "" && st.fd >= 0 {
		st.client.over(0)
	}
	if st.fd >= 0 && st.intake != intakePaused {
		st.repay()
	}
}

// takeTrailers ends the request's body with trailers. Behind a body of known length HTTP/1.1
// has no place for them.
func (st *stream) takeTrailers(lines []byte) {
	if !st.chunked || len(lines) == 0 || len(lines) > http1.MaxTrailer-len("\r\n") {
		st.take(nil, 0, true)
		return
	}
	l := st.loop
	l.chunk = append(append(append(l.chunk[:0], "0\r\n"...), lines...), "\r\n"...)
	st.heard = true
	st.client.received(l.chunk)
	if st.fd >= 0 && st.intake != intakePaused {
		st.repay()
	}
}

// repay opens the windows again by what has found its room.
func (st *stream) repay() {
	s, owed := st.session, st.owed
	if st.owed = 0; owed == 0 {
		return
	}
	if n := st.credit.Return(owed); n > 0 && !st.heard {
		p := s.connection.room(windowUpdateBytes)
		p.b = http2.AppendWindowUpdate(p.b, st.id, n)
	}
	s.repay(owed)
}

// endTunnel says that nothing more comes; the client may still send.
func (st *stream) endTunnel() {
	p := st.session.connection.room(http2.HeaderBytes)
	p.b = http2.AppendHeader(p.b, 0, http2.Data, http2.EndStream, st.id)
}

// cut ends a stream that the loop has ended before its answer was whole.
func (st *stream) cut() {
	s := st.session
	st.over, st.ended = false, true
	if !st.silent {
		room := maxAnswered
		if s.connection.blocked {
			room = 0
		}
		for st.frame(&room) == framedSome { // what came before the cut is the client's
		}
		s.reset(st.id, st.code)
	}
	st.enqueue()
	for st.held > 0 {
		st.pass(len(st.queue[st.first].b))
	}
	s.forget(st)
}

// isWebSocket tells that the client is a stream that asks for a WebSocket, or is one.
func (c *conn) isWebSocket() bool { return c.stream != nil && c.stream.key != "" }

// appendProtocol appends the version of HTTP that the client speaks, for the log.
func (c *conn) appendProtocol(b []byte, minor int) []byte {
	if c.stream != nil {
		return append(b, " HTTP/2.0"...)
	}
	b = append(b, " HTTP/1."...)
	return strconv.AppendInt(b, int64(minor), 10)
}
