//go:build linux

package observe

import (
	"encoding/binary"
	"encoding/hex"
	"errors"
	"fmt"
	"net/netip"
	"syscall"

	"ceiling/internal/sys"
	"ceiling/record"
)

// The target's listening sockets: from inet_diag with their queues or, without inet_diag in the
// kernel, from /proc/net/tcp and tcp6 without queues.

// listener is one listening socket.
type listener struct {
	inode      uint64
	addr       netip.AddrPort // zero for a unix socket
	path       string         // of a unix socket
	queue, max int            // connections waiting to be accepted, and their limit; -1 unknown
	uid        int
}

// takes reports whether a socket listening on addr gets connections to target.
func takes(addr, target netip.AddrPort) bool {
	return addr.Port() == target.Port() &&
		(addr.Addr() == target.Addr() || addr.Addr().IsUnspecified() || target.Addr().IsUnspecified())
}

// inetListeners lists the target's listeners repeatedly.
type inetListeners struct {
	*socketLister
	target netip.AddrPort
}

func listenListing(target netip.AddrPort) listing {
	return listing{states: listenStates, port: target.Port()}
}

// newInetListeners opens a list in the calling thread's network namespace.
func newInetListeners(target netip.AddrPort) (*inetListeners, error) {
	l, err := newSocketLister(listenListing(target))
	return &inetListeners{l, target}, err
}

// list reads the listeners into out[:0].
func (l *inetListeners) list(out []listener) ([]listener, error) {
	out = out[:0]
	err := l.each(func(s *inetSocket) {
		addr := netip.AddrPortFrom(s.src, s.sport)
		if s.state == tcpListen && takes(addr, l.target) {
			out = append(out, listener{inode: uint64(s.inode), addr: addr, queue: int(s.rqueue), max: int(s.wqueue), uid: int(s.uid)})
		}
	})
	return out, err
}

// procTCP is one line of /proc/net/tcp or tcp6 (net/ipv4/tcp_ipv4.c, get_tcp4_sock): "N: ADDR:PORT
// ADDR:PORT STATE TX:RX TR:WHEN RETRANS UID TIMEOUT INODE ...", hexadecimal; an address is one or
// four words in the machine's byte order.
type procTCP struct {
	local netip.AddrPort
	state uint64
	uid   int
	inode uint64
}

var errProcTCP = errors.New("/proc/net/tcp: a line is not two addresses, a state and an inode")

// parseProcTCP visits the lines of /proc/net/tcp or tcp6.
func parseProcTCP(text []byte, visit func(procTCP)) error {
	c := sys.Cursor{Text: text}
	c.Line() // heading
	for {
		line, ok := c.Line()
		if !ok {
			return nil
		}
		l := sys.Cursor{Text: line}
		l.Word()
		var one procTCP
		if one.local, ok = parseHexAddrPort(l.Word()); !ok {
			return errProcTCP
		}
		l.Word()
		var ok1, ok2, ok3 bool
		one.state, ok1 = l.Hex()
		l.Skip(3)
		uid, ok2 := l.Uint()
		l.Skip(1)
		one.inode, ok3 = l.Uint()
		if !ok1 || !ok2 || !ok3 {
			return errProcTCP
		}
		one.uid = int(uid)
		visit(one)
	}
}

// parseHexAddrPort reads "0100007F:1F90" or the form with 32 digits.
func parseHexAddrPort(w []byte) (netip.AddrPort, bool) {
	var none netip.AddrPort
	colon := len(w) - len(":0000")
	if colon != 8 && colon != 32 || w[colon] != ':' {
		return none, false
	}
	port, n := sys.LeadingHex(w[colon+1:])
	if n != 4 {
		return none, false
	}
	var raw [16]byte
	if _, err := hex.Decode(raw[:], w[:colon]); err != nil {
		return none, false
	}
	// Each word is printed as a number: most significant byte first.
	for i := 0; i < colon/2; i += 4 {
		binary.NativeEndian.PutUint32(raw[i:], binary.BigEndian.Uint32(raw[i:]))
	}
	if colon == 8 {
		return netip.AddrPortFrom(netip.AddrFrom4([4]byte(raw[:4])), uint16(port)), true
	}
	return netip.AddrPortFrom(netip.AddrFrom16(raw).Unmap(), uint16(port)), true
}

// procListeners lists the target's listeners from /proc/net/tcp and tcp6.
func procListeners(r *reader, netDir string, target netip.AddrPort) ([]listener, error) {
	var found []listener
	for _, name := range []string{"/tcp", "/tcp6"} {
		fd, err := openFile(netDir + name)
		if errors.Is(err, syscall.ENOENT) && name == "/tcp6" {
			continue // no IPv6
		}
		if err != nil {
			return found, err
		}
		text, err := r.whole(fd)
		closeFile(&fd)
		if err == nil {
			err = parseProcTCP(text, func(l procTCP) {
				if l.state == tcpListen && takes(l.local, target) {
					found = append(found, listener{inode: l.inode, addr: l.local, queue: -1, max: -1, uid: l.uid})
				}
			})
		}
		if err != nil {
			return found, fmt.Errorf("read %s: %w", netDir+name, err)
		}
	}
	return found, nil
}

// listenerSampler samples the listeners' queues, and adds to the row how the connections spread
// over processes once spread has counted them.
type listenerSampler struct {
	list    func([]listener) ([]listener, error)
	subject *subject
	spread  *spreadSampler
	found   []listener
	stop    func()
}

func (s *listenerSampler) sample(at tick, emit Emit) error {
	var err error
	if s.found, err = s.list(s.found); err != nil {
		return err
	}
	s.subject.noticeListeners(s.found)
	row := &record.ListenerRow{ObservedHead: at.head(record.KindListener), Listeners: make([]record.Listener, 0, len(s.found))}
	for i := range s.found {
		l := &s.found[i]
		row.Listeners = append(row.Listeners, record.Listener{
			Inode: l.inode, Addr: s.subject.addrText(l), Queue: l.queue, Max: l.max, PIDs: s.subject.holders(l.inode),
		})
	}
	if s.spread != nil {
		row.Connections, row.Unowned = s.spread.take()
	}
	emit(row)
	return nil
}

func (s *listenerSampler) close() { s.stop() }
