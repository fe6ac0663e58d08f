package proxy

import (
	"bytes"
	"net/netip"
	"os"
	"syscall"
)

// clientState is the state of a client.
type clientState uint8

const (
	atPreface  clientState = iota // expecting a PROXY protocol header
	atGreeting                    // expecting a TLS handshake, or in one
	atHead                        // expecting a request's head, or the rest of it
	atRequest                     // a request is being answered
	atTunnel                      // bytes go both ways
	atSession                     // HTTP/2 frames go both ways
	atEnd                         // the output is still being sent, then the connection ends
	atLinger                      // our side is closed; input is discarded
)

// maxWaiting bounds what is received but not usable yet: the next requests of a pipeline, or a
// body whose destination is still connecting. Beyond it, the loop stops receiving.
const maxWaiting = 64 << 10

// maxAnswered bounds the responses to one client in a turn. The next ones follow once these are
// sent; otherwise a pipeline of small requests for large responses would fill the memory.
const maxAnswered = 64 << 10

// tlsHandshake is the first byte of a client's TLS (RFC 8446, section 5.1), and of no method.
// Such a client waits for a response, while a parser would wait for the end of a line, which may
// never come.
const tlsHandshake = 0x16

// lingerNs is how long the loop reads from a client that still sends after its last response:
// closing at once would reset the connection and lose the response.
const lingerNs = 2e9

// client is one client's connection, with its current request.
type client struct {
	conn    conn
	state   clientState
	trusted bool // trust its X-Forwarded-*
	local   bool // came over a unix socket
	running bool // run is on the stack
	eof     bool // nothing more arrives
	closing bool // ends with this request
	listed  bool // is in the idle list
	unread  bool // may still be sending after its response
	at      int  // in.b[at:] is unused
	in      *buffer
	remote  netip.AddrPort
	entered netip.Addr // whose connections it counts among; the zero address for none
	scheme  string
	name    string // remote's address as text
	subject string // of its certificate; "" for none

	before, behind *client // in the idle list
	since          int64   // loop's clock: idle since

	// x is the current or incoming request; nil while idle, so that an idle connection costs
	// little.
	x *exchange
}

// exchange returns the client's exchange, creating it if needed.
func (c *client) exchange() *exchange {
	if c.x == nil {
		l := c.conn.loop
		if n := len(l.exchanges); n > 0 {
			c.x, l.exchanges = l.exchanges[n-1], l.exchanges[:n-1]
		} else {
			c.x = new(exchange)
		}
	}
	return c.x
}

// free gives the exchange to the next client.
func (c *client) free() {
	x, l := c.x, c.conn.loop
	if x == nil {
		return
	}
	if l.linesOf == &x.inbound {
		l.linesOf = nil
	}
	if len(l.exchanges) < maxSpare {
		*x = exchange{}
		l.exchanges = append(l.exchanges, x)
	}
	c.x = nil
}

// have returns how much is in c.in.
func (c *client) have() int {
	if c.in == nil {
		return 0
	}
	return len(c.in.b)
}

// serve adds an accepted connection to the loop.
func (l *loop) serve(fd int, secure, local bool) {
	c := &client{scheme: "http", remote: peerOf(fd), local: local}
	l.adopt(&c.conn, c, fd)
	c.conn.tcp = !local
	l.clients[c] = struct{}{}
	c.waits()
	c.state, c.conn.intake = atHead, intakePiece // until the first response: it may be for a large body
	if secure {
		c.scheme, c.conn.tls = "https", new(ciphered)
		c.conn.tls.Accept(l.admission.tls)
		c.state = atGreeting // what is not decrypted here stays in the socket
	}
	if l.site.config.ProxyProtocol {
		c.state = atPreface
	}
	c.conn.expire(l.site.timeouts.header)
	if c.state <= atGreeting || c.enter() {
		c.conn.receive()
	}
}

// enter applies what depends on the remote address; false if there are too many connections from
// it.
func (c *client) enter() bool {
	l := c.conn.loop
	c.trusted = l.site.trusts(c.remote.Addr()) || c.local && l.site.trustUnix
	c.name = "unknown"       // RFC 7239, section 6.2
	if !c.remote.IsValid() { // it has left
		return true
	}
	c.name = c.remote.Addr().String()
	most := l.site.config.Limits.ConnectionsPerClient
	if most == 0 {
		return true
	}
	whose := l.site.clientOf(c.remote.Addr())
	if !l.proxy.hosts.enter(whose, most) {
		l.counts.limitedConnections++
		c.refuse(429, "too many connections from this address")
		return false
	}
	c.entered = whose
	return true
}

// secure reports whether this process decrypted the client's connection.
func (c *client) secure() bool { return c.scheme == "https" }

// refuse answers an invalid request and ends the connection, because the start of the next
// request is unknown.
func (c *client) refuse(status int, why string) {
	x := c.exchange()
	x.client = c
	if x.began == 0 {
		x.began = c.conn.loop.now
	}
	if x.request.Method == nil && c.in != nil && bytes.HasPrefix(c.in.b[c.at:], []byte("HEAD ")) {
		x.request.Method = c.in.b[c.at:][:len("HEAD")] // the response must have no body, whatever else is wrong
	}
	c.closing = true
	c.state = atRequest
	x.answer(status, why)
}

// linger ends the connection once the output is sent; unread means that the client may still be
// sending.
func (c *client) linger(unread bool) {
	if c.conn.fd < 0 {
		return
	}
	c.state = atEnd
	c.unread = unread && !c.eof
	c.conn.notify()
	c.conn.expire(c.conn.loop.site.timeouts.idle)
	if c.conn.intake == intakePaused && c.unread {
		c.conn.resume()
	}
	c.conn.deferDrain()
}

// end closes the connection.
func (c *client) end() {
	if c.conn.fd < 0 {
		return
	}
	l := c.conn.loop
	if c.conn.session != nil {
		c.conn.session.lost("client gone")
	}
	if x := c.x; x != nil {
		if p := x.peer; p != nil {
			x.peer = nil
			p.abandon()
		}
		if x.queued != nil {
			x.queued.leave(c)
		}
		if c.state == atTunnel {
			x.log()
		}
		x.release()
	}
	c.in = nil
	c.unlist()
	if c.conn.tls != nil {
		l.part(c.conn.tls)
	}
	delete(l.clients, c)
	if c.entered.IsValid() {
		l.proxy.hosts.leave(c.entered)
		c.entered = netip.Addr{}
	}
	c.state = atLinger
	c.conn.close()
}

// fail ends the connection in the middle of a request.
func (c *client) fail(why string) {
	if c.state == atRequest && c.x.location != nil {
		c.x.why = why
		if c.x.status == 0 {
			c.x.status = 499 // as other servers log a client that left
		}
		c.x.log()
	}
	c.end()
}

// lastRequestNs is how long an idle client may still send a request when the proxy ends: nothing has told it
// not to (RFC 9112, section 9.6), and its request would be lost. One that is idle for longer already ends at once.
const lastRequestNs = 200e6

// endIdle ends the clients that have been idle for long enough, unless a request is in their socket.
func endIdle(l *loop) {
	for c := l.admission.idle.first; c != nil && l.now-c.since >= lastRequestNs; c = c.behind {
		if c.state <= atHead && !c.speaks() {
			c.linger(false)
		}
	}
}

// leftNs is how long a client that has closed its direction still gets a response that begins.
const leftNs = 1e9

// mayHaveLeft reports whether a client that has closed its direction waits for a destination. Closing
// a socket and closing one direction of it look the same (FIN); a client that had said that its
// connection ends with the response may do the latter (RFC 9112, section 9.6).
func (c *client) mayHaveLeft() bool {
	x := c.x
	return c.eof && x.state == answerNone && x.request.KeepAlive && (x.peer != nil || x.queued != nil) &&
		(x.bodyState == bodyWhole || c.hasBody())
}

// unfinished ends a request whose client closed its direction within it, or has left. Earlier
// responses are still sent.
func (c *client) unfinished(why string) {
	x := c.x
	if x.state == answerPassing {
		c.fail(why)
		return
	}
	c.conn.unsplice()
	if p := x.peer; p != nil {
		x.peer = nil
		p.abandon()
	}
	if x.queued != nil {
		x.queued.leave(c)
	}
	x.hold()
	x.status, x.why = 499, why // as other servers log a client that left
	x.log()
	x.release()
	c.linger(false)
}

// hasBody reports whether the rest of the body, or an error in it that must be answered, arrived
// before a peer could take it.
func (c *client) hasBody() bool {
	x := c.x
	if x.bodyState == bodyStreaming || c.at == c.have() {
		return false
	}
	body := x.body
	body.Collect(nil)
	_, done, err := body.Skip(c.in.b[c.at:])
	return done || err != nil
}

func (c *client) ended(err syscall.Errno) {
	if c.conn.tls != nil && c.tornOff(err) {
		return
	}
	c.over(err)
}

// over handles the end of the client's input.
func (c *client) over(err syscall.Errno) {
	c.eof = true
	switch {
	case err != 0:
		c.conn.loop.counts.clientResets++
		c.fail("client reset")
	case c.state == atTunnel:
		c.x.peer.halfClose()
	case c.state == atSession:
		c.end()
	case c.state == atHead, c.state == atPreface:
		c.run()
		if c.state == atPreface {
			c.end()
		}
	case c.state == atRequest && c.x.bodyState != bodyWhole && c.x.state != answerOwn && !c.hasBody():
		c.unfinished("client closed within its request")
	case c.state == atRequest && c.mayHaveLeft():
		if end := c.conn.deadline; end == 0 || end > c.conn.loop.now+leftNs {
			c.conn.expire(leftNs)
		}
	case c.state == atLinger:
		c.end()
	}
}

func (c *client) unsendable(syscall.Errno) {
	c.conn.loop.counts.clientResets++
	c.fail("client gone")
}

// stalled pauses the client's source.
func (c *client) stalled() {
	if c.x != nil && c.x.peer != nil {
		c.x.peer.conn.pause()
	}
}

func (c *client) drained() {
	if c.conn.tls != nil && len(c.conn.tls.rest) > 0 {
		if c.conn.lendSealed(); c.conn.fd >= 0 {
			c.conn.deferDrain()
		}
		return
	}
	switch c.state {
	case atEnd:
		if !c.unread {
			c.end()
			return
		}
		c.state = atLinger
		_ = syscall.Shutdown(int(c.conn.fd), syscall.SHUT_WR) // it fails if the client is gone, as the next event reports
		c.conn.expire(lingerNs)
		c.waits()
	case atHead:
		c.run()
	case atTunnel:
		c.x.peer.goOn()
	case atSession:
		c.conn.session.drained()
	case atRequest:
		switch p := c.x.peer; {
		case p != nil:
			p.goOn()
		case c.x.file.File != nil:
			c.x.release()
			c.finish()
		}
	}
}

func (c *client) expired() {
	l := c.conn.loop
	switch c.state {
	case atPreface:
		c.end()
	case atGreeting:
		l.admission.secured.failed(os.ErrDeadlineExceeded)
		c.end()
	case atHead:
		if c.in == nil && !c.conn.blocked {
			l.counts.idleClosed++
			c.end()
			return
		}
		l.counts.headerTimeouts++
		if c.conn.blocked {
			c.end()
			return
		}
		c.refuse(408, "the request's head took too long")
	case atRequest:
		switch x := c.x; {
		case c.mayHaveLeft():
			c.unfinished("client left")
		case c.eof && x.state != answerOwn && x.queued == nil && !overdue(x): // the response began in time, or is tried for again
			limitTotal(x)
		default:
			x.expired()
		}
	case atSession:
		c.conn.session.expired()
	default:
		c.end()
	}
}
