package proxy

import (
	"time"

	"ceiling/internal/sys"
)

// At the limit of connections, or without descriptors, a loop closes idle clients, the longest
// idle first: a new client has a request, and they have none.

const (
	// LeastIdle is how long a client must have been idle to be closed for another one. A client
	// that sends requests continuously is idle for less, and closing it would only make it
	// reconnect.
	LeastIdle = 10 * time.Millisecond
	// spareClients is by how many clients (or a sixteenth, if that is more) a loop lowers its
	// limit when out of descriptors: requests need some as well.
	spareClients = 8
	// crowdedTurn is how long a turn lasts while new clients or requests wait for room.
	crowdedTurn = 5 * time.Millisecond
	// crowdedAgain is how often the report mentions that clients are closed.
	crowdedAgain = time.Minute
)

// idleList are clients that wait for a request, or for the client to close the connection, the
// longest idle first. Entering and leaving cost each request a few stores.
type idleList struct{ first, last *client }

// waits marks the client as idle from now on.
func (c *client) waits() {
	if c.listed {
		return
	}
	q := &c.conn.loop.admission.idle
	c.listed, c.since = true, c.conn.loop.now
	c.before, c.behind = q.last, nil
	if q.last != nil {
		q.last.behind = c
	} else {
		q.first = c
	}
	q.last = c
}

// unlist marks it as no longer idle.
func (c *client) unlist() {
	if !c.listed {
		return
	}
	q := &c.conn.loop.admission.idle
	if c.before != nil {
		c.before.behind = c.behind
	} else {
		q.first = c.behind
	}
	if c.behind != nil {
		c.behind.before = c.before
	} else {
		q.last = c.before
	}
	c.listed, c.before, c.behind = false, nil, nil
}

// ripe reports whether the longest idle client may be closed.
func (q *idleList) ripe(now int64) bool {
	return q.first != nil && now-q.first.since >= int64(LeastIdle)
}

// evict closes the longest idle client; false if there is none. It spares clients whose next
// request is in their socket. It runs between two turns, after the current input was handled.
func (l *loop) evict() bool {
	for l.admission.idle.ripe(l.now) {
		c := l.admission.idle.first
		c.unlist()
		if c.conn.blocked || c.conn.out != nil || len(c.conn.pending) > 0 || c.speaks() {
			continue
		}
		l.counts.idleEvicted++
		if c.conn.tls != nil {
			l.admission.secured.evicted++
		}
		c.end()
		return true
	}
	return false
}

// speaks reports whether the client's socket has unread bytes: the beginning of a request.
func (c *client) speaks() bool {
	return c.state != atLinger && sys.HasUnread(int(c.conn.fd))
}

// relieve closes idle clients if there are too many, or if descriptors are needed, and accepts
// new ones again if there is, or will be, room.
func (l *loop) relieve() {
	before := l.counts.idleEvicted
	why := "the limit of connections is reached"
	if l.admission.evictions > 0 {
		why = "out of file descriptors"
		for ; l.admission.evictions > 0 && l.evict(); l.admission.evictions-- {
		}
	}
	for len(l.clients) > l.admission.room && l.evict() {
	}
	l.admission.evictions = 0
	if l.counts.idleEvicted > before {
		l.hurry = true // so that they are closed at once
		l.proxy.atLimit(why)
	}
	if l.admission.full && (len(l.clients) < l.admission.room-l.admission.room/8 || l.admission.idle.ripe(l.now)) {
		l.admission.full = false
		for _, ln := range l.listeners {
			ln.again()
		}
	}
}

// starve makes room if the process, or the machine, is out of descriptors, and lowers the client
// limit for a while. It reports whether there may be some soon.
func (l *loop) starve() bool {
	less := max(spareClients, len(l.clients)/16)
	l.admission.room = min(l.admission.room, max(len(l.clients)-less, 1))
	l.admission.evictions = less
	if l.admission.idle.ripe(l.now) {
		return true
	}
	for i, o := range l.proxy.loops {
		if o == l {
			continue
		}
		select {
		case o.calls <- func(o *loop) { o.admission.evictions++ }:
			l.proxy.wakeUp(i)
		default: // it is busy, and a loop must not block
		}
	}
	return len(l.proxy.loops) > 1
}

// regrow raises the client limit again, by a sixty-fourth each second.
func (l *loop) regrow() {
	if most := l.proxy.maxClients; l.admission.room < most {
		l.admission.room = min(l.admission.room+l.admission.room/64+1, most)
	}
}

// feed opens the connections to destinations that lacked a descriptor.
func (l *loop) feed() {
	list := l.admission.starved
	l.admission.starved = nil
	for _, p := range list {
		if limit := int(p.upstream.limit.Load()); limit == 0 || p.open < limit {
			p.admit()
		}
	}
}

// atLimit reports why idle clients are closed, at most once per crowdedAgain.
func (p *Proxy) atLimit(why string) {
	now := int64(time.Since(p.began)) + 1
	if last := p.reported.Load(); (last == 0 || now-last > int64(crowdedAgain)) && p.reported.CompareAndSwap(last, now) {
		p.fail(why + ": idle clients are closed, the longest idle first")
	}
}
