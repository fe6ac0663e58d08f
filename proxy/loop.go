package proxy

import (
	"errors"
	"fmt"
	"runtime"
	"slices"
	"syscall"
	"time"

	"ceiling/internal/http1"
	"ceiling/internal/ring"
	"ceiling/proxy/compress"
	"ceiling/proxy/files"
)

// A loop is one thread's part of the proxy, with its own ring, connections and counters; handling
// a request writes to no shared memory. Others send a loop functions to run through calls.
type loop struct {
	proxy *Proxy
	index int
	ring  *ring.Ring
	site  *site
	calls chan func(*loop)
	wake  int // readable when there are calls

	sockets   sockets
	listeners []*listener
	clients   map[*client]struct{}
	admission admission
	sending   sending
	memory
	lines     http1.Lines
	linesOf   *inbound // the request that these lines are of
	wheel     wheel
	pools     []*pool // by upstream.id
	files     files.Cache
	beginning []*flow
	log       *logBuffer
	traces    traceRing
	clock

	hurry    bool // pending sends need attention: the next Wait returns at once
	stopping bool // accept no more clients
	drainEnd int64
	counts   counters
}

// sockets are a loop's connections, by index. The generation distinguishes successive connections
// with the same index.
type sockets struct {
	conns       []*conn // nil is free
	generations []uint32
	free        []uint32
}

// admission is how many clients are allowed, and which are evicted beyond that.
type admission struct {
	idle      idleList
	room      int  // how many clients are allowed
	full      bool // currently accepting none
	evictions int  // idle clients to close at the end of the turn
	starved   []*pool
	handshake
	secured  secured
	sessions sessions
}

// sending are the connections with pending output, and those whose sends must be checked.
type sending struct{ dirty, sent, settling []*conn }

// memory is what a loop keeps for reuse.
type memory struct {
	parcels   parcels
	exchanges []*exchange
	packers   [len(compress.Codings)][compress.Small + 1][]*compressor
	pipes     pipes
	extra     []byte // see conn.more
	nothing   []byte // see blank
	clean     []byte // scratch of route.Clean
	streams   []*stream
	idleCalls []*call
	spent     []*call // ended in this turn
	rewriter  rewriter
	heads     heads
	asks      heads // of requests to destinations with HTTP/2
	replies   replies
	chunk     []byte // scratch of stream.take
}

// clock is read once per turn.
type clock struct {
	now    int64 // nanoseconds since the proxy began
	second int64 // of date, Unix time
	date   []byte
}

// noWork is how long a Wait lasts without events: one tick of the wheel.
const noWork = 64 * time.Millisecond

// run serves until the loop is stopped and its last connection has ended.
func (l *loop) run() (err error) {
	runtime.LockOSThread()
	defer runtime.UnlockOSThread()
	if l.ring, err = ring.Open(ring.Config{Engine: l.proxy.options.Engine}); err != nil {
		return err
	}
	defer func() { err = errors.Join(err, l.ring.Shut()) }()
	if asked := l.proxy.options.Engine; asked != ring.Epoll && l.ring.Engine() == ring.Epoll {
		l.proxy.fail(fmt.Sprintf("loop %d is served by epoll: %s", l.index, l.ring.Why()))
	}
	for _, ln := range l.listeners {
		l.adopt(&ln.conn, ln, ln.socket)
		l.ring.Accept(ln.socket, ln.conn.tag())
	}
	w := &waker{}
	l.adopt(&w.conn, w, l.wake)
	l.ring.Receive(l.wake, w.tag())
	for !l.over() {
		if err := l.turn(); err != nil {
			return errors.Join(err, l.letGo())
		}
	}
	l.log.flush(l)
	return l.letGo()
}

// turn is one iteration: wait, settle sends, handle input, send.
func (l *loop) turn() error {
	patience := ring.Patience{Timeout: noWork}
	if l.hurry {
		l.hurry, patience.Timeout = false, 0
	}
	if l.admission.full || len(l.admission.starved) > 0 {
		patience.Timeout = min(patience.Timeout, crowdedTurn)
	}
	events, err := l.ring.Wait(patience)
	if err != nil {
		return fmt.Errorf("proxy loop: %w", err)
	}
	l.tell(time.Now())
	l.settle()
	l.greetQueued()
	if len(l.admission.starved) > 0 {
		l.feed()
	}
	for i := range events {
		l.handle(&events[i])
	}
	l.wheel.turn(l, l.now)
	if len(l.beginning) > 0 {
		l.begin()
	}
	l.relieve()
	if l.stopping {
		endIdle(l)
	}
	l.flush()
	return nil
}

// tell sets the clock, and what changes every second.
func (l *loop) tell(now time.Time) {
	l.now = int64(now.Sub(l.proxy.began))
	if s := now.Unix(); s != l.second {
		l.second = s
		l.date = now.UTC().AppendFormat(l.date[:0], "Mon, 02 Jan 2006 15:04:05 GMT") // RFC 9110, section 5.6.7
		l.log.flush(l)
		l.files.Sweep()
		l.regrow()
	}
}

func (l *loop) settle() {
	l.sending.settling, l.sending.sent = l.sending.sent, l.sending.settling[:0]
	for _, c := range l.sending.settling {
		c.settle()
	}
}

func (l *loop) flush() {
	for i := 0; i < len(l.sending.dirty); i++ {
		c := l.sending.dirty[i]
		switch {
		case c.session != nil:
			c.session.gather()
		case c.outward != nil:
			c.outward.gather()
		}
		c.dirty = false
		if !c.holds() {
			c.flush()
		}
	}
	l.sending.dirty = l.sending.dirty[:0]
	if len(l.spent) > 0 {
		l.reuseCalls()
	}
}

// holds reports whether writes must wait because the other end has not read its input.
func (c *conn) holds() bool {
	return c.session != nil && c.session.holds() || c.outward != nil && c.blocked
}

func (l *loop) handle(ev *ring.Event) {
	c := l.connAt(ev.Tag.Index(), ev.Tag.Generation())
	if c == nil {
		if ev.Kind == ring.Accepted && ev.Err == 0 {
			closeNow(ev.FD) // its listener is closed
		}
		return
	}
	switch ev.Kind {
	case ring.Received:
		if len(ev.Data) > 0 {
			c.take(ev.Data)
			if len(ev.Data) == fullPiece && c.tastes() && l.ring.Quiet(ev.Tag) { // else what it reads is not what follows
				c.more()
			}
			if c.intake == intakePiece && c.fd >= 0 {
				c.receive()
			}
		} else {
			if c.source != nil { // it has not started
				c.source.stop()
			}
			c.owner.ended(ev.Err)
		}
	case ring.Sent:
		c.sent()
	case ring.Readable:
		if f := c.source; f != nil && f.begun && f.held == 0 {
			f.step()
		}
	case ring.Writable:
		if f := c.sink; f != nil && f.begun && f.held > 0 {
			c.blocked = false
			f.step()
		}
	case ring.SendFailed:
		c.blocked = false
		c.owner.unsendable(ev.Err)
	case ring.Accepted:
		c.owner.(*listener).accepted(ev)
	case ring.Connected:
		if s := c.outward; s != nil {
			s.connected(ev.Err)
		} else {
			c.owner.(*peer).connected(ev.Err)
		}
	}
}

// take handles the bytes that a connection received.
func (c *conn) take(data []byte) {
	if c.tls == nil {
		c.owner.received(data)
		return
	}
	switch o := c.owner.(type) {
	case *client:
		o.decipher(data)
	case tlsParty:
		decrypt(c, o, data)
	}
}

// tastes reports whether the connection receives piece by piece and forwards a body to an end that has
// taken everything so far: a destination, or a client over a connection that holds little for its other
// streams.
func (c *conn) tastes() bool {
	if c.intake != intakePiece || c.fd < 0 {
		return false
	}
	switch o := c.owner.(type) {
	case *client:
		return o.state == atRequest && o.x.bodyState == bodyStreaming && !o.stalledUpstream()
	case *peer:
		if o.state == peerBody && !o.client.conn.blocked {
			st := o.client.conn.stream
			return st == nil || !st.crowded()
		}
	}
	return false
}

// moreBytes is the most that more reads: with the piece before it, a full large parcel.
const moreBytes = 3 * fullPiece

// more reads what follows a full piece, which is all that one receive has room for. A multishot
// receive would take up to half a megabyte per turn (io_uring/net.c: MULTISHOT_MAX_RETRY, 32
// buffers), too much to buffer for a client that does not read; one piece per turn costs a turn
// each. The next receive reports errors of the socket.
func (c *conn) more() {
	l := c.loop
	if l.extra == nil {
		l.extra = make([]byte, moreBytes)
	}
	n, err := syscall.Read(int(c.fd), l.extra) // the socket does not block
	if err == nil && n > 0 {
		c.take(l.extra[:n])
	}
}

// connAt returns the connection at an index, nil if that is closed or another's.
func (l *loop) connAt(index, generation uint32) *conn {
	if int(index) >= len(l.sockets.conns) {
		return nil
	}
	c := l.sockets.conns[index]
	if c == nil || c.generation != generation {
		return nil
	}
	return c
}

// adopt makes c the connection of a socket.
func (l *loop) adopt(c *conn, owner party, fd int) {
	var i uint32
	if n := len(l.sockets.free); n > 0 {
		i = l.sockets.free[n-1]
		l.sockets.free = l.sockets.free[:n-1]
	} else {
		i = uint32(len(l.sockets.conns))
		l.sockets.conns = append(l.sockets.conns, nil)
		l.sockets.generations = append(l.sockets.generations, 0)
	}
	l.sockets.generations[i] = (l.sockets.generations[i] + 1) & 0xffffff
	*c = conn{loop: l, owner: owner, fd: int32(fd), index: i, generation: l.sockets.generations[i]}
	l.sockets.conns[i] = c
}

// forget frees the index of a closed connection.
func (l *loop) forget(c *conn) {
	l.sockets.conns[c.index] = nil
	l.sockets.free = append(l.sockets.free, c.index)
}

// over reports whether the loop was stopped and has nothing left to do.
func (l *loop) over() bool {
	if !l.stopping {
		return false
	}
	return l.now >= l.drainEnd || len(l.clients) == 0 && !slices.ContainsFunc(l.listeners, func(ln *listener) bool { return ln.conn.fd >= 0 })
}

// stop ends the clients with their current request, see endIdle for those without one, and all when the
// drain time is over. The listeners take what is in their queue and close.
func (l *loop) stop(within time.Duration) {
	l.drainEnd = l.now + int64(within)
	if l.stopping {
		return
	}
	l.stopping = true
	for _, ln := range l.listeners {
		ln.conn.pause()
		ln.conn.expire(1)
	}
	for c := range l.clients {
		if c.conn.session != nil {
			c.conn.session.drain()
		}
	}
}

// letGo closes what is left, so that no descriptor outlives the loop.
func (l *loop) letGo() error {
	var err error
	for _, c := range l.sockets.conns {
		if c != nil && c.fd >= 0 && c.hasSocket() {
			c.unsplice()
			if c.tls != nil {
				c.tls.Stop()
			}
			err = errors.Join(err, syscall.Close(int(c.fd)))
			c.fd = -1
		}
	}
	l.files.Close()
	l.pipes.close()
	return err
}

// waker owns the socket that wakes a loop.
type waker struct{ conn }

func (w *waker) received([]byte) {
	for {
		select {
		case f := <-w.loop.calls:
			f(w.loop)
		default:
			return
		}
	}
}

// ended: the proxy has closed its end, which means to stop at once.
func (w *waker) ended(syscall.Errno) {
	w.close()
	w.loop.stop(0)
}

func (w *waker) unsendable(syscall.Errno) {}
func (w *waker) stalled()                 {}
func (w *waker) drained()                 {}
func (w *waker) expired()                 {}
