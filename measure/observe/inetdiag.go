//go:build linux

package observe

import (
	"encoding/binary"
	"errors"
	"fmt"
	"net/netip"
	"syscall"
)

// inet_diag (include/uapi/linux/inet_diag.h, net/ipv4/inet_diag.c): the
// kernel's list of TCP sockets. Both directions carry an inet_diag_sockid of
// 48 bytes: ports of 2 bytes and addresses of 16, big-endian, then the
// interface and a cookie of 8 bytes.
//
//	request  inet_diag_req_v2: family, protocol, extensions, pad, states u32, id
//	         inet_diag_req: family, two unused, extensions, id, states u32, unused u32
//	answer   inet_diag_msg: family, state, timer, retrans, id, expires u32,
//	         rqueue u32, wqueue u32, uid u32, inode u32; attributes follow

const (
	sockDiagByFamily = 20 // SOCK_DIAG_BY_FAMILY, with inet_diag_req_v2
	tcpDiagGetSock   = 18 // TCPDIAG_GETSOCK, with inet_diag_req

	inetDiagReqBytes   = 56
	inetDiagMsgBytes   = 72
	inetDiagBytecode   = 1 // INET_DIAG_REQ_BYTECODE
	inetDiagInfo       = 2 // INET_DIAG_INFO, an attribute
	askInfo            = 1 << (inetDiagInfo - 1)
	inetDiagReqSport   = 8 // offset of the id's source port in the request
	oldReqBytes        = 60
	oldReqSport        = 4  // the same in the older request
	oldReqStates       = 52 // offset of the states in it
	bytecodeBytes      = 36
	inetDiagRequestMax = nlHeadBytes + oldReqBytes + attrHeadBytes + bytecodeBytes
)

// TCP states (include/net/tcp_states.h).
const (
	tcpEstablished = 1
	tcpSynSent     = 2
	tcpSynRecv     = 3
	tcpCloseWait   = 8
	tcpListen      = 10

	// connectionStates are those in which a connection of the run can hold bytes or wait to be
	// accepted. It leaves out TIME_WAIT, which may have tens of thousands of sockets and no queue.
	connectionStates = 1<<tcpEstablished | 1<<tcpSynSent | 1<<tcpSynRecv | 1<<tcpCloseWait
	listenStates     = 1 << tcpListen
)

// A question is a request of one kind for dumper.ask, which fills in its head.
type question struct {
	kind    uint16
	request []byte
}

// A listing is the TCP sockets of both families that a dump is to have.
type listing struct {
	states uint32
	shows  uint8  // attributes of the answers
	port   uint16 // its own; 0: any
	filter []byte // an attribute; nil: none
}

// inOne asks with the older request. It asks for one family like the newer one, but the kernel answers it
// with both (inet_diag_dump_compat), which saves a second walk: every dump walks the whole hash table of
// connections, whatever the filter, and 0.15 to 5 ms were seen for the 262,144 buckets of a 16 GB host.
func (l listing) inOne() []question {
	p := make([]byte, nlHeadBytes+oldReqBytes, inetDiagRequestMax)
	b := p[nlHeadBytes:]
	b[0], b[3] = syscall.AF_INET, l.shows
	binary.NativeEndian.PutUint32(b[oldReqStates:], l.states)
	binary.BigEndian.PutUint16(b[oldReqSport:], l.port)
	return []question{{tcpDiagGetSock, append(p, l.filter...)}}
}

// byFamily asks the same in two dumps, for a kernel that refuses the older request.
func (l listing) byFamily() (q []question) {
	for _, family := range []uint8{syscall.AF_INET, syscall.AF_INET6} {
		p := make([]byte, nlHeadBytes+inetDiagReqBytes, inetDiagRequestMax)
		b := p[nlHeadBytes:]
		fillRequest(b, family, l.states)
		b[2] = l.shows
		binary.BigEndian.PutUint16(b[inetDiagReqSport:], l.port)
		q = append(q, question{sockDiagByFamily, append(p, l.filter...)})
	}
	return q
}

// A socketLister dumps TCP sockets.
type socketLister struct {
	*dumper
	questions []question
	socket    inetSocket
}

// newSocketLister opens a netlink socket in the calling thread's network namespace, and finds which form of
// the question the kernel answers, by asking for listening sockets: their table is small.
func newSocketLister(l listing) (*socketLister, error) {
	d, err := newDumper(netlinkSockDiag)
	if err != nil {
		return nil, err
	}
	s, probe := &socketLister{dumper: d}, l
	probe.states = listenStates
	for _, form := range []func(listing) []question{listing.inOne, listing.byFamily} {
		s.questions = form(probe)
		if err = s.each(func(*inetSocket) {}); err == nil {
			s.questions = form(l)
			return s, nil
		}
	}
	d.close()
	return nil, err
}

// each visits the sockets, each valid during its visit only.
func (l *socketLister) each(visit func(*inetSocket)) error {
	for _, q := range l.questions {
		err := dump(l.dumper, q.request, q.kind, func(body []byte) error {
			err := parseInetSocket(body, &l.socket)
			if err == nil {
				visit(&l.socket)
			}
			return err
		})
		if err != nil {
			return fmt.Errorf("list TCP sockets: %w", err)
		}
	}
	return nil
}

func fillRequest(p []byte, family uint8, states uint32) {
	p[0] = family
	p[1] = syscall.IPPROTO_TCP
	binary.NativeEndian.PutUint32(p[4:], states)
}

// Operations of the filter that the kernel runs on each socket.
const (
	bcJump    = 1 // INET_DIAG_BC_JMP
	bcSportGE = 2 // INET_DIAG_BC_S_GE, and three more in this order
	bcSportLE = 3
	bcDportGE = 4
	bcDportLE = 5
)

// appendPortFilter appends the attribute with the filter "source or destination
// port is port". An
// operation is a code, an offset to go on at if it holds and one if not (from
// its own beginning); a comparison is followed by another of the same shape
// whose second offset is the port. A socket passes if the program ends exactly
// at its end, and is refused by a jump 4 bytes past it. The targets of
// refusals must lie on the way of those that hold (inet_diag_bc_audit), hence
// the jump. Equality (INET_DIAG_BC_S_EQ) is only known to kernels since 4.16;
// a pair of inequalities to all.
//
//	 0 sport >= port  yes  8  no 20
//	 8 sport <= port  yes 16  no 20
//	16 jump                   to 36: passes
//	20 dport >= port  yes 28  no 40: refused
//	28 dport <= port  yes 36  no 40
func appendPortFilter(p []byte, port uint16) []byte {
	p = binary.NativeEndian.AppendUint16(p, attrHeadBytes+bytecodeBytes)
	p = binary.NativeEndian.AppendUint16(p, inetDiagBytecode)
	op := func(code, yes uint8, no uint16) {
		p = append(p, code, yes)
		p = binary.NativeEndian.AppendUint16(p, no)
	}
	compare := func(code, yes uint8, no uint16) {
		op(code, yes, no)
		op(0, 0, port)
	}
	compare(bcSportGE, 8, 20)
	compare(bcSportLE, 8, 12)
	op(bcJump, 4, 20)
	compare(bcDportGE, 8, 20)
	compare(bcDportLE, 8, 12)
	return p
}

// inetSocket is one socket of an answer.
type inetSocket struct {
	family         uint8
	state          uint8
	sport, dport   uint16
	src, dst       netip.Addr // IPv4 also for an IPv6 socket with a mapped address
	cookie         uint64     // unique while the kernel runs
	rqueue, wqueue uint32
	uid            uint32
	inode          uint32 // 0: no process holds it (not accepted yet, or closed)
	info           []byte // struct tcp_info, points into the buffer; nil if not asked for
	body           []byte // the whole answer, points into the buffer too
}

// key returns the socket's look-up key.
func (s *inetSocket) key() sockID { return idOf(s.body, s) }

var errInetDiag = errors.New("inet_diag: an answer is shorter than 72 bytes or of neither family")

// parseInetSocket parses the body of one answer.
func parseInetSocket(body []byte, s *inetSocket) error {
	if len(body) < inetDiagMsgBytes {
		return errInetDiag
	}
	*s = inetSocket{family: body[0], state: body[1], body: body}
	id := body[4:]
	s.sport = binary.BigEndian.Uint16(id)
	s.dport = binary.BigEndian.Uint16(id[2:])
	switch s.family {
	case syscall.AF_INET:
		s.src = netip.AddrFrom4([4]byte(id[4:8]))
		s.dst = netip.AddrFrom4([4]byte(id[20:24]))
	case syscall.AF_INET6:
		s.src = netip.AddrFrom16([16]byte(id[4:20])).Unmap()
		s.dst = netip.AddrFrom16([16]byte(id[20:36])).Unmap()
	default:
		return errInetDiag
	}
	s.cookie = uint64(binary.NativeEndian.Uint32(id[40:])) | uint64(binary.NativeEndian.Uint32(id[44:]))<<32
	s.rqueue = binary.NativeEndian.Uint32(body[56:])
	s.wqueue = binary.NativeEndian.Uint32(body[60:])
	s.uid = binary.NativeEndian.Uint32(body[64:])
	s.inode = binary.NativeEndian.Uint32(body[68:])
	for rest := body[inetDiagMsgBytes:]; ; {
		kind, value, more, ok := nextAttr(rest)
		if !ok {
			return nil
		}
		if kind == inetDiagInfo {
			s.info = value
		}
		rest = more
	}
}

// unreadBytes returns what the program has not read. The peer's FIN takes a sequence number like a
// byte of data, so it counts in rqueue until the program reads end of file (net/ipv4/tcp_diag.c,
// tcp_diag_get_info).
func (s *inetSocket) unreadBytes() uint32 {
	if s.state == tcpCloseWait && s.rqueue > 0 {
		return s.rqueue - 1
	}
	return s.rqueue
}
