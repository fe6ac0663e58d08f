//go:build linux

package observe

import (
	"encoding/binary"
	"net/netip"
	"slices"
	"syscall"
)

// The host's sockets that may be the subject's to other servers: all from a dump, or those already
// known, one by one. A dump walks the kernel's whole table, which is megabytes: 0.2 ms, but 3 ms
// were measured when other programs had evicted the caches. Looking up one socket by its addresses
// costs 5 µs.

const (
	infoLastSent = 44 // u32 of struct tcp_info, ms since data was sent last
	infoLastRecv = 52 // u32 ms since data was received last

	bytecodeNotPortBytes = 20
	inetDiagReqDport     = 10 // offsets in the request
	inetDiagReqSrc       = 12
	inetDiagReqDst       = 28
	inetDiagReqCookie    = 48

	// The same list gives the ports that others connect to.
	peerStates = 1<<tcpEstablished | 1<<tcpSynSent | 1<<tcpCloseWait | listenStates
)

// peerSocket is a socket that may be one of the subject's to other servers.
type peerSocket struct {
	inode      uint32
	family     uint8
	cookie     uint64
	own        netip.AddrPort
	remote     netip.AddrPort
	path       string // of a unix socket's peer
	connecting bool
	unread     bool
	unacked    bool
	awaiting   bool
	quiet      bool
}

// peerListing has all TCP sockets except those whose own port is port (0: all), with TCP_INFO.
func peerListing(port uint16) listing {
	return listing{states: peerStates, shows: askInfo, filter: appendNotPortFilter(nil, port)}
}

// appendNotPortFilter appends the filter "source port is not port", see
// appendPortFilter. Port 65535 has no successor: there everything passes, and
// peerSampler.take leaves out what it must.
//
//	 0 sport <= port-1  yes  8  no 12
//	 8 jump                     to 20: passes
//	12 sport >= port+1  yes 20  no 24: refused
func appendNotPortFilter(p []byte, port uint16) []byte {
	if port == 0 {
		return p
	}
	p = binary.NativeEndian.AppendUint16(p, attrHeadBytes+bytecodeNotPortBytes)
	p = binary.NativeEndian.AppendUint16(p, inetDiagBytecode)
	op := func(code, yes uint8, no uint16) {
		p = append(p, code, yes)
		p = binary.NativeEndian.AppendUint16(p, no)
	}
	op(bcSportLE, 8, 12)
	op(0, 0, port-1)
	op(bcJump, 4, 12)
	op(bcSportGE, 8, 12)
	op(0, 0, port+1) // wraps to 0, which all are above
	return p
}

// listTCP adds the host's TCP sockets that may be the subject's to other servers.
func (p *peerSampler) listTCP() error {
	clear(p.listening)
	first := len(p.all)
	if err := p.tcp.each(p.takeTCP); err != nil {
		return err
	}
	kept := p.all[:first]
	for _, s := range p.all[first:] {
		if _, in := p.listening[s.own.Port()]; !in { // an incoming connection
			kept = append(kept, s)
		}
	}
	p.all = kept
	return nil
}

func (p *peerSampler) takeTCP(s *inetSocket) {
	switch {
	case s.state == tcpListen:
		p.listening[s.sport] = struct{}{}
	case s.inode == 0 || p.target.IsValid() && (s.sport == p.target.Port() || endOf(s, p.target) != endNone):
		// no program's, or the run's own
	default:
		p.all = append(p.all, peerOfTCP(s))
	}
}

// peerOfTCP extracts what the rows need from one socket.
func peerOfTCP(s *inetSocket) peerSocket {
	one := peerSocket{
		inode: s.inode, family: s.family, cookie: s.cookie,
		own: netip.AddrPortFrom(s.src, s.sport), remote: netip.AddrPortFrom(s.dst, s.dport),
		connecting: s.state == tcpSynSent, unread: s.unreadBytes() > 0, unacked: s.wqueue > 0,
	}
	if len(s.info) >= infoGaugesEnd {
		sent, recv := binary.NativeEndian.Uint32(s.info[infoLastSent:]), binary.NativeEndian.Uint32(s.info[infoLastRecv:])
		// Both begin at the handshake, whose SYN counts as the first acknowledged byte.
		used := one.unacked || len(s.info) < infoBytesAcked+8 || binary.NativeEndian.Uint64(s.info[infoBytesAcked:]) > 1
		one.awaiting = used && sent <= recv
		one.quiet = min(sent, recv) >= peerQuietMs
	}
	return one
}

// exactQuestion allocates a question about one socket.
func exactQuestion() []byte { return make([]byte, nlHeadBytes+inetDiagReqBytes) }

// ask fills in the question for a socket whose addresses are known (net/ipv4/inet_diag.c,
// inet_diag_find_one_icsk). For IPv4 in an IPv6 socket they are mapped addresses.
func (one *peerSocket) ask(question []byte) {
	b := question[nlHeadBytes:]
	clear(b)
	fillRequest(b, one.family, 1<<32-1)
	b[2] = askInfo
	binary.BigEndian.PutUint16(b[inetDiagReqSport:], one.own.Port())
	binary.BigEndian.PutUint16(b[inetDiagReqDport:], one.remote.Port())
	put := func(to []byte, a netip.Addr) {
		if one.family == syscall.AF_INET {
			four := a.As4()
			copy(to, four[:])
			return
		}
		sixteen := a.As16()
		copy(to, sixteen[:])
	}
	put(b[inetDiagReqSrc:], one.own.Addr())
	put(b[inetDiagReqDst:], one.remote.Addr())
	binary.NativeEndian.PutUint32(b[inetDiagReqCookie:], uint32(one.cookie))
	binary.NativeEndian.PutUint32(b[inetDiagReqCookie+4:], uint32(one.cookie>>32))
}

// askAny fills in the question for any socket with these addresses.
func (one *peerSocket) askAny(question []byte) {
	one.cookie = 1<<64 - 1 // INET_DIAG_NOCOOKIE
	one.ask(question)
}

// refresh looks up each of the known sockets again. It returns false if one is gone.
func (p *peerSampler) refresh() (fresh bool, err error) {
	unix, n, socket := false, len(p.all), &p.tcp.socket
	for i := range p.all {
		one := &p.all[i]
		if one.path != "" {
			unix = true
			continue
		}
		one.ask(p.exact)
		if err := p.tcp.ask(p.exact, sockDiagByFamily, 0); err != nil {
			return false, err
		}
		body, more, err := p.tcp.next()
		if _, is := err.(syscall.Errno); is || !more && err == nil { // the form that next returns; errors.As allocates
			return false, nil // ENOENT: gone; the next list will show any other error
		}
		if err != nil {
			return false, err
		}
		if err := parseInetSocket(body, socket); err != nil {
			return false, err
		}
		if socket.inode != one.inode || 1<<socket.state&peerStates == 0 {
			return false, nil
		}
		*one = peerOfTCP(socket)
	}
	if !unix {
		return true, nil
	}
	p.all = slices.DeleteFunc(p.all, func(s peerSocket) bool { return s.path != "" })
	if err := p.listUnix(); err != nil {
		return false, err
	}
	p.keepMine()
	return len(p.all) == n, nil
}

// listUnix adds the host's unix sockets that are connected to one with a path: the side without a
// path of its own is the client.
func (p *peerSampler) listUnix() error {
	clear(p.paths)
	clear(p.peerOf)
	first := len(p.all)
	s := &p.unixSocket
	err := eachUnix(p.unix, p.request, s, func() { // does not escape
		switch {
		case len(s.name) > 0:
			p.paths[s.inode] = unixPathText(p.t.names, s.name)
		case s.peer != 0:
			p.peerOf[s.inode] = s.peer
			p.all = append(p.all, peerSocket{inode: s.inode, unread: s.rqueue > 0, unacked: s.wqueue > 0})
		}
	})
	if err != nil {
		return err
	}
	kept := p.all[:first]
	for _, one := range p.all[first:] {
		if one.path = p.paths[p.peerOf[one.inode]]; one.path != "" {
			kept = append(kept, one)
		}
	}
	p.all = kept
	return nil
}

// unixPathText formats a socket's name: a path ends at its NUL, an abstract name begins with one.
func unixPathText(names *interned, name []byte) string {
	if name[0] == 0 {
		name[0] = '@' // in the netlink buffer, which is ours
		return names.of(name)
	}
	if end := slices.Index(name, 0); end >= 0 {
		name = name[:end]
	}
	return names.of(name)
}
