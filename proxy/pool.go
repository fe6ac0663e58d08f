package proxy

import (
	"errors"
	"slices"
	"syscall"

	"ceiling/internal/ring"
	"ceiling/internal/tlsconn"
	"ceiling/proxy/config"
)

// pool is a loop's connections to one upstream.
type pool struct {
	loop     *loop
	upstream *upstream
	sessions []*peerSession // HTTP/2 connections that accept requests
	idle     []*peer        // last in, first out: the others may go when not needed
	queue    []*client
	tls      *tlsconn.Client // of a destination with TLS, once there is a connection
	large    uint8           // see note
	open     int             // connections, including those being established
	busy     int             // requests
	turn     int             // index of the last address used
	avoid    []int64         // loop's clock: until when to skip each address
	moved    int64           // loop's clock: when an address of the name went; 0 if none has
}

// pool returns the pool of an upstream, creating it on first use.
func (l *loop) pool(u *upstream) *pool {
	for int(u.id) >= len(l.pools) {
		l.pools = append(l.pools, nil)
	}
	p := l.pools[u.id]
	if p == nil {
		p = &pool{loop: l, upstream: u, large: largeFor}
		l.pools[u.id] = p
	}
	return p
}

// largeFor is for how many responses a large one is remembered.
const largeFor = 32

// note tracks how large a destination's responses are. If a recent one was large, or none is
// known, the next head is received separately: what follows it stays in the kernel until it is
// known whether the client takes it.
func (p *pool) note(large bool) {
	if large {
		p.large = largeFor
	} else if p.large > 0 {
		p.large--
	}
}

// request finds a connection for x, or queues it for one.
func (p *pool) request(x *exchange) {
	p.busy++
	x.counted = true
	if p.upstream.held() {
		p.line(x)
		return
	}
	if p.upstream.http2 {
		p.ask(x)
		return
	}
	if n := len(p.idle); n > 0 && !x.fresh {
		peer := p.idle[n-1]
		p.idle = p.idle[:n-1]
		p.loop.counts.reuses++
		peer.begin(x)
		return
	}
	limit := int(p.upstream.limit.Load())
	if limit == 0 || p.open < limit {
		p.dial(x)
		return
	}
	if x.fresh && len(p.idle) > 0 { // make room
		p.idle[0].drop()
		p.dial(x)
		return
	}
	p.line(x)
}

// line queues x if there is room.
func (p *pool) line(x *exchange) {
	if len(p.queue) >= int(p.upstream.queue.Load()) {
		p.loop.counts.queueFull++
		x.uncount()
		x.answerLater(503, "the destination's queue is full", 1e9)
		return
	}
	p.wait(x)
}

// wait queues x.
func (p *pool) wait(x *exchange) {
	p.loop.counts.queued++
	p.queue = append(p.queue, x.client)
	x.queued = p
	x.client.conn.expire(x.location.within.queue)
}

// unopened handles a failure to open a socket. A lack of descriptors is not the destination's
// fault, so x waits if idle clients can be closed.
func (p *pool) unopened(x *exchange, err error) {
	l := p.loop
	switch {
	case errors.Is(err, errUnresolved):
		l.counts.connectErrors++
		x.failed(502, err.Error(), failure{opened: l.now})
	case !outOfDescriptors(err):
		l.counts.connectErrors++
		x.failed(503, err.Error(), failure{opened: l.now})
	case l.starve() && len(p.queue) < int(p.upstream.queue.Load()):
		l.admission.starved = append(l.admission.starved, p)
		p.wait(x)
	default:
		l.counts.connectErrors++
		x.uncount()
		x.answerLater(503, err.Error(), 1e9)
	}
}

// dial opens a connection for x.
func (p *pool) dial(x *exchange) {
	fd, at, to, err := p.socket()
	if err != nil {
		p.unopened(x, err)
		return
	}
	peer := &peer{pool: p, client: x.client, address: at}
	p.loop.adopt(&peer.conn, peer, fd)
	peer.conn.tcp = p.upstream.target.Scheme == config.HTTP
	p.open++
	x.peer = peer
	peer.conn.expire(x.location.within.connect)
	p.loop.ring.Connect(fd, to, peer.conn.tag())
}

// socket creates a socket for the next address in turn.
func (p *pool) socket() (fd, at int, to *ring.Sockaddr, err error) {
	known := p.upstream.naming.addresses.Load()
	if known == nil {
		p.upstream.resolveSoon()
		return -1, 0, nil, errUnresolved
	}
	list := *known
	at = p.address(len(list))
	fd, err = list[at].Socket()
	return fd, at, &list[at], err
}

// connected completes a connect.
func (p *peer) connected(err syscall.Errno) {
	if err != 0 {
		p.conn.loop.counts.connectErrors++
		p.pool.unreachable(p, 502, "connect: "+err.Error())
		return
	}
	if p.pool.large > 0 {
		p.conn.intake = intakePiece
	}
	if p.pool.upstream.secure() {
		p.pool.startTLS(&p.conn)
		return
	}
	p.conn.receive()
	p.usable()
}

// usable puts a new connection to use.
func (p *peer) usable() {
	p.conn.loop.counts.connects++
	p.pool.upstream.connected()
	p.opened = p.conn.loop.now
	if p.client == nil {
		p.pool.rest(p)
		return
	}
	p.begin(p.client.x)
}

// secured implements tlsParty.
func (p *peer) secured() {
	p.pool.upstream.tls.note(p.pool.upstream.key, nil, p.conn.loop.proxy.fail)
	p.usable()
}

// refused implements tlsParty.
func (p *peer) refused(err error) {
	u := p.pool.upstream
	u.tls.note(u.key, err, p.conn.loop.proxy.fail)
	p.conn.loop.counts.connectErrors++
	p.pool.unreachable(p, 502, shownTLS(err, false))
}

// begin sends the request on an open connection.
func (p *peer) begin(x *exchange) {
	p.client, x.peer = x.client, p
	p.state, p.broken = peerAsked, false
	p.served++
	p.base = p.conn.flushed
	p.chunkBody = x.request.Chunked && p.conn.call == nil
	out := p.conn.buffer()
	out.b = x.appendRequest(out.b)
	if x.bodyState == bodyWhole { // there is none
		if p.conn.call != nil {
			p.conn.call.endBody()
		}
		p.conn.expire(x.location.within.respond)
		return
	}
	p.conn.expire(x.location.within.idle)
	x.client.pump()
}

var errUnresolved = errors.New("the destination's name does not resolve")

// avoidNs is how long an address of a name is skipped after a failed connect, while the name has
// others.
const avoidNs = 10e9

// address returns the index of the name's next address in turn.
func (p *pool) address(n int) int {
	if len(p.avoid) != n {
		p.avoid = make([]int64, n)
	}
	for range n {
		p.turn = (p.turn + 1) % n
		if p.avoid[p.turn] <= p.loop.now {
			return p.turn
		}
	}
	return p.turn
}

// unreachable ends a connect attempt. It tries a name's next address before the destination
// counts as failed.
func (p *pool) unreachable(peer *peer, status int, why string) {
	c := peer.client
	peer.client = nil
	others := p.avoidAddress(peer.address)
	if c == nil {
		peer.drop()
		return
	}
	if !others {
		peer.drop()
		c.x.failed(status, why, failure{opened: p.loop.now})
		return
	}
	c.x.peer = nil
	p.forget(peer)
	peer.state = peerClosed
	peer.conn.close()
	p.dial(c.x)
}

// avoidAddress skips an address for a while, and reports whether there are others.
func (p *pool) avoidAddress(at int) (others bool) {
	p.upstream.resolveSoon()
	if at < len(p.avoid) {
		p.avoid[at] = p.loop.now + avoidNs
		for _, until := range p.avoid {
			others = others || until <= p.loop.now
		}
	}
	return others
}

// rest takes a connection back: for a waiting client, or for later.
func (p *pool) rest(peer *peer) {
	peer.state = peerIdle
	if p.large > 0 { // what follows the head stays in the kernel
		peer.conn.resume()
	} else {
		peer.conn.gulp()
	}
	if c := p.next(); c != nil {
		p.loop.counts.reuses++
		peer.begin(c.x)
		return
	}
	u := p.upstream
	if p.loop.stopping || u.gone.Load() || peer.opened < p.moved || len(p.idle) >= int(u.maxIdle.Load()) {
		peer.drop()
		return
	}
	p.idle = append(p.idle, peer)
	peer.conn.expire(u.idle.Load())
}

// next removes the first client from the queue.
func (p *pool) next() *client {
	if len(p.queue) == 0 || p.upstream.held() {
		return nil
	}
	c := p.queue[0]
	p.queue = slices.Delete(p.queue, 0, 1)
	p.taken(c)
	return c
}

// taken notes that a client has left the queue.
func (p *pool) taken(c *client) {
	c.x.queued = nil
	limitTotal(c.x)
}

// leave removes a client that no longer waits from the queue.
func (p *pool) leave(c *client) {
	if i := slices.Index(p.queue, c); i >= 0 {
		p.queue = slices.Delete(p.queue, i, i+1)
	}
	p.taken(c)
	c.x.uncount()
}

// forget removes a connection.
func (p *pool) forget(peer *peer) {
	p.open--
	if peer.state == peerIdle {
		if i := slices.Index(p.idle, peer); i >= 0 {
			p.idle = slices.Delete(p.idle, i, i+1)
		}
	}
}

// admit opens a connection for the head of the queue, because there is room again.
func (p *pool) admit() {
	if p.upstream.http2 {
		p.admitCalls()
		return
	}
	if c := p.next(); c != nil {
		p.dial(c.x)
	}
}

// move leaves the connections to addresses that the name no longer has.
func (p *pool) move() {
	p.avoid, p.moved = nil, p.loop.now
	p.empty()
}

// empty closes the idle connections.
func (p *pool) empty() {
	for len(p.idle) > 0 {
		p.idle[len(p.idle)-1].drop()
	}
	p.emptySessions()
}

// resume sends the waiting requests.
func (p *pool) resume() {
	waiting := p.queue
	p.queue = nil
	for _, c := range waiting {
		if c.x.queued != p { // it has left
			continue
		}
		p.taken(c)
		c.x.uncount()
		p.request(c.x)
	}
}
