package proxy

import (
	"slices"
	"time"

	"ceiling/internal/ring"
	"ceiling/proxy/config"
)

// pool is a loop's connections to one upstream.
type pool struct {
	loop     *loop
	upstream *upstream
	sessions []*peerSession // with HTTP/2, which take requests
	idle     []*peer        // the last in is the first out: the others may go when they are not needed
	queue    []*client
	large    uint8   // see note
	open     int     // connections, those under way too
	busy     int     // requests
	turn     int     // which address was last
	avoid    []int64 // loop's clock: until when each address is left out
}

// pool of an upstream, made when it is first asked for.
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

// largeFor is how many responses a destination's large one is remembered.
const largeFor = 32

// note learns how large a destination's responses are. Where one of the last was, or
// none is known, the next head is received by itself: what lies behind it stays in
// the kernel until it is known whether the client takes it.
func (p *pool) note(large bool) {
	if large {
		p.large = largeFor
	} else if p.large > 0 {
		p.large--
	}
}

// request finds a connection for x, or a place in the queue for one.
func (p *pool) request(x *exchange) {
	p.busy++
	x.counted = true
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
		p.connect(x)
		return
	}
	if x.fresh && len(p.idle) > 0 { // make room
		p.idle[0].drop()
		p.connect(x)
		return
	}
	p.line(x)
}

// line puts x in the queue, if there is room.
func (p *pool) line(x *exchange) {
	if len(p.queue) >= int(p.upstream.queue.Load()) {
		p.loop.counts.queueFull++
		x.uncount()
		x.answerLater(503, "the destination's queue is full", 1e9)
		return
	}
	p.wait(x)
}

// wait puts x in the queue.
func (p *pool) wait(x *exchange) {
	p.loop.counts.queued++
	p.queue = append(p.queue, x.client)
	x.queued = p
	x.client.expire(x.location.queue)
}

// unopened goes on where there is no socket for a connection. Without descriptors it
// is no fault of the destination's, and x waits where idle clients can be closed.
func (p *pool) unopened(x *exchange, err error) {
	l := p.loop
	switch {
	case !outOfDescriptors(err):
		l.counts.connectErrors++
		x.failed(503, err.Error(), failure{opened: l.now})
	case l.starve() && len(p.queue) < int(p.upstream.queue.Load()):
		l.starved = append(l.starved, p)
		p.wait(x)
	default:
		l.counts.connectErrors++
		x.uncount()
		x.answerLater(503, err.Error(), 1e9)
	}
}

// connect opens a connection for x.
func (p *pool) connect(x *exchange) {
	if p.upstream.secure() {
		p.bridge(x)
		return
	}
	fd, at, to, err := p.socket()
	if err != nil {
		p.unopened(x, err)
		return
	}
	peer := &peer{pool: p, client: x.client, address: at}
	p.loop.adopt(&peer.conn, peer, fd)
	peer.tcp = p.upstream.target.Scheme == config.HTTP
	p.open++
	x.peer = peer
	peer.expire(x.location.connect)
	p.loop.ring.Connect(fd, to, peer.tag())
}

// socket makes a socket for the address whose turn it is.
func (p *pool) socket() (fd, at int, to *ring.Sockaddr, err error) {
	list := *p.upstream.addresses.Load()
	at = p.address(len(list))
	fd, err = list[at].Socket()
	return fd, at, &list[at], err
}

// avoidNs is how long an address of a name is left out after a connect to it has
// failed, while the name has others.
const avoidNs = 10e9

// address is the place in the list of the name's address whose turn it is.
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

// unreachable ends an attempt to connect. A name's next address is tried before
// the destination counts as failed.
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
	peer.close()
	p.connect(c.x)
}

// avoidAddress leaves an address out for a while, and tells whether there are others.
func (p *pool) avoidAddress(at int) (others bool) {
	if at < len(p.avoid) {
		p.avoid[at] = p.loop.now + avoidNs
		for _, until := range p.avoid {
			others = others || until <= p.loop.now
		}
	}
	return others
}

// bridge opens a connection that others encrypt. It is there at once.
func (p *pool) bridge(x *exchange) {
	fd, far, err := p.loop.proxy.bridge(p.upstream, time.Duration(x.location.connect))
	if err != nil {
		p.unopened(x, err)
		return
	}
	peer := &peer{pool: p, client: x.client, far: far}
	p.loop.adopt(&peer.conn, peer, fd)
	p.open++
	x.peer = peer
	peer.connected(0)
}

// rest takes a connection back: for who waits for one, or for later.
func (p *pool) rest(peer *peer) {
	if c := p.next(); c != nil {
		p.loop.counts.reuses++
		peer.begin(c.x)
		return
	}
	u := p.upstream
	if p.loop.stopping || u.gone.Load() || len(p.idle) >= int(u.maxIdle.Load()) {
		peer.drop()
		return
	}
	p.idle = append(p.idle, peer)
	peer.expire(u.idle.Load())
}

// next takes the first of the queue.
func (p *pool) next() *client {
	if len(p.queue) == 0 {
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
	c.deadline = 0
	if total := c.x.location.total; total > 0 {
		c.expire(max(c.x.began+total-p.loop.now, 1))
	}
}

// leave takes a client out of the queue that does not wait any longer.
func (p *pool) leave(c *client) {
	if i := slices.Index(p.queue, c); i >= 0 {
		p.queue = slices.Delete(p.queue, i, i+1)
	}
	p.taken(c)
	c.x.uncount()
}

// forget drops a connection from the books.
func (p *pool) forget(peer *peer) {
	p.open--
	if peer.state == peerIdle {
		if i := slices.Index(p.idle, peer); i >= 0 {
			p.idle = slices.Delete(p.idle, i, i+1)
		}
	}
}

// admit opens a connection for the first of the queue, since there is room again.
func (p *pool) admit() {
	if p.upstream.http2 {
		p.admitCalls()
		return
	}
	if c := p.next(); c != nil {
		p.connect(c.x)
	}
}

// empty closes the idle connections.
func (p *pool) empty() {
	for len(p.idle) > 0 {
		p.idle[len(p.idle)-1].drop()
	}
	p.emptySessions()
}

var _ party = (*peer)(nil)
var _ party = (*client)(nil)
var _ party = (*listener)(nil)
var _ party = (*waker)(nil)
