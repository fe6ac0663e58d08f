package proxy

import (
	"bytes"

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

// start decides what to do with a request whose head is complete.
func (x *exchange) start() {
	c, l, q := x.client, x.client.conn.loop, &x.request
	x.unread()
	if !q.KeepAlive {
		c.closing = true
	}
	authority, path, query := route.SplitTarget(q.Target)
	clean, ok := route.Clean(path, l.clean)
	if ok {
		l.find(x, firstBytes(authority, q.Host), clean, query)
	}
	switch {
	case q.Minor > 1:
		c.refuse(505, "only HTTP/1.0 and HTTP/1.1 are supported")
		return
	case string(q.Method) == "CONNECT":
		c.refuse(405, "not a forward proxy")
		return
	case string(q.Method) == "TRACE": // it would show a script the client's credentials (RFC 9110, section 9.3.8)
		x.answer(405, "TRACE is not passed on")
		return
	case authority != nil && len(q.Host) > 0 && !sameAuthority(authority, q.Host, ownPort(q.Target)):
		c.refuse(400, "the target and Host name different hosts")
		return
	case !ok:
		x.answer(400, "ambiguous path")
		return
	case !l.expectation(x.head(), q):
		x.answer(417, "only 100-continue can be expected")
		return
	}
	if authority != nil {
		q.Host = authority
	}
	if &clean[0] != &path[0] {
		l.clean = clean[:0]
	}
	x.route(clean)
}

func firstBytes(a, b []byte) []byte {
	if a != nil {
		return a
	}
	return b
}

// expectation reports whether the proxy knows what a request expects.
func (l *loop) expectation(head []byte, q *http1.Request) bool {
	if q.ExpectContinue {
		return true
	}
	for i := range l.lines.List {
		if l.lines.List[i].Is == http1.Expect && len(l.lines.List[i].Value(head)) > 0 {
			return false
		}
	}
	return true
}

// find finds the location, first of all: even a refusal has its fields.
func (l *loop) find(x *exchange, host, clean, query []byte) {
	asked := route.Query{Host: host, Path: route.Bare(clean), Query: query, Method: x.request.Method, Port: "80"}
	if x.client.secure() {
		asked.Port = "443"
	}
	if l.site.needsHeaders {
		head := x.head()
		asked.Header = func(name string) []byte { return l.field(head, name) }
	}
	if i := l.site.table.Find(&asked); i >= 0 {
		x.location = l.site.locations[i]
	}
}

// route does with the request what its location says.
func (x *exchange) route(clean []byte) {
	l, loc := x.client.conn.loop, x.location
	if l.site.marks != nil {
		x.lines()
		head := x.head()
		l.site.marks.mark(additionsOf(&x.inbound), func(name string) []byte { return l.field(head, name) }, x.client.trusted)
	}
	switch {
	case l.site.rate != nil && l.site.rate.refuses(x, requestKey{kind: keyClient}, clean):
	case loc == nil:
		l.counts.unrouted++
		x.answer(404, "no location matches this request")
	case loc.bodyBytes > 0 && x.request.ContentLength > loc.bodyBytes:
		x.answer(413, "the body is larger than allowed")
	case loc.rate != nil && loc.rate.refuses(x, loc.rateKey, clean):
	default:
		x.upgrade = x.asksUpgrade()
		loc.turn(l).earn()
		if loc.within.total > 0 {
			x.client.conn.expire(loc.within.total)
		}
		switch {
		case l.site.securePort != "" && x.mustBeSecure():
			x.toSecure()
		case loc.entrance != nil:
			loc.entrance.enter(x, clean)
		default:
			x.proceed(clean)
		}
	}
}

// refuses takes the request from a limit, and answers one that exceeds it.
func (r *limiter) refuses(x *exchange, k requestKey, clean []byte) bool {
	l := x.client.conn.loop
	wait := r.take(x.key(k, clean), l.now)
	if wait <= 0 {
		return false
	}
	l.counts.limitedRequests++
	x.answerLater(429, "too many requests", wait)
	return true
}

// proceed answers a request that may come in.
func (x *exchange) proceed(clean []byte) {
	switch loc := x.location; {
	case loc.redirect != nil:
		x.redirect()
	case loc.fixed != nil:
		reply(x, loc.fixed.status, contentHead, loc.fixed.lines, loc.fixed.body)
	case loc.files != nil:
		x.destination = loc.destinations[0]
		x.serveFile(loc.files, clean)
	default:
		x.dispatch(x.key(loc.balanceKey, clean), clean)
	}
}

// head returns the request's head, nil if there is none.
func (x *inbound) head() []byte {
	if c := x.client; x.headEnd > x.headAt && c.in != nil && x.headEnd <= len(c.in.b) {
		return c.in.b[x.headAt:x.headEnd]
	}
	return nil
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
		if int(line.NameEnd-line.At) == len(name) && equalFoldASCII(line.Name(head), name) {
			return line.Value(head)
		}
	}
	return nil
}

func equalFold(name []byte, lower string) bool {
	return len(name) == len(lower) && equalFoldASCII(name, lower)
}

func equalFoldASCII(a []byte, b string) bool {
	for i, c := range a {
		d := b[i]
		if c != d && (c|0x20 != d|0x20 || c|0x20 < 'a' || c|0x20 > 'z') {
			return false
		}
	}
	return true
}

// asksUpgrade reports whether the request asks for a protocol that can be tunnelled, by any method,
// as docker and kubectl do by POST. h2c cannot: the next hop would accept requests that this proxy
// never checked.
func (x *inbound) asksUpgrade() bool {
	if x.request.Minor == 0 {
		return false
	}
	upgrade, option := []byte(nil), false
	lines, head := x.lines(), x.head()
	for i := range lines {
		switch line := &lines[i]; line.Is {
		case http1.Upgrade:
			if upgrade != nil {
				return false
			}
			upgrade = line.Value(head)
		case http1.Connection:
			option = option || http1.HasToken(line.Value(head), "upgrade")
		}
	}
	return option && len(upgrade) > 0 && !bytes.ContainsAny(upgrade, ", \t") &&
		!bytes.EqualFold(upgrade, []byte("h2c")) && !bytes.EqualFold(upgrade[:min(5, len(upgrade))], []byte("http/")) &&
		!bytes.EqualFold(upgrade[:min(4, len(upgrade))], []byte("tls/"))
}

// dispatch chooses a destination and requests a connection to it. clean is the path for files,
// nil if the request is repeated.
func (x *exchange) dispatch(key uint64, clean []byte) {
	status, why := x.status, x.why // of the previous attempt
	x.status, x.why = 0, ""
	loc := x.location
	eligible := (*destination).usable
	if loc.mostlyEjected(x.client.conn.loop.now) {
		eligible = (*destination).healthy
	}
	d := loc.filesFirst(x)
	if d == nil {
		d = x.choose(key, eligible)
	}
	if d == nil && loc.fallback != nil && loc.fallback.usable(x.client.conn.loop) && x.tried&triedFallback == 0 {
		x.client.conn.loop.counts.fallbacks++
		x.tried |= triedFallback
		d = loc.fallback
	}
	if d == nil { // one that may fail is better than none
		d = x.choose(key, (*destination).lastResort)
	}
	switch {
	case d == nil && x.tries == 0:
		x.client.conn.loop.counts.noDestination++
		x.answerLater(503, "no healthy destination", 1e9)
	case d == nil:
		x.answer(int(status), why)
	case d.files != nil:
		x.destination = d
		if clean == nil {
			clean = x.cleanPath()
		}
		x.serveFile(d.files, clean)
	case d.loopMark != nil && x.wentRound(d):
		x.loopDetected(d)
	case d.collects && x.request.Chunked:
		collect(x)
	default:
		x.destination = d
		if loc.sticky && d != loc.fallback {
			loc.stick(x, d.seed, key)
		}
		x.client.conn.loop.pool(d.upstream).request(x)
	}
}

// filesFirst returns the files that are looked for before other destinations are asked; nil if the
// request is for none of them, or has none.
func (loc *location) filesFirst(x *exchange) *destination {
	if !loc.tryFiles || x.tried&1 != 0 {
		return nil
	}
	d := loc.destinations[0]
	if m := string(x.request.Method); (m == "GET" || m == "HEAD") && !x.upgrade && d.usable(x.client.conn.loop) {
		return d
	}
	x.tried |= 1
	return nil
}

func (x *inbound) cleanPath() []byte {
	_, path, _ := route.SplitTarget(x.request.Target)
	clean, _ := route.Clean(path, x.client.conn.loop.clean) // already checked
	return clean
}

// choose asks the location's balance for one of the eligible destinations; nil if none is left.
func (x *exchange) choose(key uint64, may func(*destination, *loop) bool) *destination {
	l, loc := x.client.conn.loop, x.location
	turn := loc.turn(l)
	for {
		if len(turn.choices) != len(loc.destinations) {
			turn.choices = make([]route.Choice, len(loc.destinations))
		}
		for i, d := range loc.destinations {
			busy := 0
			if d.upstream != nil {
				busy = l.pool(d.upstream).busy
			}
			turn.choices[i] = route.Choice{
				Weight: d.weight, Busy: busy, Seed: d.seed,
				Usable: x.tried&(1<<(i&63)) == 0 && may(d, l),
			}
		}
		i := turn.chooser.Choose(turn.choices, key)
		if i < 0 {
			return nil
		}
		d := loc.destinations[i]
		switch u := d.upstream; {
		case u == nil || !u.ejected():
			return d
		case u.try(l.now): // one request tests whether it works again
			x.trial = true
			return d
		case !d.usable(l): // its ejection is disregarded
			return d
		}
		x.tried |= 1 << (i & 63)
	}
}

// requestDone notes that the peer has the whole request.
func (x *exchange) requestDone() {
	x.bodyState = bodyWhole
	if p := x.peer; p != nil {
		p.endBody()
		if p.state < peerBody {
			p.conn.expire(x.location.within.respond)
		}
	}
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
		x.dispatch(x.key(x.location.balanceKey, nil), nil)
		return
	}
	if !f.sent && !x.passed && x.location.fallback != nil && x.tried&triedFallback == 0 {
		x.rewind()
		x.tries++
		x.tried |= triedFallback - 1
		x.dispatch(0, nil)
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
	x.bodyState = bodyOf(x.body)
}

// bodyOf returns the state of an untouched body.
func bodyOf(b http1.Body) bodyState {
	if b.Ended() {
		return bodyWhole
	}
	return bodyHeld
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
