//go:build linux

package observe

import (
	"encoding/binary"
	"errors"
	"fmt"
	"syscall"
)

// Exact look-ups of single sockets: inet_diag without NLM_F_DUMP finds one connection in the hash
// table by its addresses and cookie (net/ipv4/ inet_diag.c, inet_diag_find_one_icsk). A dump walks
// all buckets of that table, TIME_WAIT included, whatever the filter: 0.15 to 5 ms during which no
// other thread runs on the CPU. A look-up of one socket with its TCP_INFO costs 2 to 3 µs when
// several share one system call.

// sockID is a socket's inet_diag_sockid as the kernel returned it, cookie included, with the family
// to ask for it.
type sockID struct {
	family uint8
	id     [sockIDBytes]byte
}

const (
	sockIDBytes   = 48
	tupleBytes    = 36 // of an id: both ports, then both addresses of 16 bytes
	lookupBytes   = nlHeadBytes + inetDiagReqBytes
	sockIDAt      = 8 // offset of the id in inet_diag_req_v2
	lookupStates  = 1<<tcpEstablished | 1<<tcpCloseWait
	answerBytes   = 4 << 10 // one socket's answer with all attributes is below 1 KB
	lookupsAtOnce = 64      // their answers fit into the default receive buffer
)

var errLookupLost = errors.New("inet_diag: the kernel did not answer a look-up")

// tuple returns the socket's ports and addresses.
func (s *sockID) tuple() [tupleBytes]byte { return [tupleBytes]byte(s.id[:tupleBytes]) }

// peer returns those of the connection's other end.
func (s *sockID) peer() (t [tupleBytes]byte) {
	copy(t[0:], s.id[2:4])
	copy(t[2:], s.id[0:2])
	copy(t[4:], s.id[20:36])
	copy(t[20:], s.id[4:20])
	return t
}

// idOf extracts the id from one answer of a dump.
func idOf(body []byte, s *inetSocket) sockID {
	k := sockID{family: s.family}
	if s.src.Is4() {
		// Also for IPv6 sockets with mapped addresses: the look-up by IPv4 finds both.
		k.family = syscall.AF_INET
	}
	copy(k.id[:], body[4:4+sockIDBytes])
	if k.family == syscall.AF_INET && s.family == syscall.AF_INET6 {
		// The mapped address has its four bytes at the end.
		copy(k.id[4:8], body[4+16:4+20])
		copy(k.id[20:24], body[4+32:4+36])
		clear(k.id[8:20]) // as those of an IPv4 socket
		clear(k.id[24:36])
	}
	return k
}

// A lookups is a netlink socket that sends several look-ups with one system call.
type lookups struct {
	d       *dumper
	request []byte
	n       int
	firstOf uint32 // sequence number of the first look-up in progress
	socket  inetSocket
}

// newLookups opens a socket in the calling thread's network namespace.
func newLookups() (*lookups, error) {
	d, err := newDumper(netlinkSockDiag)
	if err != nil {
		return nil, err
	}
	d.buf = d.buf[:answerBytes]
	return &lookups{d: d, request: make([]byte, 0, lookupsAtOnce*lookupBytes)}, nil
}

// begin clears the questions.
func (l *lookups) begin() { l.request, l.n = l.request[:0], 0 }

// add appends a look-up to the next call.
func (l *lookups) add(k *sockID) {
	at := len(l.request)
	l.request = l.request[:at+lookupBytes]
	p := l.request[at:]
	binary.NativeEndian.PutUint32(p[0:], lookupBytes)
	binary.NativeEndian.PutUint16(p[4:], sockDiagByFamily)
	binary.NativeEndian.PutUint16(p[6:], syscall.NLM_F_REQUEST)
	binary.NativeEndian.PutUint32(p[8:], l.d.seq+uint32(l.n)+1)
	binary.NativeEndian.PutUint32(p[12:], 0)
	b := p[nlHeadBytes:]
	fillRequest(b, k.family, lookupStates)
	b[2] = askInfo
	copy(b[sockIDAt:], k.id[:])
	l.n++
}

// ask sends the look-ups. The kernel does all of them within this call, one after the other.
func (l *lookups) ask() error {
	if l.n == 0 {
		return nil
	}
	l.firstOf = l.d.seq + 1
	l.d.seq += uint32(l.n)
	if _, err := syscall.Write(l.d.fd, l.request); err != nil {
		return fmt.Errorf("look sockets up: %w", err)
	}
	return nil
}

// answers visits the answers in the order of the questions; s is nil if the connection is gone, and
// valid during the visit only.
func (l *lookups) answers(visit func(i int, s *inetSocket)) error {
	for i := range l.n {
		n, err := syscall.Read(l.d.fd, l.d.buf)
		for err == syscall.EINTR {
			n, err = syscall.Read(l.d.fd, l.d.buf)
		}
		switch {
		case err == syscall.EAGAIN || err == nil && n == 0:
			return errLookupLost
		case err != nil:
			return fmt.Errorf("read the answer to a look-up: %w", err)
		}
		m, _, err := nextMessage(l.d.buf[:n])
		if err != nil {
			return err
		}
		if m.seq != l.firstOf+uint32(i) {
			return errDumpSequence
		}
		if err := l.answer(i, &m, visit); err != nil {
			return err
		}
	}
	return nil
}

// answer reads one answer. For a connection that is gone the kernel returns ENOENT, or ESTALE with
// its successor or, since the look-up continues with listeners, the server's listening socket.
func (l *lookups) answer(i int, m *nlMessage, visit func(int, *inetSocket)) error {
	if m.kind == syscall.NLMSG_ERROR {
		switch errno, err := errorNumber(m.body); {
		case err != nil:
			return err
		case errno == syscall.ENOENT || errno == syscall.ESTALE:
			visit(i, nil)
			return nil
		default:
			return fmt.Errorf("look a socket up: %w", errno)
		}
	}
	if err := parseInetSocket(m.body, &l.socket); err != nil {
		return err
	}
	if l.socket.state != tcpEstablished && l.socket.state != tcpCloseWait {
		visit(i, nil)
		return nil
	}
	visit(i, &l.socket)
	return nil
}

func (l *lookups) close() { l.d.close() }
