package proxy

import (
	"ceiling/internal/http1"
	"ceiling/proxy/files"
	"ceiling/proxy/route"
)

// An exchange is one request and its response. It belongs to its client and is reused for the
// client's next request, or for another client if there is none. Request and response progress
// independently: a destination may answer before it has the whole body, and a body may have to be
// sent again.
type exchange struct {
	inbound
	attempt
	outbound
	location *location
}

// inbound is the request as the client sends it.
type inbound struct {
	client          *client
	request         http1.Request // views of client.in
	body            http1.Body    // the part taken so far
	headAt, headEnd int           // of the head in client.in
	began           int64         // loop's clock: the first byte of the head
	receivedBytes   int64         // of the body
	trailers        []byte        // lines after the request's body
	bodyState       bodyState
	passed          bool // part of the body was forwarded and is not in client.in
	upgrade         bool // requests another protocol
	added           *additions
}

// bodyState is the state of a request's body.
//
//	from             to             when
//	bodyHeld         bodyStreaming  a peer takes it (client.pump)
//	bodyHeld         bodyWhole      there is none, or it came with the head
//	bodyStreaming    bodyWhole      its end was passed on (exchange.requestDone)
//	bodyStreaming    bodyHeld       the attempt failed, or the response is complete (exchange.hold)
//	bodyWhole        bodyHeld       the request is sent again (inbound.rewind)
type bodyState uint8

const (
	bodyHeld      bodyState = iota // input stays in client.in, as far as there is room
	bodyStreaming                  // input goes to the peer
	bodyWhole                      // its end was received
)

// An attempt is one try at getting a response from a destination. Some of its state lasts across
// attempts.
type attempt struct {
	destination *destination
	peer        *peer
	queued      *pool  // the pool in whose queue it waits
	tried       uint64 // destinations, by bit
	tries       uint8  // attempts after the first
	counted     bool   // in the pool's busy
	trial       bool   // tests an ejected upstream
	fresh       bool   // needs an unused connection
}

// outbound is what the client is sent.
type outbound struct {
	state     answerState
	chunked   bool // in chunks
	copied    bool // found no free pipe
	interim   uint8
	offer     uint8 // the client's preferred coding, if the destination's responses are compressed
	coding    uint8 // of a body compressed here
	status    uint16
	packer    *compressor // compresses it
	sentBytes int64       // of the body
	why       string      // the cause of an error
	file      lent
}

// lent is a file that is being sent.
type lent struct {
	*files.File     // nil for none
	left        int // unsent bytes of it when last checked
}

// answerState is the progress of the response.
//
//	from                        to            when
//	answerNone                   answerPassing  the destination's final head or 101 is there (peer.final, peer.upgrade)
//	answerNone                   answerOwn      the proxy answers: an error, a redirect, a file
//	all of these                answerLogged   the request is counted and logged (exchange.log)
type answerState uint8

const (
	answerNone    answerState = iota
	answerPassing             // the destination's response is being forwarded
	answerOwn                 // the proxy's own response
	answerLogged
)

// triedFallback is the bit of exchange.tried for the fallback; the lower bits are the
// destinations, of which there are at most 63.
const triedFallback = 1 << 63

// additionsOf returns the additions of a request, creating them if needed.
func additionsOf(x *inbound) *additions {
	if x.added == nil {
		x.added = new(additions)
	}
	return x.added
}

// head returns the request's head, nil if there is none.
func (x *inbound) head() []byte {
	if c := x.client; x.headEnd > x.headAt && c.in != nil && x.headEnd <= len(c.in.b) {
		return c.in.b[x.headAt:x.headEnd]
	}
	return nil
}

func (x *inbound) cleanPath() []byte {
	_, path, _ := route.SplitTarget(x.request.Target)
	clean, _ := route.Clean(path, x.client.conn.loop.clean) // already checked
	return clean
}

// fieldOf returns a field's value.
func (x *inbound) fieldOf(head []byte, name string) []byte {
	if head == nil {
		return nil
	}
	x.lines()
	return x.client.conn.loop.field(head, name)
}

// field returns the value of a header of the request parsed last.
func (l *loop) field(head []byte, name string) []byte {
	for i := range l.lines.List {
		line := &l.lines.List[i]
		if equalFold(line.Name(head), name) {
			return line.Value(head)
		}
	}
	return nil
}

func equalFold(a []byte, b string) bool {
	if len(a) != len(b) {
		return false
	}
	for i, c := range a {
		d := b[i]
		if c != d && (c|0x20 != d|0x20 || c|0x20 < 'a' || c|0x20 > 'z') {
			return false
		}
	}
	return true
}

// hold stops forwarding the body.
func (x *inbound) hold() {
	if x.bodyState == bodyStreaming {
		x.bodyState = bodyHeld
	}
}

// spoiled answers a request with an invalid body, and detaches the peer that has received part of
// it.
func (x *exchange) spoiled(status int, why string) {
	x.hold()
	x.client.conn.unsplice()
	if p := x.peer; p != nil {
		x.peer = nil
		p.abandon()
	}
	x.client.closing = true
	if x.state == answerPassing {
		x.client.fail(why)
		return
	}
	x.answer(status, why)
}

// failure describes an attempt without a response.
type failure struct {
	sent   bool  // the destination may have seen the request
	stale  bool  // its connection was reused and may just have been closed
	opened int64 // loop's clock: when the closed connection was opened; now, if irrelevant
}

// evidence is what an attempt says about its destination.
func (x *exchange) evidence(f failure) evidence {
	e := evidence{opened: f.opened}
	if f.sent {
		_, path, _ := route.SplitTarget(x.request.Target)
		e.path = route.HashOf(path) | 1
	}
	return e
}

// failed ends an attempt without a response.
func (x *exchange) failed(status int, why string, f failure) {
	l, c := x.client.conn.loop, x.client
	trial, first := x.trial, !x.fresh
	managed := status != 504 && !f.stale && x.destination.upstream.managed.Load() // it may have exited
	c.conn.unsplice()
	x.peer = nil
	x.uncount()
	x.hold()
	if f.stale {
		x.fresh = true
		l.counts.stale++
	} else {
		x.destination.upstream.failed(l.now, x.evidence(f), trial)
		x.tried |= x.location.bit(x.destination)
	}
	c.conn.resume() // it may be paused with a body that could not be forwarded
	again := !x.passed && (!f.sent || x.idempotent() && status != 504)
	if free := f.stale && !f.sent && first; again && !free { // a connection that was idle too long says nothing about the destination
		again = int(x.tries) < x.location.retries
		if again && !managed && !x.location.turn(l).mayRetry() {
			l.counts.retriesRefused++
			again = false
		}
	}
	x.status, x.why = uint16(status), why
	if again {
		x.rewind()
		x.tries++
		l.counts.retries++
		if managed {
			x.tried &^= x.location.bit(x.destination)
			l.proxy.suspect(x.destination.upstream)
		}
		x.dispatch(nil)
		return
	}
	if !f.sent && !x.passed && x.location.fallback != nil && x.tried&triedFallback == 0 {
		x.rewind()
		x.tries++
		x.tried |= triedFallback - 1
		x.dispatch(nil)
		return
	}
	x.answer(status, why)
}

// rewind returns to the request's beginning, which is still buffered with all of its body read so
// far, for another attempt.
func (x *inbound) rewind() {
	x.unread()
	x.receivedBytes = 0
	x.client.at = x.headEnd
}

// unread returns to the beginning of the body.
func (x *inbound) unread() {
	x.body, x.trailers = x.request.Body(), x.trailers[:0]
	if x.request.Chunked {
		x.body.Collect(&x.trailers)
	}
	x.bodyState = bodyHeld
	if x.body.Ended() {
		x.bodyState = bodyWhole
	}
}

// lines returns the lines of the request's head. It parses them again if other heads were parsed
// since.
func (x *inbound) lines() []http1.Line {
	c := x.client
	l := c.conn.loop
	if l.linesOf != x {
		l.lines.Max = 0
		q, _, err := l.lines.ParseRequest(c.in.b[x.headAt:x.headEnd])
		if err != nil {
			panic("proxy: a request that was parsed is malformed now: " + err.Error())
		}
		x.request.Method, x.request.Target = q.Method, q.Target // where the head is now
		if x.request.Host != nil && q.Host != nil {
			x.request.Host = q.Host
		}
		l.linesOf = x
	}
	return l.lines.List
}

// idempotent reports whether the method is idempotent (RFC 9110, section 9.2.2).
func (x *inbound) idempotent() bool {
	switch string(x.request.Method) {
	case "GET", "HEAD", "OPTIONS", "PUT", "DELETE":
		return true
	}
	return false
}

// uncount removes the attempt from its pool's load, and returns a trial without a result.
func (x *exchange) uncount() {
	if x.trial {
		x.trial = false
		x.destination.upstream.trial.Store(false)
	}
	if x.counted {
		x.counted = false
		x.client.conn.loop.pool(x.destination.upstream).busy--
	}
}

// release frees what an exchange holds.
func (x *exchange) release() {
	x.uncount()
	x.added.stop()
	if x.file.File != nil {
		x.file.Release()
		x.file = lent{}
	}
}

// touch extends a tunnel's deadline.
func (x *exchange) touch() { x.client.conn.expire(x.location.within.tunnel) }

// overdue reports whether the time for the whole request has passed.
func overdue(x *exchange) bool {
	total := x.location.within.total
	return total > 0 && x.began+total <= x.client.conn.loop.now
}

// limitTotal sets the client's deadline to that of the whole request.
func limitTotal(x *exchange) {
	c := x.client
	c.conn.deadline = 0
	if total := x.location.within.total; total > 0 {
		c.conn.expire(max(x.began+total-c.conn.loop.now, 1))
	}
}

// expired: the time for the request, or in a queue, has passed.
func (x *exchange) expired() {
	c := x.client
	if x.file.File != nil {
		x.fileTimeout()
		return
	}
	c.conn.loop.counts.requestTimeouts++
	x.added.stop()
	if x.added != nil && x.added.collecting {
		x.answer(408, "the request's body took too long")
		return
	}
	if q := x.queued; q != nil {
		why := "the destination's queue took too long"
		if q.upstream.held() {
			why = "the application is starting"
		}
		q.leave(c)
		x.answerLater(503, why, 1e9)
		return
	}
	if p := x.peer; p != nil {
		x.peer = nil
		p.abandon()
		x.uncount()
	}
	if x.state != answerNone {
		c.fail("request timeout")
		return
	}
	x.answer(504, "the request took too long")
}
