package proxy

import (
	"bytes"
	"strconv"
	"syscall"

	"ceiling/internal/http1"
	"ceiling/internal/sys"
)

// peerState is the state of a connection to a destination.
//
//	from                   to              when
//	peerConnecting         peerIdle        connected, and its client has gone (pool.rest)
//	peerConnecting, Idle   peerAsked       a request is given to it (peer.begin)
//	peerAsked              peerHead        the first byte comes
//	peerHead               peerBody        the final head is there (peer.final)
//	peerHead               peerTunnel      101 is there (peer.upgrade)
//	peerBody               peerIdle        the response is complete, and the connection can be used again
//	any                    peerClosed      peer.drop
type peerState uint8

const (
	peerConnecting peerState = iota
	peerIdle                 // in its pool
	peerAsked                // it has the request; no byte of the response has arrived
	peerHead                 // the response head is arriving
	peerBody                 // the response body is being forwarded
	peerTunnel
	peerClosed
)

// peer is one connection to an upstream.
type peer struct {
	conn      conn
	state     peerState
	reusable  bool      // after the response
	chunkBody bool      // the request's body is sent in chunks
	broken    bool      // what is sent will not arrive
	up, down  direction // of a tunnel: from the client, and to it
	served    uint32
	address   int // index of its address among the upstream's
	pool      *pool
	client    *client // nil if none
	in        *buffer // a response head that arrived in parts
	response  http1.Body
	trailers  []byte // lines after the response's body
	length    int64  // of the response's body; 0 if unknown
	base      int64  // value of flushed when the request began
	opened    int64  // loop's clock
}

// body forwards a piece of the request's body.
func (p *peer) body(piece []byte) {
	if p.broken || p.conn.fd < 0 {
		return
	}
	out := p.conn.room(len(piece) + chunkFrame)
	if p.chunkBody {
		out.b = appendChunk(out.b, piece)
	} else {
		out.b = append(out.b, piece...)
	}
	if p.state < peerBody || p.conn.call != nil {
		p.conn.expire(p.client.x.location.within.idle)
	}
}

// endBody ends the request's body.
func (p *peer) endBody() {
	if p.conn.call != nil {
		p.conn.call.endBody()
		return
	}
	if p.chunkBody && !p.broken && p.conn.fd >= 0 {
		p.chunkBody = false
		p.conn.write(lastChunk)
	}
}

// chunkFrame bounds the bytes of a chunk's size and line ends.
const chunkFrame = 24

var lastChunk = []byte("0\r\n\r\n") // read-only

func appendChunk(b, piece []byte) []byte {
	b = strconv.AppendInt(b, int64(len(piece)), 16)
	b = append(b, "\r\n"...)
	b = append(b, piece...)
	return append(b, "\r\n"...)
}

func (p *peer) received(data []byte) {
	switch p.state {
	case peerAsked, peerHead:
		p.state = peerHead
		if p.in != nil {
			p.in.b = append(p.in.b, data...)
			data = p.in.b
		}
		p.head(data)
	case peerBody:
		p.pass(data)
	case peerTunnel:
		c := p.client
		c.x.sentBytes += int64(len(data))
		c.conn.write(data)
		c.x.touch()
		p.down.carried(&p.conn, &c.conn, len(data))
	case peerIdle: // unsolicited: nothing that follows can be trusted
		p.conn.loop.counts.unsolicited++
		p.drop()
	}
}

// head parses response heads from b until the final one, or the bytes end.
func (p *peer) head(b []byte) {
	c, l := p.client, p.conn.loop
	x := c.x
	for len(b) > 0 {
		l.lines.Max, l.linesOf = 0, nil
		r, head, n, err := l.parseResponse(b, string(x.request.Method) == "HEAD")
		switch {
		case err != nil:
			l.counts.badResponses++
			p.give(502, "the destination's response: "+err.Error())
			return
		case n == 0:
			p.await(b)
			return
		case r.Status == 101:
			p.upgrade(&r, head, b[n:])
			return
		case r.Status < 200:
			if !p.interim(&r, head) {
				return
			}
			b = b[n:]
			continue
		}
		if r.Status < 300 && c.conn.isWebSocket() {
			p.declined("the destination does not switch to WebSocket")
			return
		}
		p.final(&r, head)
		p.pass(b[n:])
		if p.state == peerBody {
			p.freeIn()
		}
		return
	}
	p.await(nil)
}

// parseResponse parses a head, also one with bare LFs: n is its length in b, and head is what the
// lines refer to.
func (l *loop) parseResponse(b []byte, noBody bool) (r http1.Response, head []byte, n int, err error) {
	if r, n, err = l.lines.ParseResponse(b, noBody); err == nil || err == http1.ErrHeaderTooLarge {
		return r, b[:n], n, err
	}
	head, n, bare := http1.WithCRLF(b)
	if !bare || !bytes.HasPrefix(b, []byte("HTTP/1.")) {
		return r, nil, 0, err
	}
	if n == 0 && len(b) > http1.MaxHead {
		return r, nil, 0, http1.ErrHeaderTooLarge
	}
	if n > 0 {
		r, _, err = l.lines.ParseResponse(head, noBody)
		return r, head, n, err
	}
	return r, nil, 0, nil
}

// await stores the beginning of a head.
func (p *peer) await(b []byte) {
	if len(b) == 0 {
		p.freeIn()
		return
	}
	if p.in == nil {
		p.in = p.conn.loop.parcels.get()
		p.in.b = append(p.in.b, b...)
		return
	}
	p.in.b = p.in.b[:copy(p.in.b, b)] // b is its tail
}

func (p *peer) freeIn() {
	if p.in != nil {
		p.conn.loop.parcels.put(p.in)
		p.in = nil
	}
}

// interim forwards a 1xx response; false if there are too many.
func (p *peer) interim(r *http1.Response, head []byte) bool {
	x := p.client.x
	if x.interim++; x.interim > http1.MaxInterim {
		p.conn.loop.counts.badResponses++
		p.give(502, "the destination's response: "+http1.ErrInterim.Error())
		return false
	}
	if x.request.Minor > 0 && (r.Status != 100 || x.request.ExpectContinue) {
		out := p.client.conn.buffer()
		out.b = p.conn.loop.appendInterim(out.b, r, head)
	}
	return true
}

// final forwards the head of the response.
func (p *peer) final(r *http1.Response, head []byte) {
	c := p.client
	x := c.x
	p.state = peerBody
	p.response, p.length, p.trailers = r.Body(), 0, p.trailers[:0]
	if r.Chunked {
		p.response.Collect(&p.trailers)
	}
	if p.conn.call != nil {
		p.response = http1.OpenBody() // its frames show where it ends
	}
	if r.HasLength && !r.Chunked {
		p.length = r.ContentLength
	}
	p.pool.note(!p.response.Ended() && (!r.HasLength || r.Chunked || r.ContentLength > spliceLeast))
	p.reusable = r.KeepAlive && x.bodyState == bodyWhole && !r.UntilClose
	p.pool.upstream.worked()
	x.trial = false
	x.status = uint16(r.Status)
	x.state = answerPassing
	if x.bodyState != bodyWhole { // where its body ends is uncertain now
		c.closing = true
	}
	out := c.conn.buffer()
	out.b = x.appendResponse(out.b, r, head)
	p.conn.expire(x.location.within.idle)
}

// pass forwards what follows the head.
func (p *peer) pass(b []byte) {
	c := p.client
	x := c.x
	for !p.response.Ended() && len(b) > 0 {
		piece, n, _, err := p.response.Next(b)
		if err != nil {
			p.conn.loop.counts.badResponses++
			p.cut("the destination's response: " + err.Error())
			return
		}
		b = b[n:]
		switch {
		case len(piece) == 0:
		case x.packer != nil:
			if _, err := x.packer.Write(piece); err != nil {
				p.cut("compression: " + err.Error())
				return
			}
		default:
			x.sentBytes += int64(len(piece))
			out := c.conn.room(len(piece) + chunkFrame)
			if x.chunked {
				out.b = appendChunk(out.b, piece)
			} else {
				out.b = append(out.b, piece...)
			}
		}
	}
	if x.packer != nil {
		if err := x.packed(p.response.Ended()); err != nil {
			p.cut("compression: " + err.Error())
			return
		}
	}
	if !p.response.Ended() {
		p.conn.expire(x.location.within.idle)
		switch {
		case x.packer == nil && x.spliceBody(&p.conn, &c.conn, p.length-x.sentBytes):
		case c.conn.blocked:
			p.conn.pause()
		}
		return
	}
	p.done(len(b) == 0)
}

// complete ends a response whose body has no end of its own.
func (p *peer) complete() {
	p.response = http1.Body{}
	if x := p.client.x; x.packer != nil {
		if err := x.packed(true); err != nil {
			p.cut("compression: " + err.Error())
			return
		}
	}
	p.done(true)
}

// done ends a response. clean means that nothing followed it.
func (p *peer) done(clean bool) {
	p.conn.unsplice()
	c := p.client
	x := c.x
	switch {
	case x.chunked:
		x.endChunks(p.trailers)
	case c.conn.stream != nil && len(p.trailers) > 0:
		st, lines := c.conn.stream, appendTrailers(nil, p.trailers, editsOf(x, contentHead).without)
		st.tail = p.conn.loop.heads.appendTrailerBlock(st.tail, lines)
	}
	p.client, x.peer = nil, nil
	x.uncount()
	x.hold()
	p.freeIn()
	switch {
	case p.conn.call != nil:
		p.drop()
	case !clean:
		p.conn.loop.counts.unsolicited++
		p.drop()
	case p.reusable && x.bodyState == bodyWhole && !p.broken && !p.conn.blocked && !p.conn.loop.stopping:
		p.pool.rest(p)
	default:
		p.drop()
	}
	c.finish()
}

// cut ends a response that cannot be completed. It closes the client's connection, so that the
// client sees the truncation.
func (p *peer) cut(why string) {
	c := p.client
	p.client, c.x.peer = nil, nil
	c.x.uncount()
	p.drop()
	p.conn.loop.counts.cutResponses++
	c.conn.flush() // the client gets what came before the cut
	c.fail(why)
}

// give ends an attempt whose request the destination has, or may have.
func (p *peer) give(status int, why string) {
	p.giveUp(status, why, failure{sent: true, opened: p.conn.loop.now})
}

func (p *peer) giveUp(status int, why string, f failure) {
	c := p.client
	p.client = nil
	p.drop()
	c.x.failed(status, why, f)
}

// lost ends an attempt whose connection ended before a byte of the response. closed means that
// the destination closed it in order.
func (p *peer) lost(why string, closed bool) {
	p.giveUp(502, why, failure{sent: !p.untaken(closed), stale: p.served > 1 && p.state == peerAsked, opened: p.opened})
}

// untaken reports whether the destination's program has read no byte of the request, by the
// kernel's counters: either none was sent, or the destination had closed the connection, as
// happens to idle ones, when the first arrived. Its FIN would acknowledge what came before; what
// came after was discarded. A count of 0 acknowledged means that the kernel does not count, since
// the handshake is one.
func (p *peer) untaken(closed bool) bool {
	if p.conn.call != nil {
		return p.conn.call.id == 0
	}
	if p.conn.flushed == p.base {
		return true
	}
	if !p.conn.tcp || p.state != peerAsked {
		return false
	}
	counts, err := sys.CountTCP(int(p.conn.fd))
	if err != nil || counts.Acked == 0 {
		return false
	}
	before := uint64(p.base)
	return counts.Sent == before || closed && counts.Acked <= before+1
}

// abandon detaches a client that has left, or got another response.
func (p *peer) abandon() {
	if c := p.client; c != nil {
		c.x.uncount()
	}
	p.client = nil
	if p.state != peerConnecting || p.conn.call != nil { // the new connection will serve another client
		p.drop()
	}
}

// drop closes the connection and makes room in its pool.
func (p *peer) drop() {
	if p.state == peerClosed {
		return
	}
	if p.conn.call != nil {
		p.state = peerClosed
		p.freeIn()
		p.conn.close()
		return
	}
	p.pool.forget(p)
	p.state = peerClosed
	p.freeIn()
	p.conn.close()
	p.pool.admit()
}

func (p *peer) ended(err syscall.Errno) {
	switch p.state {
	case peerConnecting:
		p.refused(endOf(err))
	case peerIdle:
		p.conn.loop.counts.idlePeersClosed++
		p.drop()
	case peerAsked, peerHead:
		p.lost("the destination closed the connection before its response", err == 0)
	case peerBody:
		if err == 0 && p.response.UntilClose() && !p.conn.tls.torn() {
			p.reusable = false
			p.complete()
			return
		}
		p.cut("the destination closed the connection within its response")
	case peerTunnel:
		switch {
		case err == 0 && p.down.state != directionOpen: // its close_notify said so
			return
		case err != 0, p.conn.tls.torn():
			p.client.end()
			return
		}
		p.down.state = directionEnded
		p.client.conn.notify()
		p.client.conn.deferDrain()
	}
}

// unsendable closes nothing, because the response that explains it may still arrive.
func (p *peer) unsendable(syscall.Errno) {
	p.broken = true
	p.reusable = false
	if p.conn.sink != nil {
		p.conn.sink.stop()
	}
	if p.state == peerTunnel {
		p.client.end()
		return
	}
	if (p.state == peerAsked || p.state == peerHead) && p.untaken(false) {
		p.lost("the destination closed the connection before its response", false)
		return
	}
	if c := p.client; c != nil {
		c.conn.resume()
		p.conn.expire(lingerNs)
	}
}

// stalled pauses the peer's source.
func (p *peer) stalled() {
	if c := p.client; c != nil && (c.x.bodyState == bodyStreaming || p.state == peerTunnel) {
		c.conn.pause()
	}
}

func (p *peer) drained() {
	c := p.client
	if c == nil {
		return
	}
	c.conn.resume()
	if p.state == peerTunnel && p.up.state == directionEnded {
		p.shut(&p.up, &p.conn)
	}
}

// goOn continues after the client has taken its input.
func (p *peer) goOn() {
	p.conn.resume()
	if p.state == peerTunnel && p.down.state == directionEnded {
		p.shut(&p.down, &p.client.conn)
	} else if p.state == peerBody {
		p.conn.expire(p.client.x.location.within.idle)
	}
}

func (p *peer) expired() {
	l := p.conn.loop
	c := p.client
	switch p.state {
	case peerConnecting:
		l.counts.connectTimeouts++
		p.pool.unreachable(p, 504, "connect: timeout")
	case peerIdle:
		p.drop()
	case peerAsked, peerHead:
		if c.x.bodyState != bodyWhole && !p.conn.blocked && !p.broken {
			l.counts.bodyTimeouts++
			c.x.spoiled(408, "the request's body took too long")
			return
		}
		l.counts.responseTimeouts++
		p.give(504, "the destination took too long to answer")
	case peerBody:
		if c.conn.blocked {
			l.counts.clientTimeouts++
		} else {
			l.counts.responseTimeouts++
		}
		p.cut("no byte for too long")
	}
}
