package proxy

import (
	"errors"

	"ceiling/internal/hpack"
	"ceiling/internal/http2"
)

// HTTP/2 of clients (RFC 9113). A session is what stands behind a connection that speaks
// it: it takes frames apart, and each request becomes a stream, which is a client
// without a socket (http2_stream.go). The reasons are in
// docs/decisions/035-http2-in-the-proxys-loop.md.

const (
	// streamsMost is how many requests a connection may have under way.
	streamsMost = 128
	// streamWindow and sessionWindow are what a client may send of bodies that nobody
	// has taken: of one request, and of all.
	streamWindow  = 256 << 10
	sessionWindow = 1 << 20
	// tableBytes is the dynamic table for requests' heads, the default (RFC 9113, 6.5.2).
	tableBytes = 4096
	// blockFactor is how many times a head's limit a header block may have on the wire.
	blockFactor = 4
	// controlMost is what waits to be sent to a client that reads nothing, beside
	// bodies: then nothing more is received from it.
	controlMost = 16 << 10
	// heldMost is what a connection holds of answers before each of its streams holds one
	// piece of 16 KiB at most: 1 MiB and 128 pieces in place of 128 large parcels.
	heldMost = 1 << 20
	// packingMost is how many of a connection's answers are compressed at a time: an encoder
	// has 0.6 to 4.7 MB, for as long as its answer lasts. Others go out as they are.
	packingMost = 16
	// resetsMost bounds streams that end before their answer, by RST_STREAM of the client
	// or because of what it did: so many at once, and as many a second. Each costs more
	// to serve than to ask for (CVE-2023-44487, CVE-2025-8671).
	resetsMost = 200
	// recentIDs is how many streams are remembered when they are gone.
	recentIDs = 64
	// leaveNs is how long a client may take to answer that it knows of the end.
	leaveNs = 1e9

	windowUpdateBytes = http2.HeaderBytes + 4
	resetBytes        = http2.HeaderBytes + 4
	goAwayBytes       = http2.HeaderBytes + 8
	pingBytes         = http2.HeaderBytes + 8
)

// sessionState goes from each to a later one.
type sessionState uint8

const (
	sessionPreface sessionState = iota // the preface, or the first SETTINGS, is to come
	sessionOpen
	sessionLeaving // the client is told of the end; requests that are on their way are taken
	sessionLast    // no new streams
	sessionOver
)

// session is a connection with HTTP/2.
type session struct {
	connection *client
	state      sessionState
	prefaced   int // bytes of the preface that came
	reader     http2.Reader
	decoder    hpack.Decoder
	settings   http2.Settings // the client's
	window     http2.Window
	credit     http2.Credit
	table      tableNotice

	ids     []uint32 // of streams, at the same place
	streams []*stream
	ready   []*stream // have something to send, or an end
	spared  []*stream // ready's other half
	held    int       // bytes in the streams' parcels
	last    uint32    // the highest identifier
	recent  recents
	resets  int   // that are left
	resetAt int64 // loop's clock: when they were counted
}

// disregarded marks an identifier in session.recent whose stream was ended here: what
// comes of it was on its way.
const disregarded = 1 << 31

// speakHTTP2 makes a client's connection one of HTTP/2.
func (l *loop) speakHTTP2(c *client) {
	s := &session{connection: c, settings: http2.DefaultSettings(), window: http2.DefaultWindow, credit: http2.NewCredit(sessionWindow),
		resets: resetsMost, resetAt: l.now}
	most := l.site.config.Limits.HeaderBytes
	s.reader.BlockMost = blockFactor * most
	s.decoder.SetLimit(tableBytes)
	c.session, c.state = s, atSession
	l.sessions.open++
	l.sessions.total++
	out := c.buffer()
	out.b = http2.AppendSettings(out.b, http2.Setting{ID: http2.MaxConcurrentStreams, Value: streamsMost},
		http2.Setting{ID: http2.InitialWindowSize, Value: streamWindow}, http2.Setting{ID: http2.MaxHeaderListSize, Value: uint32(most)},
		http2.Setting{ID: http2.EnableConnect, Value: 1})
	out.b = http2.AppendWindowUpdate(out.b, 0, sessionWindow-http2.DefaultWindow)
	if l.stopping {
		s.drain()
	}
}

// received takes bytes of the client.
func (s *session) received(b []byte) {
	c := s.connection
	if s.prefaced < len(http2.Preface) {
		n := min(len(b), len(http2.Preface)-s.prefaced)
		if string(b[:n]) != http2.Preface[s.prefaced:][:n] {
			c.loop.counts.badRequests++
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
			c.loop.counts.badRequests++
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

// await bounds what a client may do between two requests: leave a head unfinished, and
// send what is answered without reading the answers.
func (s *session) await() {
	c := s.connection
	switch unfinished := s.prefaced < len(http2.Preface) || s.reader.Unfinished(); {
	case unfinished && c.deadline == 0:
		c.expire(c.loop.site.timeouts.header)
	case !unfinished && len(s.streams) > 0 && s.state != sessionLeaving:
		c.deadline = 0
	}
	if c.blocked && c.out != nil && len(c.out.b) > controlMost {
		c.pause()
	}
}

// take takes one frame.
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
			p := s.connection.room(pingBytes)
			p.b = http2.AppendPing(p.b, ev.Payload, true)
		} else if s.state == sessionLeaving {
			s.finalWord()
		}
	case http2.GoAway: // it asks for nothing more
		if s.state < sessionLast {
			s.finalWord()
		}
	case http2.WindowUpdate:
		s.grow(ev)
	case http2.PushPromise:
		s.end(http2.ProtocolError)
	}
}

// find is an open stream, nil where there is none.
func (s *session) find(id uint32) *stream {
	for i, have := range s.ids {
		if have == id {
			return s.streams[i]
		}
	}
	return nil
}

// packing tells whether as many answers are being compressed as may be.
func (s *session) packing() bool {
	n := 0
	for _, st := range s.streams {
		if st.x != nil && st.x.packer != nil {
			n++
		}
	}
	return n >= packingMost
}

// idle tells that a stream was not begun: frames of it are an error, but for those of one
// that is behind the last.
func (s *session) idle(id uint32) bool { return id&1 == 0 || id > s.last && s.state < sessionLast }

// head takes a header block: a request, or the trailers of one.
func (s *session) head(ev *http2.Event) {
	id, l := ev.Stream, s.connection.loop
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
	case st == nil: // on its way when its stream was ended, or behind the last
	case st.heard:
		s.kill(st, http2.StreamClosed, "frames behind the end of the request")
	case err != nil, !ev.End:
		s.kill(st, http2.ProtocolError, "malformed trailers")
	default:
		st.takeTrailers(l.rewriter.lines)
	}
}

// bad ends the connection because of a header block, after which the decoder's table is
// not known any more.
func (s *session) bad(err error) {
	s.connection.loop.counts.badRequests++
	if errors.Is(err, errBlock) {
		s.end(http2.EnhanceYourCalm)
		return
	}
	s.end(http2.CompressionError)
}

// request begins a stream.
func (s *session) request(ev *http2.Event) {
	l, w := s.connection.loop, &s.connection.loop.rewriter
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
	st.eof = ev.End && w.key != ""
	if w.status != 0 {
		l.parcels.put(in)
		l.counts.badRequests++
		if string(w.method) == "HEAD" {
			st.exchange().request.Method = nameHead // its answer has no body
		}
		st.refuse(w.status, w.why)
		return
	}
	st.in = in
	st.run()
}

// open makes a stream.
func (s *session) open(id uint32) *stream {
	c := s.connection
	l := c.loop
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
	l.adopt(&st.conn, &st.client, int(c.fd))
	st.stream = st
	st.state, st.trusted, st.remote, st.scheme, st.name = atHead, c.trusted, c.remote, c.scheme, c.name
	if len(s.streams) == 1 {
		c.unlist()
		if s.state <= sessionOpen {
			c.deadline = 0
		}
	}
	l.sessions.streams++
	l.sessions.streamsTotal++
	return st
}

// forget takes a stream off the books.
func (s *session) forget(st *stream) {
	c, end := s.connection, len(s.streams)-1
	moved := s.streams[end]
	s.ids[st.place], s.streams[st.place], moved.place = s.ids[end], moved, st.place
	s.streams[end] = nil
	s.ids, s.streams = s.ids[:end], s.streams[:end]
	c.loop.sessions.streams--
	if s.repay(st.owed); end > 0 || s.state == sessionOver {
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
		c.expire(c.loop.site.timeouts.keepAlive)
	}
}

// finish ends a stream whose answer is out.
func (s *session) finish(st *stream) {
	l := s.connection.loop
	if !st.heard {
		s.reset(st.id, http2.NoError) // RFC 9113, section 8.1: the rest of the request is not wanted
	}
	s.forget(st)
	if st.in != nil {
		l.parcels.put(st.in)
		st.in = nil
	}
	st.free()
	st.fd, st.deadline = -1, 0
	l.forget(&st.conn)
	if !st.unsettled && len(l.streams) < maxSpare { // nobody else knows it
		l.streams = append(l.streams, st)
	}
}

// body takes a piece of a DATA frame.
func (s *session) body(ev *http2.Event) {
	st := s.find(ev.Stream)
	_, ours := s.recent.was(ev.Stream)
	switch {
	case s.idle(ev.Stream):
		s.end(http2.ProtocolError)
	case !s.credit.Spend(ev.Flow):
		s.end(http2.FlowControlError)
	case st == nil:
		if s.repay(ev.Flow); ev.First && !ours && ev.Stream <= s.last {
			s.wrong(ev.Stream, http2.StreamClosed)
		}
	case st.heard:
		st.owed += ev.Flow
		s.kill(st, http2.StreamClosed, "frames behind the end of the request")
	case !st.credit.Spend(ev.Flow):
		st.owed += ev.Flow
		s.kill(st, http2.FlowControlError, "more than the window allows")
	default:
		st.take(ev.Payload, ev.Flow, ev.End)
	}
}

// repay opens the connection's window again.
func (s *session) repay(flow uint32) {
	if n := s.credit.Return(flow); n > 0 && s.state < sessionOver {
		p := s.connection.room(windowUpdateBytes)
		p.b = http2.AppendWindowUpdate(p.b, 0, n)
	}
}

// resetBy takes the client's RST_STREAM.
func (s *session) resetBy(ev *http2.Event) {
	st := s.find(ev.Stream)
	switch {
	case st != nil:
		s.connection.loop.counts.clientResets++
		st.silent = true
		st.fail("client reset the stream")
		s.charge()
	case s.idle(ev.Stream):
		s.end(http2.ProtocolError)
	}
}

// set takes the client's SETTINGS.
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
	p := s.connection.room(http2.HeaderBytes)
	p.b = http2.AppendSettingsAck(p.b)
}

// grow takes a WINDOW_UPDATE.
func (s *session) grow(ev *http2.Event) {
	if ev.Stream == 0 {
		if !s.window.Grow(int64(ev.Promised)) {
			s.end(http2.FlowControlError)
			return
		}
		if len(s.ready) > 0 {
			s.connection.mark()
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

// wrong resets a stream because of what the client did.
func (s *session) wrong(id uint32, code http2.Code) {
	if st := s.find(id); st != nil {
		s.kill(st, code, code.String())
		return
	}
	s.reset(id, code)
	s.charge()
}

// kill ends a stream because of what the client did.
func (s *session) kill(st *stream, code http2.Code, why string) {
	if st.ended {
		return
	}
	s.connection.loop.counts.badRequests++
	st.code = code
	st.fail(why)
	s.charge()
}

// reset tells the client that a stream has ended.
func (s *session) reset(id uint32, code http2.Code) {
	if s.state == sessionOver {
		return
	}
	s.recent.disregard(id)
	p := s.connection.room(resetBytes)
	p.b = http2.AppendReset(p.b, id, code)
}

// charge counts a stream that has cost more than it was worth.
func (s *session) charge() {
	l := s.connection.loop
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

// gather makes frames of what streams have, a frame of each in turn.
func (s *session) gather() {
	c, room := s.connection, maxAnswered
	if c.blocked || c.fd < 0 {
		room = 0
	}
	kept := s.spared[:0]
	for i := 0; i < len(s.ready); i++ {
		st := s.ready[i]
		s.ready[i] = nil
		if st.fd < 0 || !st.listed { // it has ended
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
		if st.fd >= 0 && (st.held > 0 && !st.blocked || st.held == 0 && (st.blocked || st.ease)) {
			st.unsettle()
			c.loop.hurry = c.loop.hurry || st.held == 0
		}
	}
	s.ready, s.spared = kept, s.ready[:0]
	if len(kept) > 0 && room <= 0 && !c.blocked && c.fd >= 0 {
		c.atEase()
	}
}

// data makes a DATA frame of the next n bytes of a stream; false once it has ended.
func (s *session) data(st *stream, n int, last bool) bool {
	p := s.connection.room(http2.HeaderBytes + n)
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

// tableSizeNone is a change of the dynamic table's size to 0 (RFC 7541, section 6.3).
const tableSizeNone = 0x20

// drain tells the client that the end is near, and has the session end with what is
// under way by the time that it knows (RFC 9113, section 6.8).
func (s *session) drain() {
	if s.state >= sessionLeaving {
		return
	}
	s.state = sessionLeaving
	p := s.connection.room(goAwayBytes + pingBytes)
	p.b = http2.AppendGoAway(p.b, http2.MaxStream, http2.NoError)
	p.b = http2.AppendPing(p.b, make([]byte, 8), false)
	s.connection.expire(leaveNs)
}

// finalWord takes no new streams from now on.
func (s *session) finalWord() {
	s.state = sessionLast
	s.connection.deadline = 0
	if len(s.streams) == 0 {
		s.end(http2.NoError)
		return
	}
	p := s.connection.room(goAwayBytes)
	p.b = http2.AppendGoAway(p.b, s.last, http2.NoError)
}

// end ends the session: with an error, or because there is nothing more to do.
func (s *session) end(code http2.Code) {
	c := s.connection
	if s.state == sessionOver || c.fd < 0 {
		return
	}
	p := c.room(goAwayBytes)
	p.b = http2.AppendGoAway(p.b, s.last, code)
	c.mark()
	s.lost(code.String())
	c.linger(true)
}

// lost ends the streams of a connection that is none any more.
func (s *session) lost(why string) {
	if s.state == sessionOver {
		return
	}
	s.state = sessionOver
	s.connection.loop.sessions.open--
	for len(s.streams) > 0 {
		st := s.streams[len(s.streams)-1]
		st.silent = true
		st.fail(why)
	}
}

// drained goes on when the client has taken what it was sent.
func (s *session) drained() {
	s.connection.resume()
	if len(s.ready) > 0 || s.connection.out != nil {
		s.connection.mark()
	}
}

// holds tells whether what is written has to wait, since the client has not taken what it
// was sent: await bounds what is in one parcel, and nothing what is in the ring's hands.
func (s *session) holds() bool { return s.connection.blocked && s.state < sessionOver }

// expired: nothing came for too long.
func (s *session) expired() {
	c := s.connection
	switch {
	case s.state == sessionLeaving:
		s.finalWord()
	case len(s.streams) == 0 && s.prefaced == len(http2.Preface) && !s.reader.Unfinished() && !c.blocked:
		c.loop.counts.idleClosed++
		s.end(http2.NoError)
	default:
		c.loop.counts.headerTimeouts++
		c.end()
	}
}
