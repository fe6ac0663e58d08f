//go:build linux

package events

import (
	"cmp"
	"slices"

	"ceiling/internal/hist"
)

// Place is where a request currently is.
type Place uint8

const (
	ToServer  Place = iota // written by the generator, not yet fully in the server's socket
	AtServer               // unread in the server's socket
	InServer               // read, and the answer not yet written
	ToClient               // answer written, not yet fully in the generator's socket
	AtClient               // answer unread in the generator's socket
	Generator              // answer read, and the next request not yet written
	Places
)

const (
	unknown Place = Places + iota // undetermined
	between                       // the answer so far is read: more of it may come, or the next request
)

// Times has how long the requests of the followed connections were in each place, in one burst.
type Times struct {
	Connections int   // whose requests are accounted for
	Dropped     int   // contradicted by their own events: left out of this burst
	Unpaired    int   // only one end was seen: not of this run, or silent
	Requests    int64 // begun; with several in flight per connection, the writes that send them
	Whole       int64 // requests seen from beginning to end, ended in this burst: those in Hist
	KnownNs     int64 // sum over the connections of the time accounted for
	// Ns is, for connections with one request at a time, the total time of all requests in each
	// place. Requests that began before the burst or end after it count with the part inside.
	Ns [Places]int64
	// ByteNs is, for connections with several requests in flight, the sum of bytes times
	// nanoseconds: bytes of requests in ToServer and AtServer, of answers in ToClient, AtClient and
	// Generator. What is in the server has no bytes; it is the rest of those in flight.
	ByteNs [Places]float64
	// Hist counts each whole request's time in each place. It lacks requests longer than the burst.
	Hist [Places]hist.Hist
}

// Reset clears it for another burst.
func (t *Times) Reset() {
	t.Connections, t.Dropped, t.Unpaired, t.Requests, t.Whole, t.KnownNs = 0, 0, 0, 0, 0, 0
	t.Ns, t.ByteNs = [Places]int64{}, [Places]float64{}
	for i := range t.Hist {
		t.Hist[i].Reset()
	}
}

// A Follower follows connections by their events, burst by burst. It is a pure function of its
// input: it reads no clock.
//
// It sees nothing between two bursts. If a connection's sequence numbers at its next event equal
// those at its last, it has not moved in between, so its request stayed in the same place: that
// time is then booked. If it has moved, the first event of a burst shows where its request was
// before.
type Follower struct {
	pipelined   bool
	fromNs      int64 // of the burst
	sinceNs     int64 // no event has been missed since
	connections map[name]*connection
	follows     func(port uint16) bool
}

// A name identifies a connection to the target at both ends.
type name struct {
	address uint32
	port    uint16
}

// NewFollower follows connections with one request at a time, or pipelined ones with several in
// flight.
func NewFollower(pipelined bool) *Follower {
	return &Follower{pipelined: pipelined, connections: map[name]*connection{}}
}

// Begin begins a burst. gap says that events before it may have been missed, follows which
// connections' events are seen.
func (f *Follower) Begin(fromNs int64, gap bool, follows func(port uint16) bool) {
	f.fromNs, f.follows = fromNs, follows
	if gap {
		f.sinceNs = fromNs
	}
	for id, c := range f.connections {
		half := !c.ends[Client].known() || !c.ends[Server].known()
		switch {
		case c.stale, gap && (c.lost || half && !c.active):
			delete(f.connections, id)
		case gap:
			c.begin(fromNs)
		}
		c.stale = c.ended // late events of the server's end may follow
	}
}

// End ends the burst with its events, in any order, and adds up its times. It leaves out events
// after toNs, and returns how many it used.
func (f *Follower) End(toNs int64, events []Event, t *Times) (taken int) {
	slices.SortStableFunc(events, func(a, b Event) int { return cmp.Compare(a.Ns, b.Ns) })
	for i := range events {
		if events[i].Ns > toNs {
			break
		}
		taken++
		if events[i].Ns >= f.sinceNs {
			f.follow(&events[i], t)
		}
	}
	for id, c := range f.connections {
		if f.follows(id.port) {
			c.end(toNs, f.pipelined)
			c.book(t)
		}
	}
	return taken
}

// follow finds the connection of an event.
func (f *Follower) follow(e *Event, t *Times) {
	id := name{e.Address, e.Port}
	c := f.connections[id]
	switch {
	case c == nil:
		c = &connection{}
		c.begin(f.sinceNs)
		f.connections[id] = c
	case c.lost || c.ended && c.afterEnd(e):
		return
	case c.ended, c.ends[e.End].id != e.Socket && c.ends[e.End].id != 0:
		// Another connection of the same name. Without a gap its predecessor's end would have been
		// seen: so it is two at once, in two network namespaces.
		again := &connection{lost: !c.ended && c.active}
		again.begin(e.Ns)
		if !c.ended && c.active {
			t.Dropped++
		} else {
			c.book(t)
		}
		c = again
		f.connections[id] = c
	}
	if c.lost {
		return
	}
	if !c.follow(e, f.pipelined) {
		t.Dropped++
		*c = connection{lost: !c.one}
		c.begin(e.Ns)
		if !c.lost {
			c.follow(e, f.pipelined)
		}
	}
}

// socket is the state of one end after its last event.
type socket struct {
	id      uint64
	synced  bool // in this burst
	written uint32
	arrived uint32
	taken   uint32
	sending bool // its last event was Sending
}

func (s *socket) known() bool { return s.id != 0 }

// connection is one followed connection.
type connection struct {
	ends    [2]socket
	place   Place
	sinceNs int64 // its time is booked up to here
	active  bool  // had events in this burst
	// waits is time whose place is not yet known; tail is the part of it that belongs to a burst
	// with events.
	waits, tail int64
	fin         uint32 // 1 once the server has closed: what the FIN adds to the client's numbers
	ended       bool
	stale       bool // had ended before this burst
	one         bool // both ends were seen, and belong to one connection
	lost        bool // two of the same name: ambiguous

	// The times of this burst.
	requests, knownNs int64
	ns                [Places]int64
	byteNs            [Places]float64
	whole             [][Places]int64

	request    [Places]int64 // of the current request
	complete   bool          // seen from its beginning on
	answeredAt uint32        // the client's Taken when it last wrote
}

// begin begins a burst, before which events may have been missed.
func (c *connection) begin(fromNs int64) {
	if c.place == 0 && !c.known() {
		c.place = unknown
	}
	c.sinceNs, c.active = fromNs, false
	c.ends[Client].synced, c.ends[Server].synced = false, false
}

func (c *connection) known() bool { return c.ends[Client].known() || c.ends[Server].known() }

// end books the rest of the burst.
func (c *connection) end(toNs int64, pipelined bool) {
	switch {
	case c.ended || c.lost:
	case pipelined:
		if c.active {
			c.passBytes(toNs)
		}
	case c.active && c.place != between:
		c.pass(toNs)
	case c.place != unknown:
		ns := max(toNs-c.sinceNs, 0)
		c.waits += ns
		if c.active {
			c.tail = c.waits
		}
		c.sinceNs += ns
	}
}

// book adds the connection's times to the sum, and clears them. If only one end is known it stays
// open: it may be another client's.
func (c *connection) book(t *Times) {
	if c.lost || c.knownNs == 0 && c.requests == 0 {
		return
	}
	if !c.ends[Client].known() || !c.ends[Server].known() {
		t.Unpaired++
		return
	}
	t.Connections++
	t.Requests += c.requests
	t.Whole += int64(len(c.whole))
	t.KnownNs += c.knownNs
	for p := range Places {
		t.Ns[p] += c.ns[p]
		t.ByteNs[p] += c.byteNs[p]
	}
	for i := range c.whole {
		for p, ns := range c.whole[i] {
			t.Hist[p].Record(ns)
		}
	}
	c.requests, c.knownNs, c.ns, c.byteNs, c.whole = 0, 0, [Places]int64{}, [Places]float64{}, c.whole[:0]
}

// follow handles one event. It returns false if that contradicts the previous ones.
func (c *connection) follow(e *Event, pipelined bool) bool {
	s := &c.ends[e.End]
	e = c.withoutFin(e)
	agrees := s.known() && s.agrees(e)
	switch {
	case s.synced && !agrees:
		return false
	case !c.active && !agrees && s.known():
		c.forget()
	}
	if pipelined {
		c.passBytes(e.Ns)
	} else {
		c.resolve(e)
		c.pass(e.Ns)
	}
	begins := e.End == Client && e.Kind == Sending && (c.place == Generator || c.place == unknown)
	if e.End == Client && (e.Kind == Sending || !s.synced) {
		c.answeredAt = e.Taken
	}
	s.take(e)
	c.active = true
	if !c.paired() {
		return false
	}
	c.one = c.one || c.ends[Client].synced && c.ends[Server].synced
	switch {
	case pipelined && e.End == Client && e.Kind == Sending:
		c.requests++
	case !pipelined && begins:
		c.beginRequest()
	}
	if e.Kind != Closing {
		c.place = c.where()
	}
	c.close(e)
	return true
}

// forget drops all that was known before this burst, because the connection has moved since. What
// it had read by then was most likely a whole answer.
func (c *connection) forget() {
	if c.place == between {
		c.place = Generator
		c.spend(c.tail)
	}
	c.place, c.waits, c.tail, c.complete = unknown, 0, 0, false
	for i := range c.ends {
		c.ends[i].synced, c.ends[i].sending = false, false
	}
}

// agrees reports whether an event follows from the previous one: nothing has moved but what the
// event is about. A write that takes over less than announced stays behind its announcement.
func (s *socket) agrees(e *Event) bool {
	if behind(s.written, e.Written) {
		return false
	}
	switch e.Kind {
	case Arrived:
		return e.Taken == s.taken && !behind(e.Arrived, s.arrived)
	case Taken:
		return e.Arrived == s.arrived && !behind(e.Taken, s.taken) && !behind(e.Arrived, e.Taken)
	case Sending:
		return e.Arrived == s.arrived && e.Taken == s.taken
	}
	return true // Closing
}

// behind reports whether sequence number a comes before b.
func behind(a, b uint32) bool { return int32(a-b) < 0 }

// take updates an end with an event's sequence numbers.
func (s *socket) take(e *Event) {
	first := !s.synced
	s.id, s.synced = e.Socket, true
	if e.Kind == Closing && !first {
		return
	}
	if e.Kind == Sending || first || !behind(e.Written, s.written) {
		s.written = e.Written + e.Left
	}
	s.arrived, s.taken, s.sending = e.Arrived, e.Taken, e.Kind == Sending
}

// withoutFin removes the server's FIN from the client's numbers, if they count one.
func (c *connection) withoutFin(e *Event) *Event {
	if e.End == Client && e.PeerClosed && c.fin == 0 {
		c.fin = 1
	}
	if e.End == Server || c.fin == 0 {
		return e
	}
	without := *e
	without.Arrived -= c.fin
	if behind(without.Arrived, without.Taken) {
		without.Taken = without.Arrived
	}
	return &without
}

// paired reports whether the two ends belong to one connection: what one has received is what the
// other has written, minus what is in transit. Two connections in two network namespaces may have
// the same ports.
func (c *connection) paired() bool {
	client, server := &c.ends[Client], &c.ends[Server]
	if !client.synced || !server.synced {
		return true
	}
	const window = 1 << 30 // TCP's largest (RFC 7323, 2.3)
	return client.written-server.arrived <= window && server.written-client.arrived <= window
}

// resolve decides where the request was before an event, if that is still unknown, and books the
// bursts in which nothing happened.
func (c *connection) resolve(e *Event) {
	switch c.place {
	case unknown:
		c.place = before(e)
	case between:
		switch {
		case e.Kind == Closing: // there was no next request to wait for
			c.waits, c.sinceNs = 0, e.Ns
		case e.End == Client:
			c.place = Generator
		default:
			c.place = InServer // more of the answer follows
		}
	}
	if c.place < Places {
		c.spend(c.waits)
	}
	c.waits, c.tail = 0, 0
}

// before returns where a connection's request was before its first event.
func before(e *Event) Place {
	switch {
	case e.Kind == Closing, e.End == Client && e.Kind == Sending && e.Fresh:
		return unknown // it had none
	case e.End == Client && e.Kind == Sending:
		return Generator
	case e.End == Client && e.Kind == Arrived:
		return ToClient
	case e.End == Client:
		return AtClient
	case e.Kind == Arrived:
		return ToServer
	case e.Kind == Taken:
		return AtServer
	}
	return InServer
}

// pass books the time up to toNs.
func (c *connection) pass(toNs int64) {
	ns := max(toNs-c.sinceNs, 0) // two CPUs' clocks may differ by nanoseconds
	if c.place < Places {
		c.spend(ns)
	}
	c.sinceNs += ns
}

// spend books time in the current place.
func (c *connection) spend(ns int64) {
	c.ns[c.place] += ns
	c.request[c.place] += ns
	c.knownNs += ns
}

// passBytes books the bytes in each place for a connection with several requests in flight, once
// both of its ends are known.
func (c *connection) passBytes(toNs int64) {
	ns := max(toNs-c.sinceNs, 0)
	c.sinceNs += ns
	client, server := &c.ends[Client], &c.ends[Server]
	if !client.synced || !server.synced || c.fin != 0 {
		return
	}
	c.knownNs += ns
	for p, bytes := range [Places]uint32{
		ToServer: client.written - server.arrived, AtServer: server.arrived - server.taken,
		ToClient: server.written - client.arrived, AtClient: client.arrived - client.taken,
		Generator: client.taken - c.answeredAt,
	} {
		c.byteNs[p] += float64(bytes) * float64(ns)
	}
}

// where returns the place of the only request: the furthest that any part of it has reached.
func (c *connection) where() Place {
	client, server := &c.ends[Client], &c.ends[Server]
	both := client.synced && server.synced
	switch {
	case client.synced && client.arrived != client.taken:
		return AtClient
	case both && server.written != client.arrived, !client.synced && server.sending:
		return ToClient
	case server.synced && server.arrived != server.taken:
		return AtServer
	case both && client.written != server.arrived, !server.synced && client.sending:
		return ToServer
	case c.place == AtClient || c.place == Generator:
		return between
	}
	return InServer
}

// beginRequest ends the previous request and begins the next.
func (c *connection) beginRequest() {
	c.endRequest()
	c.requests++
	c.request, c.complete = [Places]int64{}, true
}

func (c *connection) endRequest() {
	if c.complete {
		c.whole = append(c.whole, c.request)
	}
	c.complete = false
}

// close ends a connection when its client has closed it, or has read the last answer of a server
// that has.
func (c *connection) close(e *Event) {
	idle := c.place == between || c.place == Generator
	if e.Kind == Closing && !e.PeerClosed || c.fin != 0 && (idle || c.place == InServer || c.place == unknown) {
		c.ended = true
		if idle {
			c.endRequest()
		}
	}
}

// afterEnd reports whether an event belongs to a connection that has ended: the FIN reaches the
// server, and counts as one byte.
func (c *connection) afterEnd(e *Event) bool {
	if s := &c.ends[e.End]; s.known() {
		return s.id == e.Socket
	}
	return e.End == Server && e.Arrived-c.ends[Client].written <= 1
}
