//go:build linux

package observe

import (
	"net/netip"

	"ceiling/internal/sys"
	"ceiling/record"
)

// Where the bytes of the run's own connections queue: the socket queues at both ends, from
// inet_diag. All are listed when the run begins and occasionally after; in between, some are looked
// up (lookup.go, socketlookup.go).

// An end is the side of a connection that a socket is on.
type end uint8

const (
	endNone   end = iota
	endClient     // its remote end is the target
	endServer     // its local port is the target's
)

// connections lists the sockets that belong to the target.
type connections struct {
	*socketLister
	target netip.AddrPort
	only   end // endNone: both
}

// connectionListing has the sockets with the target's port at either end: a dual-stack server's are IPv6,
// its clients' IPv4.
func connectionListing(target netip.AddrPort) listing {
	return listing{states: connectionStates, filter: appendPortFilter(nil, target.Port())}
}

// newConnections opens a list in the calling thread's network namespace.
func newConnections(target netip.AddrPort) (*connections, error) {
	l, err := newSocketLister(connectionListing(target))
	return &connections{socketLister: l, target: target}, err
}

// each visits the target's sockets.
func (c *connections) each(visit func(end, *inetSocket)) error {
	return c.socketLister.each(func(s *inetSocket) {
		if e := endOf(s, c.target); e != endNone && (c.only == endNone || c.only == e) {
			visit(e, s)
		}
	})
}

// endOf returns which end of the run's connections a socket is. A server's socket may have any
// local address, since the target's may be translated on the way; but not if the target is this
// host's loopback.
func endOf(s *inetSocket, target netip.AddrPort) end {
	loopback := target.Addr().IsLoopback() || target.Addr().IsUnspecified()
	switch {
	case s.dport == target.Port() && (s.dst == target.Addr() || target.Addr().IsUnspecified() && s.dst.IsLoopback()):
		return endClient
	case s.sport == target.Port() && (!loopback || s.src.IsLoopback()):
		return endServer
	}
	return endNone
}

// addQueues adds one socket to its end's sums.
func addQueues(q *record.EndQueues, s *inetSocket) {
	if s.state == tcpSynSent || s.state == tcpSynRecv {
		q.Connecting++
		return
	}
	if s.state == tcpCloseWait {
		q.PeerClosed++
	}
	if s.inode == 0 {
		q.Unaccepted++
	}
	addBytes(q, s.unreadBytes(), s.wqueue)
}

// addBytes counts a socket with its two queues.
func addBytes(q *record.EndQueues, unread, unacked uint32) {
	q.Sockets++
	if n := int64(unread); n > 0 {
		q.Unread++
		q.UnreadBytes += float64(n)
		q.UnreadMaxBytes = max(q.UnreadMaxBytes, n)
	}
	if n := int64(unacked); n > 0 {
		q.Unacked++
		q.UnackedBytes += float64(n)
		q.UnackedMaxBytes = max(q.UnackedMaxBytes, n)
	}
}

// ends lists both ends of the run's connections: in one network namespace, or each in its own.
type ends struct {
	lists []*connections
}

// open adds the calling thread's namespace, and which end of the connections to look for in it;
// endNone: both.
func (e *ends) open(target netip.AddrPort, only end) error {
	c, err := newConnections(target)
	if err != nil {
		return err
	}
	c.only = only
	e.lists = append(e.lists, c)
	return nil
}

// each visits the sockets of one namespace after the other.
func (e *ends) each(visit func(end, *inetSocket)) error {
	for _, c := range e.lists {
		if err := c.each(visit); err != nil {
			return err
		}
	}
	return nil
}

func (e *ends) close() {
	for _, c := range e.lists {
		c.close()
	}
}

// socketSampler samples the queues: it lists all connections occasionally, and in between sums up
// what the looker saw of some of them.
type socketSampler struct {
	ends
	looker   *socketLookup
	roster   *socketTable
	info     *tcpInfoSampler // uses the same roster; nil: none
	seen     look
	moments  int
	goneN    int // look-ups that found their connection gone, of lookedN since the last list
	lookedN  int
	waiting  bool  // a look since the last list found a connection that is not accepted yet
	listAtNs int64 // earliest time of the next list
}

const (
	// listShare is the share of one core for full lists, listEveryNs the longest interval between
	// two, listSoonNs the shortest.
	listShare   = 0.002
	listEveryNs = 2e9
	listSoonNs  = 0.2e9
	// goneMost is the share of look-ups that may find their connection gone before the list is
	// repeated.
	goneMost = 0.05
)

// newSocketSampler takes ownership of lists opened without TCP_INFO.
func newSocketSampler(e ends, l *socketLookup) *socketSampler {
	return &socketSampler{ends: e, looker: l}
}

func (s *socketSampler) close() {
	s.looker.close()
	s.ends.close()
}

// sample emits what was seen since the last one. If no look found its connection, because each
// lives for one request, the full list is the sample.
func (s *socketSampler) sample(at tick, emit Emit) error {
	before, err := sys.SamplingThreadNs()
	if err != nil {
		return err
	}
	listed, err := s.list(at)
	if err != nil {
		return err
	}
	if !s.looker.running() && len(s.roster.pairs) > 0 && !at.first() {
		one := s.looker.look(looksAt)
		s.seen.add(&one)
		s.moments++
	} else {
		seen, moments := s.looker.taken()
		s.seen.add(&seen)
		s.moments += moments
	}
	if s.seen.err != nil {
		return s.seen.err
	}
	after, err := sys.SamplingThreadNs()
	if err != nil {
		return err
	}
	s.emit(at, listed, after-before, emit)
	return nil
}

// list makes a new roster if one is due.
func (s *socketSampler) list(at tick) (listed bool, err error) {
	stale := s.roster == nil || at.first() || at.tNs-s.listAtNs >= 0 &&
		(len(s.roster.pairs) == 0 || s.waiting || float64(s.goneN) > goneMost*float64(s.lookedN+s.goneN) || at.tNs-s.listAtNs >= listEveryNs)
	if !stale {
		return false, nil
	}
	before := threadNs()
	about := 64
	if s.roster != nil {
		about += len(s.roster.pairs)
	}
	r, err := readRoster(&s.ends, about)
	if err != nil {
		return false, err
	}
	s.roster = r
	s.looker.use(r)
	if s.info != nil {
		s.info.follow(r)
	}
	s.goneN, s.lookedN, s.waiting = 0, 0, false
	s.listAtNs = at.tNs + max(int64(listSoonNs), int64(float64(threadNs()-before)/listShare))
	return true, nil
}

// emit writes the row.
func (s *socketSampler) emit(at tick, listed bool, costNs int64, emit Emit) {
	c, v := &s.seen.client, &s.seen.server
	s.goneN += c.gone + v.gone
	s.lookedN += c.looked + v.looked
	s.waiting = s.waiting || v.unaccepted > 0 // only a list shows how many there are
	looked := c.looked + v.looked
	row := &record.SocketsRow{ObservedHead: at.head(record.KindSockets), CostNs: costNs + s.seen.costNs}
	switch {
	case looked > c.gone+v.gone:
		row.Moments, row.Looks = s.moments, looked
		row.Client, row.Server = c.queues(&s.roster.client), v.queues(&s.roster.server)
		row.ToServer, row.ToClient = s.seen.toServer, s.seen.toClient
		row.ToServer.Scale(row.Client.Sockets)
		row.ToClient.Scale(row.Client.Sockets)
	case listed, len(s.roster.pairs) == 0:
		row.Client, row.Server = s.roster.client, s.roster.server
	default:
		return // no look since the last row, or all connections are gone: the next list shows which
	}
	if listed {
		row.Listed = s.roster.listed
	}
	s.seen, s.moments = look{}, 0
	emit(row)
}

// tcpInfoSampler samples TCP_INFO of some of the connections, the same ones from one roster to the
// next.
type tcpInfoSampler struct {
	doors          *socketLookup // for its sockets; it does not look by itself
	pairs          []connection
	client, server endInfo
	info           tcpInfo
}

// infoPairs is how many connections have their TCP_INFO read once a second: enough for a p90 of the
// RTT, for 0.2 ms.
const infoPairs = 32

// follow chooses the connections at random.
func (s *tcpInfoSampler) follow(r *socketTable) {
	s.doors.chosen = r.draw(s.doors.rng, infoPairs, s.doors.chosen)
	s.pairs = s.pairs[:0]
	for _, k := range s.doors.chosen {
		s.pairs = append(s.pairs, r.pairs[k])
	}
}

func (s *tcpInfoSampler) sample(at tick, emit Emit) error {
	before, err := sys.SamplingThreadNs()
	if err != nil {
		return err
	}
	s.client.begin()
	s.server.begin()
	if err := s.lookUp(s.doors.client, &s.client, func(p *connection) *sockID { return &p.client }); err != nil {
		return err
	}
	if err := s.lookUp(s.doors.server, &s.server, func(p *connection) *sockID { return &p.server }); err != nil {
		return err
	}
	s.client.finish()
	s.server.finish()
	after, err := sys.SamplingThreadNs()
	emit(&record.TCPInfoRow{
		ObservedHead: at.head(record.KindTCPInfo), Client: s.client.row, Server: s.server.row, CostNs: after - before,
	})
	return err
}

// lookUp reads one end of the connections.
func (s *tcpInfoSampler) lookUp(door *lookups, into *endInfo, end func(*connection) *sockID) error {
	if door == nil {
		return nil
	}
	door.begin()
	for i := range s.pairs {
		if k := end(&s.pairs[i]); k.family != 0 {
			door.add(k)
		}
	}
	if err := door.ask(); err != nil {
		return err
	}
	return door.answers(func(_ int, socket *inetSocket) {
		if socket != nil && parseTCPInfo(socket.info, &s.info) {
			into.add(socket.cookie, &s.info)
		}
	})
}

func (s *tcpInfoSampler) close() { s.doors.close() }
