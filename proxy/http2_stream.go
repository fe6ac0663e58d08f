package proxy

import (
	"strconv"

	"ceiling/internal/http1"
	"ceiling/internal/http2"
)

// A stream is a client without a socket: its request is an HTTP/1.1 head in the client's parcel,
// and the loop's response, a head and a body without framing, waits in its queue until the
// session frames it.
type stream struct {
	client  client
	session *session
	id      uint32
	place   int // in session.streams

	chunked   bool   // the body is forwarded in chunks, since its length is unknown
	length    int64  // remaining length of a body of known length
	heard     bool   // END_STREAM received
	key       string // of the WebSocket that it requests, or is (RFC 8441); "" if none
	credit    http2.Credit
	creditDue uint32 // of the windows, for bytes not forwarded yet

	queue  []piece
	first  int // of queue
	held   int // bytes in queue
	headed bool
	over   bool // the response is complete
	listed bool // is in session.ready
	ended  bool // it is being ended before its response was sent
	silent bool // do not tell the client: it ended the stream, or is gone
	window http2.Window
	code   http2.Code // to reset it with
	tail   []byte     // header block of the response's trailers
}

// piece is data to send: a parcel, or lent memory.
type piece struct {
	b      []byte
	parcel *buffer
}

// ready schedules the stream's pending data with the session.
func (st *stream) ready() {
	s := st.session
	if !st.listed {
		st.listed = true
		s.ready = append(s.ready, st)
	}
	s.connection.conn.mark()
}

// enqueue queues the written data.
func (st *stream) enqueue() {
	p := st.client.conn.out
	st.client.conn.out = nil
	switch {
	case p == nil:
	case len(p.b) == 0: // it would stay in a queue that is completely sent
		st.client.conn.loop.parcels.put(p)
	default:
		st.queue = append(st.queue, piece{p.b, p})
		st.held += len(p.b)
		st.session.held += len(p.b)
	}
}

// crowded reports whether the client's connection holds so much response data that each stream
// should take less at a time.
func (st *stream) crowded() bool { return st.session.held >= heldMost }

// lent queues lent memory.
func (st *stream) lent(b []byte) {
	st.queue = append(st.queue, piece{b: b})
	st.held += len(b)
	st.ready()
}

// answered marks the response as complete. Further input from the client is ignored.
func (st *stream) answered() {
	st.over = true
	st.client.state = atEnd
	st.client.conn.deadline = 0
	st.ready()
}

// settle reports to the stream's source whether there is room, as conn.settle does.
func (st *stream) settle() {
	switch {
	case st.held > 0 && !st.client.conn.blocked:
		st.client.conn.blocked = true
		if st.over {
			st.code = http2.Cancel // in case the client reads no more of it
			st.client.conn.expire(st.client.conn.loop.site.timeouts.idle)
		}
		st.client.stalled()
	case st.over: // the session makes its last frame
	case st.held == 0 && (st.client.conn.blocked || st.client.conn.drainDeferred):
		st.client.conn.blocked, st.client.conn.drainDeferred = false, false
		st.client.drained()
	}
}

// outcome is the result of framing.
type outcome uint8

const (
	framedAll  outcome = iota // nothing left for now
	framedSome                // more data, and room
	framedPart                // more data, but no room: in the turn, or in the connection's window
	framedHeld                // more data, but the stream's window is exhausted
)

// frame frames a head, and one DATA frame, of at most room bytes.
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
	if st.over && st.client.conn.blocked {
		st.client.conn.expire(st.client.conn.loop.site.timeouts.idle)
	}
	if !s.data(st, n, st.over && n == st.held && len(st.tail) == 0) || st.held == 0 && len(st.tail) == 0 {
		return framedAll
	}
	return framedSome
}

// frameTail ends the response with its trailers.
func (st *stream) frameTail(room *int) {
	p := st.session.connection.conn.room(len(st.tail) + http2.HeaderBytes*(2+len(st.tail)/http2.DefaultFrame))
	before := len(p.b)
	p.b = st.session.table.appendBlock(p.b, st.id, st.tail, true)
	*room -= len(p.b) - before
	st.session.finish(st)
}

// frameHead frames the head at the front of the queue; false if that ended the stream.
func (st *stream) frameHead(room *int) bool {
	s, c := st.session, st.session.connection
	first := &st.queue[st.first]
	block, status, n := st.client.conn.loop.heads.of(first.b)
	if n == 0 {
		panic("proxy: the answer of a stream begins without a head")
	}
	st.headed = status >= 200
	st.pass(n)
	last := st.headed && st.over && st.held == 0 && len(st.tail) == 0
	p := c.conn.room(len(block) + http2.HeaderBytes*(2+len(block)/http2.DefaultFrame))
	before := len(p.b)
	p.b = s.table.appendBlock(p.b, st.id, block, last)
	*room -= len(p.b) - before
	if last {
		s.finish(st)
	}
	return !last
}

// pass removes n bytes of the first piece from the queue.
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
		st.client.conn.loop.parcels.put(first.parcel)
	}
	*first = piece{}
	if st.first++; st.first == len(st.queue) {
		st.queue, st.first = st.queue[:0], 0
	}
}

// copyTo moves n bytes of the queue to b; false if a lent file's pages are gone.
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

// take passes a piece of the request's body, which used flow of the windows, to the loop.
func (st *stream) take(piece []byte, flow uint32, end bool) {
	s := st.session
	st.creditDue += flow
	switch {
	case st.key != "": // tunnel bytes, possibly before the tunnel is open
	case st.length != unknownLength && int64(len(piece)) > st.length, end && st.length > int64(len(piece)):
		st.heard = end
		s.kill(st, http2.ProtocolError, "a body that is not as long as its head says")
		return
	case st.chunked:
		l := st.client.conn.loop
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
	if end && st.key != "" && st.client.conn.fd >= 0 {
		st.client.over(0)
	}
	if st.client.conn.fd >= 0 && st.client.conn.intake != intakePaused {
		st.returnCredit()
	}
}

// takeTrailers ends the request's body with trailers. HTTP/1.1 allows none after a body of known
// length.
func (st *stream) takeTrailers(lines []byte) {
	if !st.chunked || len(lines) == 0 || len(lines) > http1.MaxTrailer-len("\r\n") {
		st.take(nil, 0, true)
		return
	}
	l := st.client.conn.loop
	l.chunk = append(append(append(l.chunk[:0], "0\r\n"...), lines...), "\r\n"...)
	st.heard = true
	st.client.received(l.chunk)
	if st.client.conn.fd >= 0 && st.client.conn.intake != intakePaused {
		st.returnCredit()
	}
}

// returnCredit reopens the windows by what was forwarded.
func (st *stream) returnCredit() {
	s, owed := st.session, st.creditDue
	if st.creditDue = 0; owed == 0 {
		return
	}
	if n := st.credit.Return(owed); n > 0 && !st.heard {
		p := s.connection.conn.room(windowUpdateBytes)
		p.b = http2.AppendWindowUpdate(p.b, st.id, n)
	}
	s.returnCredit(owed)
}

// endTunnel tells the client that nothing more follows; the client may still send.
func (st *stream) endTunnel() {
	p := st.session.connection.conn.room(http2.HeaderBytes)
	p.b = http2.AppendHeader(p.b, 0, http2.Data, http2.EndStream, st.id)
}

// cut ends a stream that the loop ended before its response was complete.
func (st *stream) cut() {
	s := st.session
	st.over, st.ended = false, true
	if !st.silent {
		room := maxAnswered
		if s.connection.conn.blocked {
			room = 0
		}
		for st.frame(&room) == framedSome { // the client gets what came before the cut
		}
		s.reset(st.id, st.code)
	}
	st.enqueue()
	for st.held > 0 {
		st.pass(len(st.queue[st.first].b))
	}
	s.forget(st)
}

// isWebSocket reports whether the client is a stream that requests, or is, a WebSocket.
func (c *conn) isWebSocket() bool { return c.stream != nil && c.stream.key != "" }

// appendProtocol appends the client's HTTP version, for the log.
func (c *conn) appendProtocol(b []byte, minor int) []byte {
	if c.stream != nil {
		return append(b, " HTTP/2.0"...)
	}
	b = append(b, " HTTP/1."...)
	return strconv.AppendInt(b, int64(minor), 10)
}
