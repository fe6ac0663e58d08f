package proxy

import (
	"errors"
	"slices"
	"syscall"

	"ceiling/internal/hpack"
	"ceiling/internal/http1"
	"ceiling/internal/http2"
)

// HTTP/2 to destinations (RFC 9113). A peerSession is a connection that speaks it, and each
// request on it is a call, which is a peer without a socket (http2_call.go). See
// docs/decisions/038-http2-to-destinations.md for the reasons.

const (
	// callsMost bounds the concurrent requests of a connection; callsAssumed is the limit until
	// the destination states its own.
	callsMost    = 256
	callsAssumed = 100
	// callWindow is how much of a response a destination may send before its client reads it. The
	// connection's window is returned at once, so that a slow client does not hold up others.
	callWindow        = 64 << 10
	peerSessionWindow = 1 << 20
)

// peerSessionState only advances.
type peerSessionState uint8

const (
	outConnecting peerSessionState = iota
	outGreeting                    // connected; the destination's SETTINGS are expected
	outOpen
	outLeaving // no new requests: current ones finish
	outOver
)

// peerSession is a connection with HTTP/2 to a destination.
type peerSession struct {
	conn     conn
	pool     *pool
	state    peerSessionState
	reader   http2.Reader
	decoder  hpack.Decoder
	settings http2.Settings // the destination's
	window   http2.Window
	credit   http2.Credit
	table    tableNotice

	ids     []uint32 // stream IDs of the calls, at the same indices; 0: head not sent yet
	calls   []*call
	ready   []*call // calls with something to send, or an end
	spared  []*call // ready's other half
	next    uint32  // next stream ID
	recent  recents
	began   int64  // loop's clock
	address int    // index of its address among the upstream's
	served  bool   // it has answered a request
	away    string // why the destination accepts no more requests
}

// ask finds an HTTP/2 connection for x, or queues it for one.
func (p *pool) ask(x *exchange) {
	for _, s := range p.sessions {
		if s.hasRoom() {
			if s.state == outOpen {
				p.loop.counts.reuses++
			}
			s.take(x)
			return
		}
	}
	if limit := int(p.upstream.limit.Load()); limit > 0 && p.open >= limit {
		p.line(x)
		return
	}
	p.openSession(x)
}

// openSession opens a connection for x.
func (p *pool) openSession(x *exchange) {
	l := p.loop
	s := &peerSession{pool: p, settings: http2.DefaultSettings(), window: http2.DefaultWindow, next: 1, began: l.now,
		credit: http2.NewCredit(peerSessionWindow)}
	fd, at, to, err := p.socket()
	if err != nil {
		p.unopened(x, err)
		return
	}
	s.address = at
	l.adopt(&s.conn, s, fd)
	s.conn.outward = s
	s.decoder.SetLimit(0)
	p.open++
	p.sessions = append(p.sessions, s)
	s.take(x)
	s.conn.expire(x.location.within.connect)
	l.ring.Connect(fd, to, s.conn.tag())
}

// admitCalls assigns the head of the queue to connections with room, or to new ones.
func (p *pool) admitCalls() {
	for n := len(p.queue); n > 0 && p.hasRoom(); n-- {
		c := p.next()
		if c == nil {
			return
		}
		p.ask(c.x)
	}
}

func (p *pool) hasRoom() bool {
	limit := int(p.upstream.limit.Load())
	return limit == 0 || p.open < limit || slices.ContainsFunc(p.sessions, (*peerSession).hasRoom)
}

// emptySessions closes the idle connections.
func (p *pool) emptySessions() {
	for _, s := range slices.Clone(p.sessions) {
		if len(s.calls) == 0 && s.state == outOpen {
			s.bye()
		}
	}
}

// idleSessions counts the connections without a request, except one.
func (p *pool) idleSessions(beside *peerSession) (n int) {
	for _, s := range p.sessions {
		if s != beside && len(s.calls) == 0 {
			n++
		}
	}
	return n
}

// hasRoom reports whether the connection accepts one more request.
func (s *peerSession) hasRoom() bool {
	most := callsAssumed
	if s.state == outOpen {
		most = s.streamsMost()
	}
	return s.state <= outOpen && len(s.calls) < most && uint64(s.next)+2*callsMost <= http2.MaxStream
}

func (s *peerSession) streamsMost() int { return int(min(s.settings.MaxConcurrentStreams, callsMost)) }

// take makes x a call, which begins once the destination has stated its limit.
func (s *peerSession) take(x *exchange) {
	l := s.conn.loop
	var k *call
	if n := len(l.idleCalls); n > 0 {
		k, l.idleCalls = l.idleCalls[n-1], l.idleCalls[:n-1]
		*k = call{queue: k.queue}
	} else {
		k = new(call)
	}
	k.session, k.place, k.code, k.left = s, len(s.calls), http2.Cancel, unknownLength
	k.credit, k.window = http2.NewCredit(callWindow), http2.Window(s.settings.InitialWindowSize)
	s.ids, s.calls = append(s.ids, 0), append(s.calls, k)
	l.adopt(&k.peer.conn, &k.peer, int(s.conn.fd))
	k.peer.conn.call = k
	k.peer.pool, k.peer.client, x.peer, k.peer.opened = s.pool, x.client, &k.peer, s.began
	if s.served {
		k.peer.served = 1
	}
	if s.state == outOpen {
		s.conn.deadline = 0
		k.peer.begin(x)
	}
}

// connected completes a connect.
func (s *peerSession) connected(err syscall.Errno) {
	l := s.conn.loop
	if err != 0 {
		l.counts.connectErrors++
		s.unreachable(502, "connect: "+err.Error())
		return
	}
	if s.pool.upstream.secure() {
		s.pool.startTLS(&s.conn)
		return
	}
	s.conn.receive()
	s.greet()
}

// secured implements tlsParty.
func (s *peerSession) secured() {
	if s.conn.tls.Agreed().Protocol != "h2" {
		s.refused(errNoHTTP2)
		return
	}
	u := s.pool.upstream
	u.tls.note(u.key, nil, s.conn.loop.proxy.fail)
	s.greet()
}

// refused implements tlsParty.
func (s *peerSession) refused(err error) {
	u := s.pool.upstream
	u.tls.note(u.key, err, s.conn.loop.proxy.fail)
	s.conn.loop.counts.connectErrors++
	s.unreachable(502, shownTLS(err, true))
}

// greet begins HTTP/2.
func (s *peerSession) greet() {
	l := s.conn.loop
	l.counts.connects++
	s.pool.upstream.connected()
	s.state = outGreeting
	out := s.conn.buffer()
	out.b = append(out.b, http2.Preface...)
	out.b = http2.AppendSettings(out.b, http2.Setting{ID: http2.HeaderTableSize}, http2.Setting{ID: http2.EnablePush},
		http2.Setting{ID: http2.InitialWindowSize, Value: callWindow}, http2.Setting{ID: http2.MaxHeaderListSize, Value: http1.MaxHead})
	out.b = http2.AppendWindowUpdate(out.b, 0, peerSessionWindow-http2.DefaultWindow)
}

// unreachable ends a connect attempt. It tries a name's next address before the destination
// counts as failed.
func (s *peerSession) unreachable(status int, why string) {
	p := s.pool
	others := p.avoidAddress(s.address)
	s.retire()
	s.state = outOver
	for len(s.calls) > 0 {
		k := s.calls[len(s.calls)-1]
		if others {
			p.ask(k.detach())
		} else {
			// Each counts, as with HTTP/1.1: otherwise the retry budget would be exhausted first.
			k.peer.giveUp(status, why, failure{opened: p.loop.now})
		}
	}
	s.conn.close()
	p.admit()
}

// begin starts the waiting requests once the destination has stated its limit. Those beyond it
// find another connection.
func (s *peerSession) begin() {
	s.state, s.conn.deadline = outOpen, 0
	if s.streamsMost() == 0 {
		s.end(502, "the destination takes no request: SETTINGS_MAX_CONCURRENT_STREAMS is 0")
		return
	}
	begun := 0
	for _, k := range slices.Clone(s.calls) {
		switch {
		case k.peer.conn.fd < 0 || k.peer.state != peerConnecting:
		case begun < s.streamsMost():
			begun++
			k.peer.begin(k.peer.client.x)
		default:
			s.pool.ask(k.detach())
		}
	}
	if s.state == outOpen && len(s.calls) == 0 {
		s.rest()
	}
	s.pool.admit()
}

// received handles bytes from the destination.
func (s *peerSession) received(b []byte) {
	for len(b) > 0 && s.conn.fd >= 0 {
		ev, n, err := s.reader.Next(b)
		b = b[n:]
		switch greeting := s.state == outGreeting; {
		case greeting && (err != nil || ev != nil && (ev.Type != http2.SettingsFrame || ev.Flags&http2.Ack != 0)):
			s.conn.loop.counts.peerFaults++
			s.end(502, "the destination does not speak HTTP/2")
		case err != nil && err.Stream == 0:
			s.fault(err.Code, err.Reason)
		case err != nil:
			s.wrong(err.Stream, err.Code, err.Reason)
		case ev != nil:
			s.event(ev)
		}
	}
	if s.conn.blocked && s.conn.out != nil && len(s.conn.out.b) > controlMost {
		s.conn.pause()
	}
}

// event handles one frame.
func (s *peerSession) event(ev *http2.Event) {
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
			p := s.conn.room(pingBytes)
			p.b = http2.AppendPing(p.b, ev.Payload, true)
		}
	case http2.GoAway:
		s.goAway(ev)
	case http2.WindowUpdate:
		s.grow(ev)
	case http2.PushPromise:
		s.fault(http2.ProtocolError, "PUSH_PROMISE, which was not allowed")
	}
}

// find returns a call whose head was sent, nil if there is none.
func (s *peerSession) find(id uint32) *call {
	if i := slices.Index(s.ids, id); i >= 0 {
		return s.calls[i]
	}
	return nil
}

// idle reports whether a stream was never started.
func (s *peerSession) idle(id uint32) bool { return id&1 == 0 || id >= s.next }

// stray handles a frame of an unknown or ended stream; false if it ends the connection. Frames of
// a stream reset here may still be in transit.
func (s *peerSession) stray(id uint32) bool {
	_, ours := s.recent.was(id)
	switch {
	case s.idle(id):
		s.fault(http2.ProtocolError, "a stream that was not begun")
	case !ours:
		s.fault(http2.StreamClosed, "frames behind the end of a response")
	default:
		return true
	}
	return false
}

// head handles a header block: a response, or the trailers of one.
func (s *peerSession) head(ev *http2.Event) {
	l, k := s.conn.loop, s.find(ev.Stream)
	if k == nil && !s.stray(ev.Stream) {
		return
	}
	trailers := k == nil || k.headed
	var err error
	if trailers {
		err = l.rewriter.trailers(&s.decoder, ev.Payload, http1.MaxTrailer)
	} else {
		err = l.replies.read(&s.decoder, ev.Payload, http1.MaxHead)
	}
	switch {
	case errors.Is(err, errBlock):
		s.fault(http2.EnhanceYourCalm, err.Error())
	case err != nil && !errors.Is(err, errMalformed):
		s.fault(http2.CompressionError, err.Error())
	case k == nil: // read only to keep the decoder's state
	case trailers && (err != nil || !ev.End):
		k.malformed("malformed trailers")
	case trailers:
		k.takeTrailers(l.rewriter.lines)
	case err != nil:
		k.malformed(l.replies.why)
	default:
		k.takeHead(&l.replies, ev.End)
	}
}

// body handles a piece of a DATA frame.
func (s *peerSession) body(ev *http2.Event) {
	k := s.find(ev.Stream)
	if !s.credit.Spend(ev.Flow) {
		s.fault(http2.FlowControlError, "more than the connection's window allows")
		return
	}
	if n := s.credit.Return(ev.Flow); n > 0 {
		p := s.conn.room(windowUpdateBytes)
		p.b = http2.AppendWindowUpdate(p.b, 0, n)
	}
	switch {
	case k == nil:
		if ev.First {
			s.stray(ev.Stream)
		}
	case !k.headed:
		k.malformed("a body without a head")
	case !k.credit.Spend(ev.Flow):
		k.code = http2.FlowControlError
		k.malformed("more than the stream's window allows")
	default:
		k.take(ev.Payload, ev.Flow, ev.End)
	}
}

// resetBy handles the destination's RST_STREAM.
func (s *peerSession) resetBy(ev *http2.Event) {
	switch k := s.find(ev.Stream); {
	case k != nil:
		k.resetBy(ev.Code)
	case s.idle(ev.Stream):
		s.fault(http2.ProtocolError, "a stream that was not begun")
	}
}

// set handles the destination's SETTINGS.
func (s *peerSession) set(ev *http2.Event) {
	if ev.Flags&http2.Ack != 0 {
		return
	}
	before := s.settings
	if err := s.settings.Apply(ev.Payload); err != nil {
		s.fault(err.Code, err.Reason)
		return
	}
	s.table.resized = s.table.resized || s.settings.HeaderTableSize < before.HeaderTableSize
	by := int64(s.settings.InitialWindowSize) - int64(before.InitialWindowSize)
	for _, k := range s.calls {
		if !k.window.Grow(by) {
			s.fault(http2.FlowControlError, "a window over 2^31-1")
			return
		}
		if by > 0 && k.held > 0 {
			k.ready()
		}
	}
	p := s.conn.room(http2.HeaderBytes)
	p.b = http2.AppendSettingsAck(p.b)
	switch s.state {
	case outGreeting:
		s.begin()
	case outOpen:
		s.pool.admit()
	}
}

// goAway: the destination accepts no more requests on the connection, and has not processed those
// after the one it names.
func (s *peerSession) goAway(ev *http2.Event) {
	s.conn.loop.counts.peerAways++
	if ev.Code != http2.NoError {
		s.away = ": GOAWAY " + ev.Code.String()
	}
	s.retire()
	for s.conn.fd >= 0 {
		i := slices.IndexFunc(s.ids, func(id uint32) bool { return id == 0 || id > ev.Promised })
		if i < 0 {
			break
		}
		s.calls[i].silent = true
		s.calls[i].refused("the destination ends the connection" + s.away)
	}
	if s.conn.fd >= 0 && len(s.calls) == 0 {
		s.bye()
	}
}

// grow handles a WINDOW_UPDATE.
func (s *peerSession) grow(ev *http2.Event) {
	if ev.Stream == 0 {
		if !s.window.Grow(int64(ev.Promised)) {
			s.fault(http2.FlowControlError, "a window over 2^31-1")
		} else if len(s.ready) > 0 {
			s.conn.mark()
		}
		return
	}
	switch k := s.find(ev.Stream); {
	case k == nil && s.idle(ev.Stream):
		s.fault(http2.ProtocolError, "a stream that was not begun")
	case k == nil:
	case !k.window.Grow(int64(ev.Promised)):
		s.wrong(ev.Stream, http2.FlowControlError, "a window over 2^31-1")
	case k.held > 0:
		k.ready()
	}
}

// wrong resets a stream because of an error of the destination.
func (s *peerSession) wrong(id uint32, code http2.Code, why string) {
	if k := s.find(id); k != nil {
		k.code = code
		k.malformed(why)
		return
	}
	s.reset(id, code)
}

// reset tells the destination that a stream has ended.
func (s *peerSession) reset(id uint32, code http2.Code) {
	s.recent.disregard(id)
	p := s.conn.room(resetBytes)
	p.b = http2.AppendReset(p.b, id, code)
}

// gather frames the calls' pending data, one frame of each in turn.
func (s *peerSession) gather() {
	room := maxAnswered
	if s.conn.blocked || s.conn.fd < 0 {
		room = 0
	}
	kept := s.spared[:0]
	for i := 0; i < len(s.ready); i++ {
		k := s.ready[i]
		s.ready[i] = nil
		if k.peer.conn.fd < 0 {
			k.listed = false
			continue
		}
		switch k.frame(&room) {
		case framedSome:
			s.ready = append(s.ready, k)
			continue
		case framedPart:
			kept = append(kept, k)
		default:
			k.listed = false
		}
		if k.held > 0 && !k.peer.conn.blocked || k.held == 0 && k.peer.conn.blocked {
			k.peer.conn.unsettle()
			s.conn.loop.hurry = s.conn.loop.hurry || k.held == 0
		}
	}
	s.ready, s.spared = kept, s.ready[:0]
	if len(kept) > 0 && room <= 0 && !s.conn.blocked && s.conn.fd >= 0 {
		s.conn.deferDrain()
	}
}

// forget removes a call.
func (s *peerSession) forget(k *call) {
	end := len(s.calls) - 1
	moved := s.calls[end]
	s.ids[k.place], s.calls[k.place], moved.place = s.ids[end], moved, k.place
	s.calls[end] = nil
	s.ids, s.calls = s.ids[:end], s.calls[:end]
	s.conn.loop.spent = append(s.conn.loop.spent, k)
	if s.state == outOver {
		return
	}
	if end == 0 {
		switch s.state {
		case outOpen:
			s.rest()
		case outLeaving:
			s.bye()
		}
	}
	s.pool.admit()
}

// rest keeps the idle connection for the next request, or closes it.
func (s *peerSession) rest() {
	p := s.pool
	if p.loop.stopping || p.upstream.gone.Load() || p.idleSessions(s) >= int(p.upstream.maxIdle.Load()) {
		s.bye()
		return
	}
	s.reader.Shrink()
	s.decoder.Shrink()
	s.conn.expire(p.upstream.idle.Load())
}

// retire gives the connection no more requests. It no longer counts against the connection limit,
// because its requests may last for hours.
func (s *peerSession) retire() {
	if s.state >= outLeaving {
		return
	}
	s.state = outLeaving
	p := s.pool
	p.open--
	if i := slices.Index(p.sessions, s); i >= 0 {
		p.sessions = slices.Delete(p.sessions, i, i+1)
	}
}

// bye ends a connection without requests.
func (s *peerSession) bye() {
	s.sayGoAway(http2.NoError)
	s.end(502, "the connection ended")
}

// broken ends a connection because of an error of the destination.
func (s *peerSession) fault(code http2.Code, why string) {
	if s.state == outOver {
		return
	}
	s.conn.loop.counts.peerFaults++
	s.sayGoAway(code)
	s.end(502, "the destination broke HTTP/2: "+code.String()+" ("+why+")")
}

func (s *peerSession) sayGoAway(code http2.Code) {
	if s.conn.fd >= 0 && !s.conn.blocked && s.state > outConnecting {
		p := s.conn.room(goAwayBytes)
		p.b = http2.AppendGoAway(p.b, 0, code)
		s.conn.flush()
	}
}

// end closes the connection. Each request fails as it would on its own connection.
func (s *peerSession) end(status int, why string) {
	if s.state == outOver {
		return
	}
	s.retire()
	s.state = outOver
	for len(s.calls) > 0 {
		s.calls[len(s.calls)-1].lose(status, why)
	}
	s.conn.close()
	s.pool.admit()
}

func (s *peerSession) ended(err syscall.Errno) {
	switch {
	case s.state == outConnecting:
		s.refused(endOf(err))
	case len(s.calls) == 0 && s.state == outOpen:
		s.conn.loop.counts.idlePeersClosed++
		s.end(502, "the connection ended")
	default:
		s.end(502, "the destination closed the connection"+s.away)
	}
}

func (s *peerSession) unsendable(syscall.Errno) { s.ended(0) }

// stalled does nothing: the calls notice by themselves.
func (s *peerSession) stalled() {}

// drained continues after the destination has read its input.
func (s *peerSession) drained() {
	s.conn.resume()
	if len(s.ready) > 0 || s.conn.out != nil {
		s.conn.mark()
	}
}

func (s *peerSession) expired() {
	switch s.state {
	case outConnecting:
		s.conn.loop.counts.connectTimeouts++
		s.unreachable(504, "connect: timeout")
	case outGreeting:
		s.conn.loop.counts.connectTimeouts++
		s.end(504, "the destination did not begin HTTP/2 in time")
	case outOpen:
		if len(s.calls) == 0 {
			s.bye()
		}
	}
}
