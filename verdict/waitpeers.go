package verdict

import (
	"cmp"
	"math"
	"slices"

	"ceiling/record"
)

// The server's outgoing connections. From outside, a pool is the same number of connections to
// one address in every sample, fewer than there are requests, all of them in use.

// peerFacts lists the addresses the server is connected to over the window.
type peerFacts struct {
	samples int
	cut     bool      // not all of its open files could be inspected
	list    []peerUse // most sockets first
}

// none reports whether the server was seen to have no connections to others.
func (p *peerFacts) none() bool { return p.samples > 0 && len(p.list) == 0 && !p.cut }

// peerUse is one of them.
type peerUse struct {
	addr      string
	low, high int     // sockets in the samples
	sockets   float64 // on average
	// used is the mean number of sockets on which the server waits for a response or has not read
	// it, or on which the peer has not read what was sent; a lower bound if times are unknown
	// (unix sockets).
	used       float64
	quiet      float64
	connecting float64
	timed      bool // the time of the last send is known
	seen       int  // samples
	pid        int  // of the process at the other end, if on this host; 0 if unknown
}

// peersOf collects the rows of the server's host.
func peersOf(f *serverSide, series *record.Series) peerFacts {
	var p peerFacts
	uses := map[string]*peerUse{}
	for _, row := range observed(f.base, series.Observed.Peers) {
		if !f.subject.known || row.Host != f.subject.host {
			continue
		}
		p.samples++
		p.cut = p.cut || row.Cut
		for i := range row.Peers {
			one := &row.Peers[i]
			u := uses[one.Addr]
			if u == nil {
				u = &peerUse{addr: one.Addr, low: one.Sockets, timed: true}
				uses[one.Addr] = u
			}
			u.add(one)
		}
	}
	for _, u := range uses {
		if u.seen < p.samples {
			u.low = 0
		}
		for _, sum := range []*float64{&u.sockets, &u.used, &u.quiet, &u.connecting} {
			*sum /= float64(p.samples)
		}
		p.list = append(p.list, *u)
	}
	slices.SortFunc(p.list, func(a, b peerUse) int {
		return cmp.Or(cmp.Compare(b.sockets, a.sockets), cmp.Compare(a.addr, b.addr))
	})
	return p
}

func (u *peerUse) add(one *record.Peer) {
	count := func(n int) float64 { return math.Min(math.Max(float64(n), 0), math.Max(float64(one.Sockets), 0)) }
	u.seen++
	if one.PID != 0 {
		u.pid = one.PID
	}
	u.low, u.high = min(u.low, one.Sockets), max(u.high, one.Sockets)
	u.sockets += count(one.Sockets)
	u.used += max(count(one.Awaiting), count(one.Unread), count(one.Unacked))
	u.quiet += count(one.Quiet)
	u.connecting += math.Max(float64(one.Connecting), 0)
	u.timed = u.timed && one.Awaiting >= 0
}

// steady reports whether every sample had the same number.
func (u *peerUse) steady() bool { return u.low == u.high && u.high > 0 }

// pool reports whether the connections look like a pool that n requests share. A unix socket does
// not show whether it is in use, and a single one is as likely a log's.
func (p *peerFacts) pool(u *peerUse, n, responseNs float64) bool {
	if p.samples < peersFewest || p.cut || !u.steady() || u.sockets > poolFewer*n || u.connecting > 0 {
		return false
	}
	if !u.timed {
		return u.high > 1
	}
	if responseNs < 1e9 && u.quiet > (1-poolBusy)*u.sockets {
		return false
	}
	return u.used >= poolBusy*u.sockets
}

// poolBefore returns the pool that requests wait for: all of its connections are in use and there
// are more requests; nil if there is none. If requests do not queue, many share a connection
// (HTTP/2, pipelining).
func (f *facts) poolBefore() *peerUse {
	mean := positive(f.base.run.Latency.Response.MeanNs)
	if f.waiting() == alone {
		return nil
	}
	for i := range f.cpu.server.peers.list {
		if u := &f.cpu.server.peers.list[i]; u.timed && f.cpu.server.peers.pool(u, f.underWay(), mean) {
			return u
		}
	}
	return nil
}

// waitsFor returns the other server that most requests in flight wait for; nil if there is none
// or its sockets do not show it.
func (f *facts) waitsFor() *peerUse {
	n := f.underWay()
	if f.cpu.server.peers.samples < awaitedFewest || f.cpu.server.peers.cut || n <= 0 {
		return nil
	}
	for i := range f.cpu.server.peers.list {
		if u := &f.cpu.server.peers.list[i]; u.timed && u.used >= mostOf*n {
			return u
		}
	}
	return nil
}

// peerClue says what the outgoing connections show: a pool smaller than its demand, another
// server that is slow to answer, one that does not accept connections.
func (f *facts) peerClue(upcoming *record.NextBottleneck) hint {
	var c hint
	p, n := &f.cpu.server.peers, f.underWay()
	if p.samples == 0 {
		return c
	}
	if p.none() {
		c.says = append(c.says, record.NewEvidence("series.peers", 0, "sockets", say("peers.none", nil)))
	}
	mean := positive(f.base.run.Latency.Response.MeanNs)
	for i := range p.list {
		u := &p.list[i]
		var next []record.Statement
		switch {
		case c.next != nil:
		case f.waiting() != alone && p.pool(u, n, mean):
			next = []record.Statement{f.cpu.server.poolStep(u, n, upcoming)}
			c.caveats = append(c.caveats, say("pool.inferred", with{"to": u.addr}))
		case u.timed && u.used >= mostOf*n:
			next = just("peer.next", with{"to": f.cpu.server.called(u), "waiting": math.Min(u.used, n), "requests": n, "spare": f.cpu.server.spareAt(u)})
		case u.connecting >= 1 && u.connecting >= u.sockets:
			next = just("peer.connecting.next", with{"to": u.addr, "connections": u.connecting})
		}
		if i < peersSaid || next != nil {
			says := p.says(u)
			if next != nil {
				c.next = next
				c.says = slices.Insert(c.says, 0, says) // what the step is based on
			} else {
				c.says = append(c.says, says)
			}
		}
	}
	return c
}

// poolStep says what to do about a pool. Doubling it halves the wait for it; no more requests can
// use it than there are.
func (f *serverSide) poolStep(u *peerUse, n float64, upcoming *record.NextBottleneck) record.Statement {
	if u.high == 1 {
		return say("pool.next.one", with{"to": f.called(u), "requests": n})
	}
	size := float64(u.high)
	gains := gain(math.Min(2, n/size), upcoming)
	if f.base.open {
		gains = say("gain.twice", nil)
	}
	return say("pool.next", with{"to": f.called(u), "address": u.addr, "sure": u.timed, "connections": u.high, "requests": n,
		"waiting": n - size, "gain": gains, "spare": f.spareAt(u)})
}

// spareAt describes the CPU that the server at an address has left, if it is known to have some.
func (f *serverSide) spareAt(u *peerUse) record.Statement {
	if b := f.behindAt(u.addr); b != nil && b.known && b.limit(f) == nil {
		return b.spare()
	}
	return record.Statement{}
}

// says describes one address as evidence.
func (p *peerFacts) says(u *peerUse) record.Evidence {
	of := with{"to": u.addr, "low": u.low, "high": u.high, "at_least": p.cut, "samples": 0, "timed": u.timed, "awaited": u.used, "quiet": u.quiet,
		"connecting": u.connecting}
	if u.steady() && p.samples >= peersFewest {
		of["samples"] = p.samples
	}
	return record.NewEvidence("series.peers", u.sockets, "sockets", say("peers.kept", of))
}
