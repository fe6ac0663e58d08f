package proxy

import "ceiling/internal/http2"

// A call is a peer without a socket: what the loop writes to it, an HTTP/1.1 head and a body
// without framing, waits in its queue until the session frames it; received frames reach the peer
// as an HTTP/1.1 head and a body that lasts until the stream ends.
type call struct {
	peer    peer
	session *peerSession
	id      uint32 // 0: head not sent yet
	place   int    // in session.calls

	queue  []*buffer
	at     int    // sent part of queue's first
	held   int    // bytes in queue
	over   bool   // the request is complete
	said   bool   // END_STREAM sent
	listed bool   // is in session.ready
	tail   []byte // header block of the request's trailers
	window http2.Window

	headed    bool  // the final head has arrived
	heard     bool  // END_STREAM received
	left      int64 // of the response's body; unknownLength if its head does not say
	credit    http2.Credit
	creditDue uint32     // of the window, for bytes that the client has not read
	code      http2.Code // to reset it with, if it ends before both sides have ended it
	silent    bool       // the destination knows that it has ended
}

// ready schedules the call's pending data with the session.
func (k *call) ready() {
	if !k.listed {
		k.listed = true
		k.session.ready = append(k.session.ready, k)
	}
	k.session.conn.mark()
}

// enqueue queues the written data.
func (k *call) enqueue() {
	p := k.peer.conn.out
	k.peer.conn.out = nil
	switch {
	case p == nil:
	case len(p.b) == 0:
		k.peer.conn.loop.parcels.put(p)
	default:
		k.queue = append(k.queue, p)
		k.held += len(p.b)
	}
}

// settle reports to the call's source whether there is room, as conn.settle does.
func (k *call) settle() {
	switch {
	case k.held > 0 && !k.peer.conn.blocked:
		k.peer.conn.blocked = true
		k.peer.stalled()
	case k.held == 0 && k.peer.conn.blocked:
		k.peer.conn.blocked = false
		k.peer.drained()
	}
}

// endBody ends the request.
func (k *call) endBody() {
	if x := k.peer.client.x; len(x.trailers) > 0 {
		k.tail = k.peer.conn.loop.heads.appendTrailerBlock(k.tail[:0], appendTrailers(nil, x.trailers, x.location.request.without))
	}
	k.over = true
	k.ready()
}

// frame frames a head, and one DATA frame, of at most room bytes.
func (k *call) frame(room *int) outcome {
	k.enqueue()
	s := k.session
	if k.id == 0 && k.held > 0 {
		if *room <= 0 {
			return framedPart
		}
		k.frameHead(room)
	}
	if k.held == 0 {
		return k.frameEnd(room)
	}
	n := min(k.held, *room, http2.DefaultFrame)
	switch {
	case n <= 0 || s.window <= 0:
		return framedPart
	case k.window <= 0:
		return framedHeld
	}
	n = s.window.Take(min(n, int(k.window)))
	k.window.Take(n)
	*room -= n + http2.HeaderBytes
	flags := uint8(0)
	if k.over && n == k.held && len(k.tail) == 0 {
		k.said = true
		flags = http2.EndStream
	}
	p := s.conn.room(http2.HeaderBytes + n)
	p.b = http2.AppendHeader(p.b, n, http2.Data, flags, k.id)
	p.b = k.copyTo(p.b, n)
	s.reader.Forgive()
	if k.held == 0 && (k.said || !k.over) {
		return framedAll
	}
	return framedSome
}

// frameHead frames the request's head.
func (k *call) frameHead(room *int) {
	s := k.session
	block, n := k.peer.conn.loop.asks.request(k.queue[0].b, s.pool.upstream.secure())
	if n == 0 {
		panic("proxy: the request of a call begins without a head")
	}
	k.id, s.ids[k.place] = s.next, s.next
	s.recent.begin(k.id)
	s.next += 2
	k.pass(n)
	k.said = k.over && k.held == 0 && len(k.tail) == 0
	k.headers(block, k.said, room)
}

// frameEnd ends the stream once the request is complete.
func (k *call) frameEnd(room *int) outcome {
	switch {
	case !k.over || k.said || k.id == 0:
	case *room <= 0:
		return framedPart
	case len(k.tail) > 0:
		k.said = true
		k.headers(k.tail, true, room)
	default:
		k.said = true
		p := k.session.conn.room(http2.HeaderBytes)
		p.b = http2.AppendHeader(p.b, 0, http2.Data, http2.EndStream, k.id)
	}
	return framedAll
}

// headers sends a header block.
func (k *call) headers(block []byte, last bool, room *int) {
	p := k.session.conn.room(len(block) + 1 + http2.HeaderBytes*(2+len(block)/http2.DefaultFrame))
	before := len(p.b)
	p.b = k.session.table.appendBlock(p.b, k.id, block, last)
	*room -= len(p.b) - before
}

// pass removes n bytes from the front of the queue.
func (k *call) pass(n int) {
	k.at += n
	k.held -= n
	if k.at < len(k.queue[0].b) {
		return
	}
	k.peer.conn.loop.parcels.put(k.queue[0])
	k.at = 0
	k.queue = k.queue[:copy(k.queue, k.queue[1:])]
}

// copyTo moves n bytes of the queue to b.
func (k *call) copyTo(b []byte, n int) []byte {
	for n > 0 {
		first := k.queue[0].b[k.at:]
		m := min(n, len(first))
		b = append(b, first[:m]...)
		k.pass(m)
		n -= m
	}
	return b
}

// takeHead handles a response head; end means that the response ends with it.
func (k *call) takeHead(r *replies, end bool) {
	x := k.peer.client.x
	if r.status < 200 {
		if end {
			k.malformed("an interim response that ends its stream")
			return
		}
		k.peer.received(r.text)
		return
	}
	k.headed, k.heard, k.left = true, end, r.length
	text := r.text
	switch bodiless := r.status == 204 || r.status == 304 || string(x.request.Method) == "HEAD"; {
	case bodiless:
		k.left = 0
	case end && k.left > 0:
		k.malformed("a body that is not as long as its head says")
		return
	case end && k.left == unknownLength && k.peer.client.conn.stream == nil: // HTTP/1.1 cannot say this in the head otherwise
		text = r.empty()
	}
	k.session.served = true
	k.peer.received(text)
	if end && k.peer.conn.fd >= 0 {
		k.peer.complete()
	}
}

// take passes a piece of the response's body, which used flow of the window, to the client.
func (k *call) take(piece []byte, flow uint32, end bool) {
	k.creditDue += flow
	if k.left != unknownLength {
		if k.left -= int64(len(piece)); k.left < 0 || end && k.left > 0 {
			k.malformed("a body that is not as long as its head says")
			return
		}
	}
	k.heard = end
	if len(piece) > 0 {
		k.peer.received(piece)
	}
	switch {
	case k.peer.conn.fd < 0:
	case end:
		k.peer.complete()
	case k.peer.conn.intake != intakePaused:
		k.returnCredit()
	}
}

// takeTrailers ends the response.
func (k *call) takeTrailers(lines []byte) {
	if k.left > 0 {
		k.malformed("a body that is not as long as its head says")
		return
	}
	k.heard = true
	k.peer.trailers = append(k.peer.trailers[:0], lines...)
	k.peer.complete()
}

// returnCredit reopens the window by what the client has read.
func (k *call) returnCredit() {
	owed := k.creditDue
	if k.creditDue = 0; owed == 0 || k.heard {
		return
	}
	if n := k.credit.Return(owed); n > 0 {
		p := k.session.conn.room(windowUpdateBytes)
		p.b = http2.AppendWindowUpdate(p.b, k.id, n)
	}
}

// detach takes the request off the call for another one.
func (k *call) detach() *exchange {
	x := k.peer.client.x
	k.peer.client, x.peer = nil, nil
	k.peer.drop()
	return x
}

// malformed ends a call because of an error of the destination.
func (k *call) malformed(why string) {
	k.peer.conn.loop.counts.badResponses++
	if k.code == http2.Cancel {
		k.code = http2.ProtocolError
	}
	k.fail("the destination's response: " + why)
}

// fail ends a call whose request the destination has.
func (k *call) fail(why string) {
	if k.peer.state == peerBody {
		k.peer.cut(why)
		return
	}
	k.peer.give(502, why)
}

// resetBy handles the destination's RST_STREAM.
func (k *call) resetBy(code http2.Code) {
	k.silent = true
	if code == http2.RefusedStream && !k.headed {
		k.refused("the destination refused the stream")
		return
	}
	k.peer.conn.loop.counts.peerResets++
	if st := k.peer.client.conn.stream; st != nil && code != http2.NoError { // gRPC reads the code
		st.code = code
	}
	k.fail("the destination reset the stream: " + code.String())
}

// refused ends a call that the destination says it has not processed: any request may be sent
// again, the first time without counting as a retry.
func (k *call) refused(why string) {
	k.peer.conn.loop.counts.peerRefused++
	if k.peer.state == peerBody {
		k.peer.cut(why)
		return
	}
	k.peer.giveUp(502, why, failure{stale: !k.peer.client.x.fresh, opened: k.peer.opened})
}

// lose ends a call whose connection has ended.
func (k *call) lose(status int, why string) {
	switch k.peer.state {
	case peerBody:
		k.peer.cut(why)
	case peerConnecting:
		k.peer.giveUp(status, why, failure{opened: k.peer.opened})
	default:
		k.peer.giveUp(status, why, failure{sent: !k.peer.untaken(false), stale: k.peer.served > 1 && k.peer.state == peerAsked,
			opened: k.peer.opened})
	}
}

// leave ends a call in any state.
func (k *call) leave() {
	s := k.session
	if k.id != 0 && !(k.heard && k.said) && !k.silent && s.state < outOver {
		s.reset(k.id, k.code)
	}
	for i, p := range k.queue {
		k.peer.conn.loop.parcels.put(p)
		k.queue[i] = nil
	}
	k.queue, k.held = k.queue[:0], 0
	s.forget(k)
}

// reuseCalls recycles the calls that ended in this turn. Earlier, their handlers may still use
// them.
func (l *loop) reuseCalls() {
	for i, k := range l.spent {
		if !k.peer.conn.unsettled && !k.listed && len(l.idleCalls) < maxSpare {
			l.idleCalls = append(l.idleCalls, k)
		}
		l.spent[i] = nil
	}
	l.spent = l.spent[:0]
}
