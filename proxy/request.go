package proxy

import (
	"bytes"
	"errors"

	"ceiling/internal/http1"
	"ceiling/proxy/route"
)

func (c *client) received(data []byte) {
	x := c.x
	if c.listed && c.state < atSession {
		c.unlist()
	}
	switch {
	case c.state == atTunnel:
		x.peer.tunnelled(data)
		x.touch()
		return
	case c.state == atSession:
		c.conn.session.received(data)
		return
	case c.state >= atEnd:
		return
	case c.state == atRequest && x.bodyState == bodyStreaming && c.at == c.have():
		if !x.passed && len(c.in.b)+len(data) <= cap(c.in.b) { // a small body stays for another attempt
			c.in.b = append(c.in.b, data...)
			c.at += c.body(data)
			return
		}
		x.passed = true
		if n := c.body(data); n < len(data) {
			c.keep(data[n:])
		}
		return
	}
	c.keep(data)
	switch {
	case c.state == atPreface:
		c.preface()
	case c.state == atHead:
		c.run()
	case c.state == atRequest && x.added != nil && x.added.collecting:
		collect(x)
	}
	if c.have()-c.at > maxWaiting {
		c.conn.pause()
	}
}

// keep appends to the unused input. Views of used bytes stay valid: a slice that grows leaves its
// old memory alone, and used bytes are not moved during a request.
func (c *client) keep(data []byte) {
	if c.in == nil {
		c.in, c.at = c.conn.loop.parcels.get(), 0
	} else if c.at > 0 && c.state <= atHead {
		c.in.b = c.in.b[:copy(c.in.b, c.in.b[c.at:])]
		c.at = 0
	}
	c.in.b = append(c.in.b, data...)
}

// run processes requests, as long as there are complete heads and each is answered at once.
func (c *client) run() {
	if c.running {
		return
	}
	c.running = true
	full := false
	for c.state == atHead && !c.conn.blocked && !full && c.at < c.have() {
		if !c.head() {
			break
		}
		full = c.conn.leaving >= maxAnswered
	}
	c.running = false
	switch {
	case c.state != atHead, c.conn.blocked:
		return
	case full:
		c.conn.deferDrain()
		return
	}
	if c.at == c.have() && c.in != nil {
		c.conn.loop.parcels.put(c.in)
		c.in, c.at = nil, 0
	}
	if c.in == nil {
		c.free()
	}
	switch {
	case c.eof && c.in == nil && c.conn.out == nil && len(c.conn.pending) == 0:
		c.end()
	case c.eof && c.in == nil: // its response is still being sent
		c.linger(false)
	case c.eof:
		c.refuse(400, "the connection ended within a request's head")
	default:
		c.conn.resume()
		c.conn.gulp()
		if c.in == nil {
			c.waits()
		}
	}
}

// head starts one request, or skips an empty line; false if its head is incomplete.
func (c *client) head() bool {
	l, limits := c.conn.loop, &c.conn.loop.site.config.Limits
	for bytes.HasPrefix(c.in.b[c.at:], emptyLine) {
		c.at += len(emptyLine)
	}
	b := c.in.b[c.at:]
	if len(b) == 0 {
		return false
	}
	l.lines.Max, l.linesOf = limits.HeaderLines, nil
	q, n, err := l.lines.ParseRequest(b)
	switch {
	case err != nil && bytes.HasPrefix(b, emptyLine):
		c.at += len(emptyLine)
		return true
	case err != nil:
		l.counts.badRequests++
		status := 400
		if errors.Is(err, http1.ErrHeaderTooLarge) {
			status = 431
		}
		c.refuse(status, err.Error())
		return true
	case n > limits.HeaderBytes || n == 0 && len(b) > limits.HeaderBytes:
		l.counts.badRequests++
		c.refuse(431, http1.ErrHeaderTooLarge.Error())
		return true
	case n == 0 && len(b) > 0 && b[0] == tlsHandshake:
		l.counts.badRequests++
		c.refuse(400, "this looks like TLS, and is a port for plain HTTP")
		return true
	case n == 0:
		if x := c.exchange(); x.began == 0 { // the header timeout starts at its first byte
			x.began = l.now
			c.conn.expire(l.site.timeouts.header)
		}
		return false
	}
	x := c.exchange()
	l.linesOf = &x.inbound
	x.client, x.request, x.headAt, x.headEnd = c, q, c.at, c.at+n
	if x.began == 0 {
		x.began = l.now
	}
	c.at += n
	c.state = atRequest
	c.conn.deadline = 0
	l.counts.requests++
	if c.secure() {
		l.counts.secureRequests++
	}
	x.start()
	return true
}

// emptyLine is ignored before a request: some clients end a body with one (RFC 9112, section 2.2).
var emptyLine = []byte("\r\n") // read-only

// start decides what to do with a request whose head is complete.
func (x *exchange) start() {
	c, l, q := x.client, x.client.conn.loop, &x.request
	x.unread()
	if !q.KeepAlive {
		c.closing = true
	}
	authority, path, query := route.SplitTarget(q.Target)
	host := q.Host
	if authority != nil {
		host = authority
	}
	clean, ok := route.Clean(path, l.clean)
	if ok {
		l.find(x, host, clean, query)
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
	q.Host = host
	if &clean[0] != &path[0] {
		l.clean = clean[:0]
	}
	x.route(clean)
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
		x.dispatch(clean)
	}
}

// dispatch chooses a destination and requests a connection to it. clean is the path for files,
// nil if the request is repeated.
func (x *exchange) dispatch(clean []byte) {
	status, why := x.status, x.why // of the previous attempt
	x.status, x.why = 0, ""
	loc, key, eligible := x.location, uint64(0), (*destination).usable
	if loc.balanceKey.kind != keyNone {
		key = x.key(loc.balanceKey, clean)
	}
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

// body forwards the request body's part of data and returns its length.
func (c *client) body(data []byte) (used int) {
	x := c.x
	for x.bodyState == bodyStreaming {
		piece, n, done, err := x.body.Next(data[used:])
		used += n
		x.receivedBytes += int64(len(piece))
		switch {
		case err != nil:
			c.conn.loop.counts.badRequests++
			x.spoiled(400, err.Error())
			return len(data)
		case x.location.bodyBytes > 0 && x.receivedBytes > x.location.bodyBytes:
			x.spoiled(413, "the body is larger than allowed")
			return len(data)
		}
		if len(piece) > 0 {
			x.peer.body(piece)
		}
		if done {
			x.requestDone()
			return used
		}
		if n == 0 {
			break
		}
	}
	if x.bodyState == bodyStreaming && x.request.HasLength && !x.request.Chunked {
		if x.spliceBody(&c.conn, &x.peer.conn, x.request.ContentLength-x.receivedBytes) {
			x.passed = true
		}
	}
	return used
}

// pump forwards the part of the body that arrived with the head or before a peer took it.
func (c *client) pump() {
	x := c.x
	x.bodyState = bodyStreaming
	if c.at < c.have() {
		c.at += c.body(c.in.b[c.at:])
	}
	switch {
	case x.bodyState == bodyStreaming && c.eof:
		c.unfinished("client closed within its request")
	case x.bodyState == bodyStreaming:
		if c.conn.hasSocket() && (x.request.Chunked || x.request.ContentLength-x.receivedBytes > fullPiece) {
			c.conn.pause() // and then piece by piece: as fast as the destination reads
		}
		if c.at == c.have() && cap(c.in.b) > largeBytes {
			shrink(x)
		}
		if !c.stalledUpstream() {
			c.conn.resume()
		}
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

// shrink keeps nothing but the head of what came in a burst, or while the destination was connecting.
func shrink(x *exchange) {
	c, l := x.client, x.client.conn.loop
	head := l.parcels.get()
	head.b = append(head.b, x.head()...)
	c.in, c.at = head, len(head.b)
	x.headAt, x.headEnd, x.passed, l.linesOf = 0, len(head.b), true, nil
	x.lines()
}

func (c *client) stalledUpstream() bool { return c.x.peer != nil && c.x.peer.conn.blocked }

// finish continues after a complete response.
func (c *client) finish() {
	c.x.log()
	unread := c.x.bodyState != bodyWhole
	*c.x = exchange{}
	if c.conn.stream != nil {
		c.conn.stream.answered()
		return
	}
	if c.at == c.have() && c.in != nil {
		c.conn.loop.parcels.put(c.in)
		c.in, c.at = nil, 0
	} else if c.at >= maxWaiting/4 { // nothing views the used bytes any more
		c.in.b = c.in.b[:copy(c.in.b, c.in.b[c.at:])]
		c.at = 0
	}
	if c.closing {
		c.linger(unread || c.at < c.have())
		return
	}
	c.state = atHead
	c.conn.expire(c.conn.loop.site.timeouts.keepAlive)
	if !c.running {
		c.run()
	}
}
