package verdict

import (
	"cmp"
	"fmt"
	"math"
	"slices"

	"ceiling/internal/unit"
	"ceiling/record"
)

// The connections that the server keeps to others. A pool is seen from outside
// as the same number of connections to one address in every sample, fewer than
// there are requests, and in use on all of them.

// peerFacts are the addresses the server is connected to over the window.
type peerFacts struct {
	samples int
	cut     bool      // not all of its open files could be looked through
	list    []peerUse // most sockets first
}

// peerUse is one of them.
type peerUse struct {
	addr      string
	low, high int     // sockets in the samples
	sockets   float64 // on average
	// used is the mean number of sockets on which the server waits for an
	// answer, or has not read it, or on which the other end has not taken what
	// was sent; a lower bound where times are not known (unix).
	used       float64
	quiet      float64
	connecting float64
	timed      bool // what was sent last is known
	seen       int  // samples
	pid        int  // of the process at the other end, where that is on this host; 0: not known
}

// peersOf gathers the rows of the server's host.
func peersOf(f *facts, series *record.Series) peerFacts {
	var p peerFacts
	uses := map[string]*peerUse{}
	for _, row := range observed(f, series.Observed.Peers) {
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

// steady tells whether there were as many in every sample.
func (u *peerUse) steady() bool { return u.low == u.high && u.high > 0 }

// pool tells whether the connections look like a pool that n requests share.
// Of a unix socket it is not known whether they are in use, and one of them is
// as likely a log's.
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

// poolBefore is the pool that requests wait for: all of its connections are in use,
// and there are more requests; nil where there is none. Where each request takes
// its time, many share a connection (HTTP/2, pipelining).
func (f *facts) poolBefore() *peerUse {
	mean := positive(f.run.Latency.Response.MeanNs)
	if f.waiting() == alone {
		return nil
	}
	for i := range f.peers.list {
		if u := &f.peers.list[i]; u.timed && f.peers.pool(u, f.underWay(), mean) {
			return u
		}
	}
	return nil
}

// waitsFor is the other server whose answers most of the requests under way
// wait for; nil where there is none, or its sockets do not tell.
func (f *facts) waitsFor() *peerUse {
	n := f.underWay()
	if f.peers.samples < awaitedFewest || f.peers.cut || n <= 0 {
		return nil
	}
	for i := range f.peers.list {
		if u := &f.peers.list[i]; u.timed && u.used >= mostOf*n {
			return u
		}
	}
	return nil
}

// peerClue says what the connections to others tell: a pool that is smaller
// than what asks for it, another server that is waited for, one that does not
// take connections.
func (f *facts) peerClue(upcoming *record.NextBottleneck) clue {
	var c clue
	p, n := &f.peers, f.underWay()
	if p.samples == 0 {
		return c
	}
	if len(p.list) == 0 && !p.cut {
		c.says = append(c.says, record.NewEvidence("series.peers", 0, "sockets", "it keeps no connections to others"))
	}
	mean := positive(f.run.Latency.Response.MeanNs)
	for i := range p.list {
		u := &p.list[i]
		next := ""
		switch {
		case c.next != "":
		case f.waiting() != alone && p.pool(u, n, mean):
			next = f.poolStep(u, n, upcoming)
			c.caveats = append(c.caveats, fmt.Sprintf("that the connections to %s are a pool and that requests wait for them is inferred from their constant number; many requests may share one (HTTP/2, pipelining)", u.addr))
		case u.timed && u.used >= mostOf*n:
			next = fmt.Sprintf("measure %s by itself: %.0f of %.0f requests wait for its answers", f.called(u), math.Min(u.used, n), n)
			if b := f.behindAt(u.addr); b != nil && b.known && b.limit(f) == nil {
				next += fmt.Sprintf(", and it takes its time: %s", b.spare())
			}
		case u.connecting >= 1 && u.connecting >= u.sockets:
			next = fmt.Sprintf("see why %s does not take connections: %.3g are under way on average", u.addr, u.connecting)
		}
		if i < peersSaid || next != "" {
			says := p.says(u)
			if next != "" {
				c.next = next
				c.says = slices.Insert(c.says, 0, says) // what the step stands on
			} else {
				c.says = append(c.says, says)
			}
		}
	}
	return c
}

// poolStep is what to do about a pool. Twice its size halves the wait for it;
// it cannot be used by more requests than there are.
func (f *facts) poolStep(u *peerUse, n float64, upcoming *record.NextBottleneck) string {
	size := float64(u.high)
	may := "keeps"
	if !u.timed {
		may = "may keep"
	}
	gains := gain(math.Min(2, n/size), upcoming)
	if f.open {
		gains = "up to twice the rate before they queue"
	}
	if u.high == 1 {
		return fmt.Sprintf("measure %s by itself: one connection to it carries all of %.0f requests, in turns or many at once (multiplexing, or a driver that blocks its event loop); more connections help only where they take turns",
			f.called(u), n)
	}
	can := "if " + u.addr + " can take it"
	if b := f.behindAt(u.addr); b != nil && b.known && b.limit(f) == nil {
		can = "and it can take them: " + b.spare()
	}
	return fmt.Sprintf("allow more connections to %s: the server %s a pool of %d, and of %.0f requests %.0f wait for one; twice as many give %s, %s",
		f.called(u), may, u.high, n, n-size, gains, can)
}

// says is one address as a fact.
func (p *peerFacts) says(u *peerUse) record.Evidence {
	number := fmt.Sprintf("%d to %d connections", u.low, u.high)
	if u.steady() {
		number = unit.Plural(u.high, "connection", "connections")
	}
	if p.cut {
		number = "at least " + number
	}
	text := fmt.Sprintf("it keeps %s to %s", number, u.addr)
	if u.steady() && p.samples >= peersFewest {
		text += fmt.Sprintf(", the same in all of %d samples", p.samples)
	}
	if u.timed {
		text += fmt.Sprintf(", and waits for an answer on %.3g of them", u.used)
	}
	if u.quiet >= 0.05 {
		text += fmt.Sprintf("; %.3g were not used for a second", u.quiet)
	}
	if u.connecting > 0 {
		text += fmt.Sprintf("; %.3g more are being opened", u.connecting)
	}
	return record.NewEvidence("series.peers", u.sockets, "sockets", "%s", text)
}
