//go:build linux

package observe

import (
	"encoding/binary"
	"errors"
	"fmt"
	"strings"
	"syscall"

	"ceiling/internal/sys"
	"ceiling/record"
)

// unix_diag (include/uapi/linux/unix_diag.h, net/unix/diag.c): the kernel's
// list of AF_UNIX sockets. It cannot be filtered by path, so every dump walks
// all of the host's sockets in the wanted states.
//
//	request  unix_diag_req: family, protocol, pad u16, states u32, inode u32, show u32, cookie 8
//	answer   unix_diag_msg: family, type, state, pad, inode u32, cookie 8; attributes follow

const (
	unixDiagReqBytes = 24
	unixDiagMsgBytes = 16

	unixShowName  = 1 << 0 // UDIAG_SHOW_NAME, answered by attribute 0
	unixShowVFS   = 1 << 1 // UDIAG_SHOW_VFS: u32 inode, u32 device; attribute 1
	unixShowPeer  = 1 << 2 // UDIAG_SHOW_PEER: u32 inode; attribute 2
	unixShowIcons = 1 << 3 // UDIAG_SHOW_ICONS: u32 inodes of the clients waiting to be accepted; attribute 3
	unixShowQueue = 1 << 4 // UDIAG_SHOW_RQLEN: u32 read queue, u32 write queue; attribute 4

	unixAttrName  = 0
	unixAttrVFS   = 1
	unixAttrPeer  = 2
	unixAttrIcons = 3
	unixAttrQueue = 4
)

// unixShows is what every dump requests; a list of clients is as long as the queue.
const unixShows = unixShowName | unixShowVFS | unixShowPeer | unixShowQueue

func unixRequest(states, show uint32) []byte {
	p := make([]byte, nlHeadBytes+unixDiagReqBytes)
	b := p[nlHeadBytes:]
	b[0] = syscall.AF_UNIX
	binary.NativeEndian.PutUint32(b[4:], states)
	binary.NativeEndian.PutUint32(b[12:], show)
	return p
}

// unixSocket is one socket of an answer.
type unixSocket struct {
	state     uint8
	inode     uint32
	name      []byte // points into the buffer; abstract names begin with a NUL
	vfsInode  uint32
	vfsDevice uint32
	peer      uint32 // inode of the other end, 0: none
	rqueue    uint32 // bytes to read; for a listener: connections waiting to be accepted
	wqueue    uint32 // bytes the peer has not read; for a listener: the limit
	hasQueue  bool
	icons     []byte // for a listener, inodes of 4 bytes; points into the buffer
}

var errUnixDiag = errors.New("unix_diag: an answer is shorter than 16 bytes or of another family")

// parseUnixSocket reads the body of one answer.
func parseUnixSocket(body []byte, s *unixSocket) error {
	if len(body) < unixDiagMsgBytes || body[0] != syscall.AF_UNIX {
		return errUnixDiag
	}
	*s = unixSocket{state: body[2], inode: binary.NativeEndian.Uint32(body[4:])}
	for rest := body[unixDiagMsgBytes:]; ; {
		kind, value, more, ok := nextAttr(rest)
		if !ok {
			return nil
		}
		switch {
		case kind == unixAttrName:
			s.name = value
		case kind == unixAttrVFS && len(value) >= 8:
			s.vfsInode = binary.NativeEndian.Uint32(value)
			s.vfsDevice = binary.NativeEndian.Uint32(value[4:])
		case kind == unixAttrPeer && len(value) >= 4:
			s.peer = binary.NativeEndian.Uint32(value)
		case kind == unixAttrIcons:
			s.icons = value
		case kind == unixAttrQueue && len(value) >= 8:
			s.rqueue = binary.NativeEndian.Uint32(value)
			s.wqueue = binary.NativeEndian.Uint32(value[4:])
			s.hasQueue = true
		}
		rest = more
	}
}

// unixTarget recognises the sockets of a listening path: by the file, since the name is as the
// server wrote it and may be relative, or by an abstract name, written "@name".
type unixTarget struct {
	path     string
	abstract string // with its NUL, "" for a file
	inode    uint32 // low half, as in unix_diag
	device   uint32 // in kernel numbering: 12 bits major, 20 bits minor
}

func newUnixTarget(path string) (unixTarget, error) {
	if name, ok := strings.CutPrefix(path, "@"); ok {
		return unixTarget{path: path, abstract: "\x00" + name}, nil
	}
	var st syscall.Stat_t
	if err := syscall.Stat(path, &st); err != nil {
		return unixTarget{}, fmt.Errorf("look at socket %s: %w", path, err)
	}
	if st.Mode&syscall.S_IFMT != syscall.S_IFSOCK {
		return unixTarget{}, fmt.Errorf("%s is not a socket", path)
	}
	return unixTarget{path: path, inode: uint32(st.Ino), device: kernelDevice(uint64(st.Dev))}, nil
}

// kernelDevice converts a device number from stat(2) (new_encode_dev: minor 0-7, major 8-19, minor
// 20-31) to the kernel's own.
func kernelDevice(dev uint64) uint32 {
	major := uint32(dev>>8) & 0xfff
	minor := uint32(dev)&0xff | uint32(dev>>12)&0xfff00
	return major<<20 | minor
}

func (t *unixTarget) is(s *unixSocket) bool {
	if t.abstract != "" {
		return string(s.name) == t.abstract
	}
	return s.vfsInode != 0 && s.vfsInode == t.inode && s.vfsDevice == t.device
}

// unixSampler samples the queues of the connections to a path. A server's socket has the listener's
// name; its client is its peer.
type unixSampler struct {
	d       *dumper
	request []byte
	target  unixTarget
	socket  unixSocket
	all     []unixSocket    // every socket of the last dump that may be a client
	clients map[uint32]bool // inodes of the server sockets' peers, and whether they wait to be accepted
}

func newUnixSampler(target unixTarget) (*unixSampler, error) {
	d, err := newDumper(netlinkSockDiag)
	if err != nil {
		return nil, err
	}
	return &unixSampler{
		d: d, target: target, request: unixRequest(1<<tcpEstablished|1<<tcpListen, unixShows|unixShowIcons), clients: make(map[uint32]bool),
	}, nil
}

func (s *unixSampler) sample(at tick, emit Emit) error {
	before, err := sys.SamplingThreadNs()
	if err != nil {
		return err
	}
	row := &record.SocketsRow{ObservedHead: at.head(record.KindSockets)}
	s.all = s.all[:0]
	clear(s.clients)
	err = eachUnix(s.d, s.request, &s.socket, func() { // does not escape
		switch is := s.target.is(&s.socket); {
		case is && s.socket.state == tcpListen:
			s.waiting(s.socket.icons)
			return
		case s.socket.state == tcpListen:
			return
		case is:
			addBytes(&row.Server, s.socket.rqueue, s.socket.wqueue)
			s.clients[s.socket.peer] = false
			return
		}
		one := s.socket
		one.name, one.icons = nil, nil
		s.all = append(s.all, one)
	})
	if err != nil {
		return err
	}
	for i := range s.all {
		one := &s.all[i]
		waits, ok := s.clients[one.inode]
		if !ok {
			continue
		}
		addBytes(&row.Client, one.rqueue, one.wqueue)
		if waits { // the server has not read what it sent
			addBytes(&row.Server, one.wqueue, 0)
			row.Server.Unaccepted++
		}
	}
	row.Listed = record.Listing{Connections: row.Server.Sockets, Unaccepted: int(row.Server.Unaccepted)}
	after, err := sys.SamplingThreadNs()
	row.CostNs = after - before
	emit(row)
	return err
}

// waiting records the clients of a listener that are not accepted yet. The server's ends of these
// have no inode yet, and the kernel does not list them; a client that has given up has none either.
func (s *unixSampler) waiting(icons []byte) {
	for ; len(icons) >= 4; icons = icons[4:] {
		if inode := binary.NativeEndian.Uint32(icons); inode != 0 {
			s.clients[inode] = true
		}
	}
}

func (s *unixSampler) close() { s.d.close() }

// eachUnix runs a dump; visit finds each answer in socket.
func eachUnix(d *dumper, request []byte, socket *unixSocket, visit func()) error {
	err := dump(d, request, sockDiagByFamily, func(body []byte) error {
		err := parseUnixSocket(body, socket)
		if err == nil {
			visit()
		}
		return err
	})
	if err != nil {
		return fmt.Errorf("list unix sockets: %w", err)
	}
	return nil
}

// unixListeners lists the listeners of a path.
type unixListeners struct {
	d       *dumper
	request []byte
	target  unixTarget
	socket  unixSocket
}

func newUnixListeners(target unixTarget) (*unixListeners, error) {
	d, err := newDumper(netlinkSockDiag)
	if err != nil {
		return nil, err
	}
	return &unixListeners{d: d, target: target, request: unixRequest(1<<tcpListen, unixShows)}, nil
}

// list reads the listeners into out[:0].
func (l *unixListeners) list(out []listener) ([]listener, error) {
	out = out[:0]
	err := eachUnix(l.d, l.request, &l.socket, func() {
		if s := &l.socket; l.target.is(s) {
			out = append(out, listener{
				inode: uint64(s.inode), path: l.target.path, queue: int(s.rqueue), max: int(s.wqueue), uid: -1,
			})
		}
	})
	return out, err
}

func (l *unixListeners) close() { l.d.close() }
