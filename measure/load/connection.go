package load

import (
	"syscall"

	"ceiling/internal/http1"
	"ceiling/internal/ring"
)

// States of a connection.
const (
	closed     = iota // waiting to be opened, see reopenAt
	connecting        // a connect is under way
	tunnelling        // the proxy has been sent a CONNECT: tunnel.go
	shaking           // a TLS handshake is under way
	upgrading         // a WebSocket is being requested: streams.go
	open
)

// conn is one connection of one worker, and owns its descriptor. Reopened, a conn keeps its index
// and takes the next generation, which tells events of the old descriptor apart.
type conn struct {
	fd         int32
	generation uint32
	state      uint8
	speaks     Protocol
	failures   uint8 // consecutive failed connects
	sending    bool  // nothing may be sent: a Sent event is pending, or a send has failed
	attempted  bool  // the first attempt to connect has ended
	listed     bool  // among the worker's eager
	reads      reads
	sendErr    syscall.Errno

	// flights queues the requests: first those on the wire, then those waiting to leave. The last
	// stamped ones of those on the wire leave with the next Wait; the first resend of the waiting
	// ones were on the wire before.
	onWire  int32
	stamped int32
	waiting int32
	resend  int32
	// parked slots have no request: in an open loop while the connection is down, in a closed one
	// that ends after a number of requests while the others have the rest.
	parked int32

	served uint32 // responses on this descriptor
	oldest uint32 // position in the script of the first request queued
	next   uint32 // position of the first request not on the wire

	head, entries int32 // of the flights queue
	since         int64 // the connect began or, once it is open, the last response came; run's clock
	reopenAt      int64

	reader   http1.Reader
	arriving *arriving // nil: every response so far came in one piece

	// one is the queue of a connection without pipelining: it lies in memory already in use, which
	// saves a cache and TLB miss per request.
	one [1]flight
}

// flight is a number of requests of one connection with the same times.
type flight struct {
	due, sent int64 // run's clock; sent 0: not yet
	n         int32
	again     bool // it was on the wire of an earlier connection
}

func (c *conn) tag(index uint32) ring.Tag { return ring.MakeTag(index, c.generation) }

// queue is the part of the worker's flights that belongs to connection i.
func (w *worker) queue(i uint32) []flight {
	p := w.pipelining
	if p == 1 {
		return w.conns[i].one[:]
	}
	return w.flights[int(i)*p : int(i)*p+p]
}

// wrap maps a place at most one round beyond a queue of n flights back into it.
func wrap(at int32, n int) int32 {
	if int(at) >= n {
		at -= int32(n)
	}
	return at
}

// enqueue adds n requests that came due at the given time.
func (w *worker) enqueue(i uint32, c *conn, due int64, n int32) {
	q := w.queue(i)
	if c.waiting > 0 {
		if last := &q[wrap(c.head+c.entries-1, len(q))]; last.due == due && !last.again {
			last.n += n
			c.waiting += n
			return
		}
	}
	q[wrap(c.head+c.entries, len(q))] = flight{due: due, n: n}
	c.entries++
	c.waiting += n
}

// transmit sends the waiting requests: at once if a connection has one request at a time, otherwise
// after the current batch, so that slots freed by several events share one send.
func (w *worker) transmit(i uint32, c *conn) {
	if w.pipelining == 1 {
		w.transmitNow(i, c)
		return
	}
	if c.onWire > 0 && w.gathering.on && w.gathering.deep {
		return // they leave together once its last response is in: one send, which the server reads at once
	}
	if !c.listed {
		c.listed = true
		w.eager = append(w.eager, i)
	}
}

// transmitAll sends for the connections that transmit deferred.
func (w *worker) transmitAll() {
	for _, i := range w.eager {
		c := &w.conns[i]
		c.listed = false
		w.transmitNow(i, c)
	}
	w.eager = w.eager[:0]
}

// transmitNow sends as many waiting requests as it may. If the socket buffer is full it sends once
// more and then waits for that to leave, so that a server that answers without reading cannot make
// us buffer without limit.
func (w *worker) transmitNow(i uint32, c *conn) {
	if c.speaks == HTTP2 {
		w.transmitH2(i, c)
		return
	}
	if w.feeder != nil {
		w.feeder.transmit(w, i, c)
		return
	}
	for c.waiting > 0 && c.state == open && !c.sending {
		n := c.room(w.shared.NewConnections, int(c.waiting))
		if n <= 0 {
			return // this one is about to be closed
		}
		b, got, next := w.shared.script.stretch(c.next, n)
		c.next = next
		w.send(i, c, b)
		w.stamp(i, c, int32(got))
	}
}

// room returns how many of n requests a connection may still have, if it has so many in all; 0: no limit.
func (c *conn) room(per, n int) int {
	if per == 0 {
		return n
	}
	return min(n, per-int(c.served)-int(c.onWire))
}

// full reports whether a connection has had all of its requests.
func (c *conn) full(per int) bool { return per > 0 && int(c.served) >= per }

func (w *worker) send(i uint32, c *conn, b []byte) {
	if w.tls != nil {
		w.sendSealed(i, c, b)
		return
	}
	if tag := c.tag(i); w.ring.Unsent(tag) == 0 {
		w.ring.Send(int(c.fd), b, tag)
	} else {
		c.sending = true
		w.ring.SendNotify(int(c.fd), b, tag)
	}
	w.tally.Written += uint64(len(b))
}

// stamp marks the first n waiting requests as leaving with the next Wait, for which fill writes the
// time. It splits a flight that leaves in part; the queue has room, since it never holds more
// flights than requests.
func (w *worker) stamp(i uint32, c *conn, n int32) {
	again := min(n, c.resend)
	c.resend -= again
	w.tally.Resent += uint64(again)
	w.tally.Sent += uint64(n - again)
	w.sentNs = w.now
	w.inFlight += int64(n - again)
	if c.stamped == 0 {
		w.fresh = append(w.fresh, i)
	}
	if n < c.waiting {
		w.cut(i, c, n)
	}
	c.onWire += n
	c.stamped += n
	c.waiting -= n
}

// cut makes the first n waiting requests end with a flight.
func (w *worker) cut(i uint32, c *conn, n int32) {
	q := w.queue(i)
	at := c.head + c.entries // after the last; walk back over the waiting ones
	for left := c.waiting; left > 0; {
		at--
		left -= q[wrap(at, len(q))].n
	}
	for ; n > 0; at++ {
		f := &q[wrap(at, len(q))]
		if f.n > n {
			for k := c.head + c.entries; k > at+1; k-- {
				q[wrap(k, len(q))] = q[wrap(k-1, len(q))]
			}
			q[wrap(at+1, len(q))] = flight{due: f.due, n: f.n - n, again: f.again}
			c.entries++
			f.n = n
			return
		}
		n -= f.n
	}
}

// fill writes the time into the flights that leave with this Wait.
func (w *worker) fill(now int64) {
	if w.firstNs == 0 && len(w.fresh) > 0 {
		w.firstNs = now
	}
	for _, i := range w.fresh {
		if c := &w.conns[i]; c.stamped > 0 {
			w.leave(i, c, now)
		}
	}
	w.fresh = w.fresh[:0]
	w.countLag(0, 0)
}

// countLag counts n requests that left late by lagNs. Those of one batch mostly have the same lag,
// and one record of many is cheaper than many of one.
func (w *worker) countLag(lagNs int64, n uint64) {
	if lagNs == w.lagNs && n > 0 {
		w.lagN += n
		return
	}
	if w.lagN > 0 {
		w.tally.Lag.RecordN(w.lagNs, w.lagN)
	}
	w.lagNs, w.lagN = lagNs, n
}

// leave dates the requests of one connection that leave now. A request's lag counts once, when it
// first leaves.
func (w *worker) leave(i uint32, c *conn, now int64) {
	if c.speaks == HTTP2 {
		w.leaveH2(i, c, now)
		return
	}
	q := w.queue(i)
	at := c.head + c.entries
	for left := c.waiting; left > 0; {
		at--
		left -= q[wrap(at, len(q))].n
	}
	for c.stamped > 0 {
		at--
		f := &q[wrap(at, len(q))]
		f.sent = now
		c.stamped -= f.n
		if !f.again && f.due >= w.countFromNs {
			w.countLag(now-f.due, uint64(f.n))
		}
	}
}

// complete takes n responses, all of one status, off the wire.
func (w *worker) complete(i uint32, c *conn, n int32, status int) {
	t := w.tally
	t.Completed += uint64(n)
	t.Statuses[status] += uint64(n)
	if w.shared.Expect.Unexpected[status] {
		t.Bad += uint64(n)
	}
	if fault := c.reader.Tolerated(); fault != "" {
		t.Faults[Fault{PhaseFault, fault}] += uint64(n)
	}
	w.doneNs = w.now
	w.inFlight -= int64(n)
	c.served += uint32(n)
	c.since = w.now
	c.onWire -= n
	q := w.queue(i)
	for n > 0 {
		f := &q[c.head]
		k := min(n, f.n)
		if f.due >= w.countFromNs {
			t.Response.RecordN(w.now-f.due, uint64(k))
			t.Early.took(&t.Service, w.now-f.sent, c.arriving.first(w.now)-f.sent, uint64(k))
			c.arriving.ends(t, f.sent)
		}
		if t.ByTarget != nil {
			w.completeByTarget(i, c, k, status, f.due)
		}
		c.oldest = w.shared.script.step(c.oldest, int(k))
		n -= k
		if f.n -= k; f.n == 0 {
			w.popFlight(c, q)
		}
	}
}

func (w *worker) popFlight(c *conn, q []flight) {
	if c.head++; int(c.head) == len(q) {
		c.head = 0
	}
	c.entries--
}

func (w *worker) completeByTarget(i uint32, c *conn, n int32, status int, dueNs int64) {
	at := c.oldest
	for range n {
		b := &w.tally.ByTarget[w.feeder.targetAt(w.shared.script, i, at)]
		b.Completed++
		b.Statuses[status]++
		if dueNs >= w.countFromNs {
			b.Response.Record(w.now - dueNs)
		}
		at = w.shared.script.step(at, 1)
	}
}

// renew frees n slots: a closed loop has the next request due at once, an open one waits for its
// schedule.
func (w *worker) renew(i uint32, c *conn, n int32) {
	if w.openLoop {
		w.freeSlots(i, c, n)
		return
	}
	if w.phase < warming && n > 0 {
		if w.phase == probing {
			w.answeredAlone(i)
			return
		}
		w.answeredFirst(i)
	}
	if w.quota >= 0 && w.phase < measuring {
		w.quota += int64(n) // requests of the warm-up do not count towards the requested number
	}
	w.supply(i, c, n)
}

// freeSlots returns n slots of an open loop.
func (w *worker) freeSlots(i uint32, c *conn, n int32) {
	if c.state != open {
		c.parked += n
		return
	}
	for range n {
		w.slots.push(i)
	}
}

// supply puts requests into n free slots of a closed loop, as far as the quota allows.
func (w *worker) supply(i uint32, c *conn, n int32) {
	granted := n
	if w.quota >= 0 {
		granted = int32(min(int64(n), w.quota))
		w.quota -= int64(granted)
		c.parked += n - granted
	}
	if granted > 0 {
		w.enqueue(i, c, w.now, granted)
	}
}

// giveBack returns the waiting requests of a connection that cannot be opened to the quota, for the
// others to send.
func (w *worker) giveBack(c *conn) {
	w.quota += int64(c.waiting)
	c.parked += c.waiting
	c.waiting, c.entries, c.head = 0, 0, 0
	c.next = c.oldest
}

// fail ends every request that is or was on the wire with one cause; the first may have another. If
// there is none, the connection failed.
func (w *worker) fail(i uint32, c *conn, phase, first, others string) {
	if c.speaks == HTTP2 {
		w.failH2(i, c, phase, first, others)
		return
	}
	if c.stamped > 0 {
		w.leave(i, c, w.now)
	}
	n := c.onWire + c.resend
	if n == 0 {
		w.tally.Faults[Fault{PhaseIdle, first}]++
	}
	w.feeder.failed(w.shared.script, i, c.oldest, n)
	q := w.queue(i)
	for k := n; k > 0; {
		f := &q[c.head]
		m := min(k, f.n)
		sent := f.sent
		if sent == 0 { // waiting to be resent
			sent = f.due
		}
		if f.due >= w.countFromNs {
			w.tally.Response.RecordN(w.now-f.due, uint64(m))
			w.tally.Early.took(&w.tally.Service, w.now-sent, w.now-sent, uint64(m))
		}
		if w.tally.ByTarget != nil {
			w.failByTarget(i, c, m)
		}
		c.oldest = w.shared.script.step(c.oldest, int(m))
		k -= m
		if f.n -= m; f.n == 0 {
			w.popFlight(c, q)
		}
	}
	if n > 0 {
		w.doneNs = w.now
		w.tally.Faults[Fault{phase, first}]++
		if n > 1 {
			w.tally.Faults[Fault{phase, others}] += uint64(n - 1)
		}
	}
	w.tally.Failed += uint64(n)
	w.inFlight -= int64(n)
	c.waiting -= c.resend
	c.onWire, c.resend = 0, 0
	c.next = c.oldest
	w.hangUp(i, c)
	w.renew(i, c, n)
}

func (w *worker) failByTarget(i uint32, c *conn, n int32) {
	for k := range n {
		w.tally.ByTarget[w.feeder.targetAt(w.shared.script, i, w.shared.script.step(c.oldest, int(k)))].Failed++
	}
}

// hangUp closes the descriptor; the connection will be reopened.
func (w *worker) hangUp(i uint32, c *conn) {
	if c.state == open {
		if w.connected--; w.connected == 0 {
			w.downNs = w.now
		}
	}
	if c.state > closed && c.state < open {
		w.pending--
		w.firstAttemptEnded(c)
	}
	if w.streams != nil {
		w.endStream(i, c)
	}
	if w.feeder != nil {
		w.feeder.forget(i)
	}
	delete(w.tunnels.heads, i)
	w.seen.checks.forget(c.tag(i), c.speaks)
	if c.speaks == HTTP2 {
		w.hungUp(i, c)
	}
	if w.tls != nil {
		w.endTLS(i, c)
	}
	if c.fd >= 0 {
		w.ring.Close(int(c.fd), c.tag(i))
	}
	if c.served == 0 {
		c.failures = min(c.failures+1, 9)
	} else {
		c.failures = 0
	}
	c.fd, c.state, c.sending, c.sendErr, c.served = -1, closed, false, 0, 0
	c.reader.Reset()
	c.arriving = nil
	c.reads = asItComes
	c.generation++
	c.reopenAt = w.now
	if c.failures > 0 {
		c.reopenAt += backoffNs << (c.failures - 1)
	}
	w.reopen = append(w.reopen, i)
	w.dialNs = min(w.dialNs, c.reopenAt)
}

// backoffNs is the first wait before a connect is retried; it doubles up to 256 ms, so that a dead
// server is not flooded and a restarted one is found soon.
const (
	backoffNs    = 1e6
	maxBackoffNs = backoffNs << 8
)

// lost handles an orderly close by the peer. If the connection had served before, requests on the
// wire are resent on the next connection: a server that closes after n requests costs a reconnect.
// Otherwise they have failed.
func (w *worker) lost(i uint32, c *conn) {
	if c.served == 0 && c.onWire > 0 {
		w.fail(i, c, PhaseResponse, causeClosed, causeClosed)
		return
	}
	if c.served == 0 && !w.idle() {
		w.tally.Faults[Fault{PhaseConnect, causeUnused}]++
	}
	if c.stamped > 0 {
		w.leave(i, c, w.now)
	}
	q := w.queue(i)
	for k, left := c.head, c.onWire; left > 0; k++ {
		f := &q[wrap(k, len(q))]
		f.sent, f.again = 0, true
		left -= f.n
	}
	c.waiting += c.onWire
	c.resend += c.onWire
	c.onWire = 0
	c.next = c.oldest
	w.hangUp(i, c)
	if w.shared.NewConnections != 1 {
		w.tally.Reconnects++
	}
}

// CauseTimeout is the cause of what took longer than Config.Timeout.
const CauseTimeout = "timeout"

// Causes that the engine words itself; others are errno names and http1's framing errors.
const (
	causeClosed  = "connection closed before the response"
	causeUnused  = "connection closed before a request"
	causeBehind  = "behind a timed-out request"
	causeDropped = "behind a failed request"
	causeExtra   = "unsolicited bytes"
	causeEndless = "event stream longer than the timeout: raise --timeout"
	causeItself  = "connected to itself: nothing is listening"
)
