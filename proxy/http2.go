package proxy

import (
	"errors"
	"slices"

	"ceiling/internal/hpack"
	"ceiling/internal/http2"
)

// HTTP/2 with clients (RFC 9113). A session handles a connection that speaks it: it parses
// frames, and each request becomes a stream, which is a client without a socket
// (http2_stream.go). See docs/decisions/035-http2-in-the-proxys-loop.md for the reasons.

const (
	// streamsMost is how many concurrent requests a connection may have.
	streamsMost = 128
	// streamWindow and sessionWindow bound the body bytes that a client may send before they are
	// consumed: per request, and in total.
	streamWindow  = 256 << 10
	sessionWindow = 1 << 20
	// tableBytes is the dynamic table size for request heads, the default (RFC 9113, 6.5.2).
	tableBytes = 4096
	// blockFactor is how many times the head limit a header block may be on the wire.
	blockFactor = 4
	// controlMost bounds the output, other than bodies, pending for a client that reads nothing;
	// beyond it, the loop stops receiving from it.
	controlMost = 16 << 10
	// heldMost is how much response data a connection holds before each of its streams is limited
	// to one piece of 16 KiB: 1 MiB and 128 pieces instead of 128 large parcels.
	heldMost = 1 << 20
	// packingMost is how many responses of a connection are compressed at a time: an encoder
	// takes 0.6 to 4.7 MB for as long as its response lasts. Further ones are sent uncompressed.
	packingMost = 16
	// resetsMost bounds streams that end before their response, by the client's RST_STREAM or
	// through its fault: a burst of that many, and as many per second. Serving such a stream
	// costs more than requesting it (CVE-2023-44487, CVE-2025-8671).
	resetsMost = 200
	// recentIDs is how many ended streams are remembered.
	recentIDs = 64
	// leaveNs is how long a client may take to acknowledge the shutdown.
	leaveNs = 1e9

	windowUpdateBytes = http2.HeaderBytes + 4
	resetBytes        = http2.HeaderBytes + 4
	goAwayBytes       = http2.HeaderBytes + 8
	pingBytes         = http2.HeaderBytes + 8
)

// sessionState only advances.
type sessionState uint8

const (
	sessionPreface sessionState = iota // the preface, or the first SETTINGS, is expected
	sessionOpen
	sessionLeaving // shutdown announced; requests in transit are accepted
	sessionLast    // no new streams
	sessionOver
)

// session is a connection with HTTP/2.
type session struct {
	connection *client
	state      sessionState
	prefaced   int // bytes of the preface received
	reader     http2.Reader
	decoder    hpack.Decoder
	settings   http2.Settings // the client's
	window     http2.Window
	credit     http2.Credit
	table      tableNotice

	ids     []uint32 // stream IDs, at the same indices
	streams []*stream
	ready   []*stream // streams with something to send, or an end
	spared  []*stream // ready's other half
	held    int       // bytes in the streams' parcels
	last    uint32    // the highest stream ID
	recent  recents
	resets  int   // that are left
	resetAt int64 // loop's clock: when resets was last refilled
}

// disregarded marks an ID in session.recent whose stream was ended here: frames for it were in
// transit.
const disregarded = 1 << 31

// speakHTTP2 switches a client's connection to HTTP/2.
func (l *loop) speakHTTP2(c *client) {
	s := &session{connection: c, settings: http2.DefaultSettings(), window: http2.DefaultWindow, credit: http2.NewCredit(sessionWindow),
		resets: resetsMost, resetAt: l.now}
	most := l.site.config.Limits.HeaderBytes
	s.reader.BlockMost = blockFactor * most
	s.decoder.SetLimit(tableBytes)
	c.conn.session, c.state = s, atSession
	l.admission.sessions.open++
	l.admission.sessions.total++
	out := c.conn.buffer()
	out.b = http2.AppendSettings(out.b, http2.Setting{ID: http2.MaxConcurrentStreams, Value: streamsMost},
		http2.Setting{ID: http2.InitialWindowSize, Value: streamWindow}, http2.Setting{ID: http2.MaxHeaderListSize, Value: uint32(most)},
		http2.Setting{ID: http2.EnableConnect, Value: 1})
	out.b = http2.AppendWindowUpdate(out.b, 0, sessionWindow-http2.DefaultWindow)
	if l.stopping {
		s.drain()
	}
}

// received handles bytes from the client.
func (s *session) received(b []byte) {
	c := s.connection
	if s.prefaced < len(http2.Preface) {
		n := min(len(b), len(http2.Preface)-s.prefaced)
		if string(b[:n]) != http2.Preface[s.prefaced:][:n] {
			c.conn.loop.counts.badRequests++
			s.end(http2.ProtocolError)
			return
		}
		s.prefaced += n
		b = b[n:]
	}
	for len(b) > 0 && c.state == atSession {
		ev, n, err := s.reader.Next(b)
		b = b[n:]
		switch {
		case err != nil && err.Stream == 0:
			c.conn.loop.counts.badRequests++
			s.end(err.Code)
		case err != nil:
			s.wrong(err.Stream, err.Code)
		case ev != nil && s.state == sessionPreface && (ev.Type != http2.SettingsFrame || ev.Flags&http2.Ack != 0):
			s.end(http2.ProtocolError)
		case ev != nil:
			s.take(ev)
		}
	}
	if c.state == atSession {
		s.await()
	}
}

// await bounds what a client may do between requests: leave a head unfinished, and send what
// needs replies without reading them.
func (s *session) await() {
	c := s.connection
	switch unfinished := s.prefaced < len(http2.Preface) || s.reader.Unfinished(); {
	case unfinished && c.conn.deadline == 0:
		c.conn.expire(c.conn.loop.site.timeouts.header)
	case !unfinished && len(s.streams) > 0 && s.state != sessionLeaving:
		c.conn.deadline = 0
	}
	if c.conn.blocked && c.conn.out != nil && len(c.conn.out.b) > controlMost {
		c.conn.pause()
	}
}

// take handles one frame.
func (s *session) take(ev *http2.Event) {
	switch ev.Type {
	case http2.Headers:
		s.head(ev)
	case http2.Data:
		s.body(ev)
	case http2.ResetStream:
		s.resetBy(ev)
	case http2.SettingsFrame:
		s.set(ev)
	case http2.Ping:
		if ev.Flags&http2.Ack == 0 {
			p := s.connection.conn.room(pingBytes)
			p.b = http2.AppendPing(p.b, ev.Payload, true)
		} else if s.state == sessionLeaving {
			s.finalWord()
		}
	case http2.GoAway: // the client asks for nothing more
		if s.state < sessionLast {
			s.finalWord()
		}
	case http2.WindowUpdate:
		s.grow(ev)
	case http2.PushPromise:
		s.end(http2.ProtocolError)
	}
}

// find returns an open stream, nil if there is none.
func (s *session) find(id uint32) *stream {
	if i := slices.Index(s.ids, id); i >= 0 {
		return s.streams[i]
	}
	return nil
}

// packing reports whether the limit of compressed responses is reached.
func (s *session) packing() bool {
	n := 0
	for _, st := range s.streams {
		if st.client.x != nil && st.client.x.packer != nil {
			n++
		}
	}
	return n >= packingMost
}

// idle reports whether a stream was never started. Frames on such a stream are an error, except
// beyond the last accepted one.
func (s *session) idle(id uint32) bool { return id&1 == 0 || id > s.last && s.state < sessionLast }

// head handles a header block: a request, or the trailers of one.
func (s *session) head(ev *http2.Event) {
	id, l := ev.Stream, s.connection.conn.loop
	most := l.site.config.Limits.HeaderBytes
	st := s.find(id)
	if st == nil && id > s.last && id&1 == 1 && s.state < sessionLast && len(s.streams) < streamsMost {
		s.request(ev)
		return
	}
	opened, ours := s.recent.was(id)
	switch {
	case id&1 == 0, st == nil && id <= s.last && !opened:
		s.end(http2.ProtocolError)
		return
	case st == nil && id <= s.last && !ours:
		s.end(http2.StreamClosed)
		return
	}
	switch err := l.rewriter.trailers(&s.decoder, ev.Payload, most); {
	case err != nil && !errors.Is(err, errMalformed):
		s.bad(err)
	case st == nil && id > s.last && s.state < sessionLast:
		s.last = id
		s.wrong(id, http2.RefusedStream)
	case st == nil: // in transit when its stream was ended, or beyond the last accepted one
	case st.heard:
		s.kill(st, http2.StreamClosed, "frames behind the end of the request")
	case err != nil, !ev.End:
		s.kill(st, http2.ProtocolError, "malformed trailers")
	default:
		st.takeTrailers(l.rewriter.lines)
	}
}

// bad ends the connection because of a header block that leaves the decoder's table undefined.
func (s *session) bad(err error) {
	s.connection.conn.loop.counts.badRequests++
	if errors.Is(err, errBlock) {
		s.end(http2.EnhanceYourCalm)
		return
	}
	s.end(http2.CompressionError)
}

// request starts a stream.
func (s *session) request(ev *http2.Event) {
	l, w := s.connection.conn.loop, &s.connection.conn.loop.rewriter
	in := l.parcels.get()
	var err error
	in.b, err = w.request(in.b, &s.decoder, ev.Payload, l.site.config.Limits.HeaderBytes, ev.End)
	s.last = ev.Stream
	s.recent.begin(ev.Stream)
	if err != nil {
		l.parcels.put(in)
		if !errors.Is(err, errMalformed) {
			s.bad(err)
			return
		}
		l.counts.badRequests++
		s.wrong(ev.Stream, http2.ProtocolError)
		return
	}
	st := s.open(ev.Stream)
	st.heard, st.length, st.key = ev.End, w.length, w.key
	st.chunked = !ev.End && w.length == unknownLength && w.key == ""
	st.client.eof = ev.End && w.key != ""
	if w.status != 0 {
		l.parcels.put(in)
		l.counts.badRequests++
		if string(w.method) == "HEAD" {
			st.client.exchange().request.Method = nameHead // the response must have no body
		}
		st.client.refuse(w.status, w.why)
		return
	}
	st.client.in = in
	st.client.run()
}

// open makes a stream.
func (s *session) open(id uint32) *stream {
	c := s.connection
	l := c.conn.loop
	var st *stream
	if n := len(l.streams); n > 0 {
		st, l.streams = l.streams[n-1], l.streams[:n-1]
		*st = stream{queue: st.queue}
	} else {
		st = new(stream)
	}
	st.session, st.id, st.place, st.code = s, id, len(s.streams), http2.InternalError
	st.credit, st.window = http2.NewCredit(streamWindow), http2.Window(s.settings.InitialWindowSize)
	s.ids, s.streams = append(s.ids, id), append(s.streams, st)
	l.adopt(&st.client.conn, &st.client, int(c.conn.fd))
	st.client.conn.stream = st
	st.client.state, st.client.trusted, st.client.remote, st.client.scheme, st.client.name = atHead, c.trusted, c.remote, c.scheme, c.name
	st.client.subject = c.subject
	if len(s.streams) == 1 {
		c.unlist()
		if s.state <= sessionOpen {
			c.conn.deadline = 0
		}
	}
	l.admission.sessions.streams++
	l.admission.sessions.streamsTotal++
	return st
}

// forget removes a stream.
func (s *session) forget(st *stream) {
	c, end := s.connection, len(s.streams)-1
	moved := s.streams[end]
	s.ids[st.place], s.streams[st.place], moved.place = s.ids[end], moved, st.place
	s.streams[end] = nil
	s.ids, s.streams = s.ids[:end], s.streams[:end]
	c.conn.loop.admission.sessions.streams--
	if s.returnCredit(st.creditDue); end > 0 || s.state == sessionOver {
		return
	}
	if s.state == sessionLast {
		s.end(http2.NoError)
		return
	}
	s.reader.Shrink() // an idle connection costs little
	s.decoder.Shrink()
	c.waits()
	if s.state == sessionOpen {
		c.conn.expire(c.conn.loop.site.timeouts.keepAlive)
	}
}

// finish ends a stream whose response was sent.
func (s *session) finish(st *stream) {
	l := s.connection.conn.loop
	if !st.heard {
		s.reset(st.id, http2.NoError) // RFC 9113, section 8.1: the rest of the request is not needed
	}
	s.forget(st)
	if st.client.in != nil {
		l.parcels.put(st.client.in)
		st.client.in = nil
	}
	st.client.free()
	st.client.conn.fd, st.client.conn.deadline = -1, 0
	l.forget(&st.client.conn)
	if !st.client.conn.unsettled && len(l.streams) < maxSpare { // no other reference
		l.streams = append(l.streams, st)
	}
}

// body handles a piece of a DATA frame.
func (s *session) body(ev *http2.Event) {
	st := s.find(ev.Stream)
	_, ours := s.recent.was(ev.Stream)
	switch {
	case s.idle(ev.Stream):
		s.end(http2.ProtocolError)
	case !s.credit.Spend(ev.Flow):
		s.end(http2.FlowControlError)
	case st == nil:
		if s.returnCredit(ev.Flow); ev.First && !ours && ev.Stream <= s.last {
			s.wrong(ev.Stream, http2.StreamClosed)
		}
	case st.heard:
		st.creditDue += ev.Flow
		s.kill(st, http2.StreamClosed, "frames behind the end of the request")
	case !st.credit.Spend(ev.Flow):
		st.creditDue += ev.Flow
		s.kill(st, http2.FlowControlError, "more than the window allows")
	default:
		st.take(ev.Payload, ev.Flow, ev.End)
	}
}

// returnCredit reopens the connection's window.
func (s *session) returnCredit(flow uint32) {
	if n := s.credit.Return(flow); n > 0 && s.state < sessionOver {
		p := s.connection.conn.room(windowUpdateBytes)
		p.b = http2.AppendWindowUpdate(p.b, 0, n)
	}
}

// resetBy handles the client's RST_STREAM.
func (s *session) resetBy(ev *http2.Event) {
	st := s.find(ev.Stream)
	switch {
	case st != nil:
		s.connection.conn.loop.counts.clientResets++
		st.silent = true
		st.client.fail("client reset the stream")
		s.charge()
	case s.idle(ev.Stream):
		s.end(http2.ProtocolError)
	}
}

// set handles the client's SETTINGS.
func (s *session) set(ev *http2.Event) {
	if ev.Flags&http2.Ack != 0 {
		return
	}
	before := s.settings
	if err := s.settings.Apply(ev.Payload); err != nil {
		s.end(err.Code)
		return
	}
	s.state = max(s.state, sessionOpen)
	s.table.resized = s.table.resized || s.settings.HeaderTableSize < before.HeaderTableSize
	by := int64(s.settings.InitialWindowSize) - int64(before.InitialWindowSize)
	for _, st := range s.streams {
		if !st.window.Grow(by) {
			s.end(http2.FlowControlError)
			return
		}
		if by > 0 {
			st.ready()
		}
	}
	p := s.connection.conn.room(http2.HeaderBytes)
	p.b = http2.AppendSettingsAck(p.b)
}

// grow handles a WINDOW_UPDATE.
func (s *session) grow(ev *http2.Event) {
	if ev.Stream == 0 {
		if !s.window.Grow(int64(ev.Promised)) {
			s.end(http2.FlowControlError)
			return
		}
		if len(s.ready) > 0 {
			s.connection.conn.mark()
		}
		return
	}
	st := s.find(ev.Stream)
	switch {
	case s.idle(ev.Stream):
		s.end(http2.ProtocolError)
	case st == nil:
	case !st.window.Grow(int64(ev.Promised)):
		s.kill(st, http2.FlowControlError, "a window over 2^31-1")
	case st.held > 0:
		st.ready()
	}
}

// wrong resets a stream because of a client error.
func (s *session) wrong(id uint32, code http2.Code) {
	if st := s.find(id); st != nil {
		s.kill(st, code, code.String())
		return
	}
	s.reset(id, code)
	s.charge()
}

// kill ends a stream because of a client error.
func (s *session) kill(st *stream, code http2.Code, why string) {
	if st.ended {
		return
	}
	s.connection.conn.loop.counts.badRequests++
	st.code = code
	st.client.fail(why)
	s.charge()
}

// reset tells the client that a stream has ended.
func (s *session) reset(id uint32, code http2.Code) {
	if s.state == sessionOver {
		return
	}
	s.recent.disregard(id)
	p := s.connection.conn.room(resetBytes)
	p.b = http2.AppendReset(p.b, id, code)
}

// charge counts a stream that cost more than it was worth.
func (s *session) charge() {
	l := s.connection.conn.loop
	if s.state == sessionOver {
		return
	}
	if l.now-s.resetAt >= 1e9 {
		s.resets, s.resetAt = resetsMost, l.now
	}
	if s.resets--; s.resets < 0 {
		l.counts.resetFloods++
		s.end(http2.EnhanceYourCalm)
	}
}

// gather frames the streams' pending data, one frame of each in turn.
func (s *session) gather() {
	c, room := s.connection, maxAnswered
	if c.conn.blocked || c.conn.fd < 0 {
		room = 0
	}
	kept := s.spared[:0]
	for i := 0; i < len(s.ready); i++ {
		st := s.ready[i]
		s.ready[i] = nil
		if st.client.conn.fd < 0 || !st.listed { // it has ended
			continue
		}
		switch st.frame(&room) {
		case framedSome:
			s.ready = append(s.ready, st)
			continue
		case framedPart:
			kept = append(kept, st)
		default:
			st.listed = false
		}
		own := &st.client.conn
		if own.fd >= 0 && (st.held > 0 && !own.blocked || st.held == 0 && (own.blocked || own.drainDeferred)) {
			own.unsettle()
			c.conn.loop.hurry = c.conn.loop.hurry || st.held == 0
		}
	}
	s.ready, s.spared = kept, s.ready[:0]
	if len(kept) > 0 && room <= 0 && !c.conn.blocked && c.conn.fd >= 0 {
		c.conn.deferDrain()
	}
}

// data writes a DATA frame with the next n bytes of a stream; false once the stream has ended.
func (s *session) data(st *stream, n int, last bool) bool {
	p := s.connection.conn.room(http2.HeaderBytes + n)
	before, flags, whole := len(p.b), uint8(0), true
	if last {
		flags = http2.EndStream
	}
	p.b = http2.AppendHeader(p.b, n, http2.Data, flags, st.id)
	if p.b, whole = st.copyTo(p.b, n); !whole {
		p.b = p.b[:before]
		s.kill(st, http2.InternalError, "a file that was cut while it was sent")
		return false
	}
	s.reader.Forgive()
	if last {
		s.finish(st)
	}
	return !last
}

// tableSizeNone sets the dynamic table's size to 0 (RFC 7541, section 6.3).
const tableSizeNone = 0x20

// drain announces the shutdown to the client, and ends the session once the requests that started
// before the client knew are done (RFC 9113, section 6.8).
func (s *session) drain() {
	if s.state >= sessionLeaving {
		return
	}
	s.state = sessionLeaving
	p := s.connection.conn.room(goAwayBytes + pingBytes)
	p.b = http2.AppendGoAway(p.b, http2.MaxStream, http2.NoError)
	p.b = http2.AppendPing(p.b, make([]byte, 8), false)
	s.connection.conn.expire(leaveNs)
}

// finalWord refuses new streams from now on.
func (s *session) finalWord() {
	s.state = sessionLast
	s.connection.conn.deadline = 0
	if len(s.streams) == 0 {
		s.end(http2.NoError)
		return
	}
	p := s.connection.conn.room(goAwayBytes)
	p.b = http2.AppendGoAway(p.b, s.last, http2.NoError)
}

// end ends the session: with an error, or because it is done.
func (s *session) end(code http2.Code) {
	c := s.connection
	if s.state == sessionOver || c.conn.fd < 0 {
		return
	}
	p := c.conn.room(goAwayBytes)
	p.b = http2.AppendGoAway(p.b, s.last, code)
	c.conn.mark()
	s.lost(code.String())
	c.linger(true)
}

// lost ends the streams of a lost connection.
func (s *session) lost(why string) {
	if s.state == sessionOver {
		return
	}
	s.state = sessionOver
	s.connection.conn.loop.admission.sessions.open--
	for len(s.streams) > 0 {
		st := s.streams[len(s.streams)-1]
		st.silent = true
		st.client.fail(why)
	}
}

// drained continues after the client has read its input.
func (s *session) drained() {
	s.connection.conn.resume()
	if len(s.ready) > 0 || s.connection.conn.out != nil {
		s.connection.conn.mark()
	}
}

// holds reports whether writes must wait because the client has not read its input: await bounds
// the content of one parcel, but nothing bounds what the ring holds.
func (s *session) holds() bool { return s.connection.conn.blocked && s.state < sessionOver }

// expired: nothing arrived for too long.
func (s *session) expired() {
	c := s.connection
	switch {
	case s.state == sessionLeaving:
		s.finalWord()
	case len(s.streams) == 0 && s.prefaced == len(http2.Preface) && !s.reader.Unfinished() && !c.conn.blocked:
		c.conn.loop.counts.idleClosed++
		s.end(http2.NoError)
	default:
		c.conn.loop.counts.headerTimeouts++
		c.end()
	}
}
