package observe

import (
	"fmt"
	"net/netip"
	"syscall"

	"ceiling/internal/sys"
	"ceiling/record"
)

// Where the bytes of the run's own connections wait: the socket queues at both
// ends, asked from inet_diag. Without TCP_INFO a socket costs 0.2 µs with warm
// caches, and several times that when the load has just emptied them; with it
// half as much again, so the two are asked at different rates.

// An end is which side of a connection a socket is.
type end uint8

const (
	endNone   end = iota
	endClient     // its remote end is the target
	endServer     // its local port is the target's
)

// connections lists the sockets that belong to the target.
type connections struct {
	d         *dumper
	target    netip.AddrPort
	only      end // endNone: both
	questions []question
	socket    inetSocket
}

// newConnections opens a netlink socket in the calling thread's network
// namespace, and finds out which question the kernel answers.
func newConnections(target netip.AddrPort, info bool) (*connections, error) {
	d, err := newDumper(netlinkSockDiag)
	if err != nil {
		return nil, err
	}
	c := &connections{d: d, target: target}
	c.questions = connectionQuestions(target.Port(), info)
	if err = c.each(func(end, *inetSocket) {}); err != nil {
		c.questions = connectionQuestionsByFamily(target.Port(), info)
		err = c.each(func(end, *inetSocket) {})
	}
	if err != nil {
		d.close()
		return nil, err
	}
	return c, nil
}

// each dumps the sockets of both families and visits the target's sockets. The socket is
// valid during the visit only.
func (c *connections) each(visit func(end, *inetSocket)) error {
	for _, q := range c.questions {
		if err := c.d.ask(q.request, q.kind, syscall.NLM_F_DUMP); err != nil {
			return err
		}
		for {
			body, more, err := c.d.next()
			if err != nil {
				return fmt.Errorf("list TCP sockets: %w", err)
			}
			if !more {
				break
			}
			if err := parseInetSocket(body, &c.socket); err != nil {
				return err
			}
			if e := endOf(&c.socket, c.target); e != endNone && (c.only == endNone || c.only == e) {
				visit(e, &c.socket)
			}
		}
	}
	return nil
}

// endOf tells which end of the run's connections a socket is. A server's
// socket may have any local address, since the target's may be translated on
// the way; but not if the target is this host's loopback.
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

func (c *connections) close() { c.d.close() }

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
		q.UnreadBytes += n
		q.UnreadMaxBytes = max(q.UnreadMaxBytes, n)
	}
	if n := int64(unacked); n > 0 {
		q.Unacked++
		q.UnackedBytes += n
		q.UnackedMaxBytes = max(q.UnackedMaxBytes, n)
	}
}

// ends lists both ends of the run's connections: all in one network namespace,
// or each in one of two.
type ends struct {
	lists []*connections
}

// open adds a namespace, the calling thread's, and which end of the
// connections to look for in it; endNone is both.
func (e *ends) open(target netip.AddrPort, only end, info bool) error {
	c, err := newConnections(target, info)
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

// socketSampler samples the queues.
type socketSampler struct {
	ends
	visit func(end, *inetSocket)
	row   record.SocketsRow
}

// newSocketSampler takes over lists that were opened without TCP_INFO.
func newSocketSampler(e ends) *socketSampler {
	s := &socketSampler{ends: e}
	s.visit = func(e end, socket *inetSocket) {
		if e == endClient {
			addQueues(&s.row.Client, socket)
		} else {
			addQueues(&s.row.Server, socket)
		}
	}
	return s
}

func (s *socketSampler) sample(at tick, emit Emit) error {
	before, err := sys.SamplingThreadNs()
	if err != nil {
		return err
	}
	s.row = record.SocketsRow{ObservedHead: at.head(record.KindSockets)}
	if err := s.each(s.visit); err != nil {
		return err
	}
	after, err := sys.SamplingThreadNs()
	s.row.CostNs = after - before
	emit(&s.row)
	return err
}

// tcpInfoSampler samples TCP_INFO.
type tcpInfoSampler struct {
	ends
	visit          func(end, *inetSocket)
	client, server endInfo
	info           tcpInfo
	row            record.TCPInfoRow
}

// newTCPInfoSampler takes over lists that were opened with TCP_INFO.
func newTCPInfoSampler(e ends) *tcpInfoSampler {
	s := &tcpInfoSampler{ends: e}
	s.visit = func(e end, socket *inetSocket) {
		if socket.state != tcpEstablished && socket.state != tcpCloseWait || !parseTCPInfo(socket.info, &s.info) {
			return
		}
		if e == endClient {
			s.client.add(socket.cookie, &s.info)
		} else {
			s.server.add(socket.cookie, &s.info)
		}
	}
	return s
}

func (s *tcpInfoSampler) sample(at tick, emit Emit) error {
	before, err := sys.SamplingThreadNs()
	if err != nil {
		return err
	}
	s.client.begin()
	s.server.begin()
	if err := s.each(s.visit); err != nil {
		return err
	}
	s.client.finish()
	s.server.finish()
	after, err := sys.SamplingThreadNs()
	s.row = record.TCPInfoRow{
		ObservedHead: at.head(record.KindTCPInfo), Client: s.client.row, Server: s.server.row, CostNs: after - before,
	}
	emit(&s.row)
	return err
}
