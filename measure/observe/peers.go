//go:build linux

package observe

import (
	"cmp"
	"math"
	"net/netip"
	"slices"

	"ceiling/internal/sys"
	"ceiling/record"
)

// The connections that the subject keeps to others: sockets among its open files that do not belong
// to a port it listens on.
//
// The sampler lists the host's sockets, and searches the subject's open files (1 µs each) only when
// a socket of unknown owner has appeared. As long as the subject has the same number of open files
// and none of its sockets is gone, nothing is new, and it only looks up these sockets: a stable
// pool costs some microseconds a second. Lists are expensive, so their rate is limited; if a list
// is due but not affordable, there is no row.

const (
	peersMost = 16
	// peerFilesMost is how many open files one sample searches, 4 ms; the next continues from
	// there.
	peerFilesMost = 4096
	// peerQuietMs is how long a quiet socket has had no traffic in either direction.
	peerQuietMs = 1000
	// peersByOne is how many sockets are looked up one by one, 0.3 ms.
	peersByOne = 64
	// peerListsFree is how many lists a run may make at any cost: one before the load makes the
	// server connect, and two in the window, where requests are seen to wait.
	peerListsFree = 3
)

// peerSampler samples these connections.
type peerSampler struct {
	t         *tools
	subject   *subject
	target    netip.AddrPort
	filesMost int
	tcp       *socketLister
	unix      *dumper
	request   []byte // about unix sockets

	unixSocket unixSocket
	exact      []byte // the question for one socket
	owners     *owners
	peerList
	peerOwners
	index     map[netip.AddrPort]int // in peers
	pathIndex map[string]int
	names     map[netip.AddrPort]string
	peers     []record.Peer
	cut       bool // not all open files could be inspected for the last list
}

// peerList has the sockets of the last full list.
type peerList struct {
	all       []peerSocket
	files     int                 // open files of the subject then; -1: the list is stale
	lists     int                 // in this run
	listedNs  int64               // when it was made
	listCost  int64               // ns of CPU
	listening map[uint16]struct{} // ports
	paths     map[uint32]string   // of unix sockets with a path, by inode
	peerOf    map[uint32]uint32   // of unix sockets without: inode of the other end
}

// peerOwners records which process owns a socket.
type peerOwners struct {
	mine, was map[uint32]bool // by inode: whether a socket is the subject's, if known
	watched   []int           // processes that mine is about
	from      int             // open files to skip: searched by the last sample
	fds       []int           // open files
}

// newPeerSampler opens its netlink sockets in the calling thread's network namespace. target is the
// subject's own address, invalid for a unix socket.
func newPeerSampler(t *tools, s *subject, target netip.AddrPort) (*peerSampler, error) {
	p := &peerSampler{
		t: t, subject: s, target: target, filesMost: peerFilesMost,
		request: unixRequest(1<<tcpEstablished, unixShows), exact: exactQuestion(),
		peerList: peerList{
			files: -1, listening: make(map[uint16]struct{}), paths: make(map[uint32]string), peerOf: make(map[uint32]uint32),
		},
		peerOwners: peerOwners{mine: make(map[uint32]bool), was: make(map[uint32]bool)},
		index:      make(map[netip.AddrPort]int), pathIndex: make(map[string]int), names: make(map[netip.AddrPort]string),
		peers: make([]record.Peer, 0, peersMost),
	}
	var err error
	if p.tcp, err = newSocketLister(peerListing(target.Port())); err != nil {
		return nil, err
	}
	if p.unix, err = newDumper(netlinkSockDiag); err != nil {
		p.tcp.close()
		return nil, err
	}
	p.owners = newOwners(t, s, p.tcp.dumper)
	return p, nil
}

func (p *peerSampler) close() {
	p.tcp.close()
	p.unix.close()
}

func (p *peerSampler) sample(at tick, emit Emit) error {
	if at.first() {
		p.lists, p.files = 0, -1
	}
	if !p.noticeProcesses() {
		return nil
	}
	files := p.countFiles()
	fresh := files >= 0 && files == p.files
	if fresh {
		var err error
		if fresh, err = p.refresh(); err != nil {
			return err
		}
	}
	if !fresh {
		free := p.lists < peerListsFree && (at.tNs >= 0 || p.lists == 0)
		if !free && float64(at.tNs-p.listedNs)*sharePeers < float64(p.listCost) {
			return nil
		}
		if seen, err := p.list(at, files); err != nil || !seen {
			return err // no process may be inspected: no row rather than an empty one
		}
	}
	if err := p.owners.find(at, p.all, p.peerOf); err != nil {
		return err
	}
	emit(p.sum(at))
	return nil
}

// list makes a new list, and reports whether any of the subject's processes could be inspected.
func (p *peerSampler) list(at tick, files int) (seen bool, err error) {
	before, err := sys.SamplingThreadNs()
	if err != nil {
		return false, err
	}
	p.files = -1
	p.all = p.all[:0]
	if err := p.listTCP(); err != nil {
		return false, err
	}
	if err := p.listUnix(); err != nil {
		return false, err
	}
	seen = p.findMine()
	p.keepMine()
	// A file opened or closed while the list was made may be a socket that it lacks: with the same
	// number of files the next sample would take it for complete.
	if seen && !p.cut && len(p.all) <= peersByOne && p.countFiles() == files {
		p.files = files
	}
	after, err := sys.SamplingThreadNs()
	p.lists, p.listedNs, p.listCost = p.lists+1, at.tNs, after-before
	return seen, err
}

// keepMine drops the sockets that are not the subject's.
func (p *peerSampler) keepMine() {
	p.all = slices.DeleteFunc(p.all, func(s peerSocket) bool { return !p.mine[s.inode] })
}

// countFiles returns how many files the subject has open, -1 if unknown.
func (p *peerSampler) countFiles() int {
	n := 0
	for _, one := range p.subject.processes {
		if one.gone || one.identity.role != record.RoleSubject {
			continue
		}
		count, err := sys.OpenFileCount(one.dir, p.t.path.of("fd").end())
		if err != nil || count == 0 { // kernels before 6.2 do not report it
			return -1
		}
		n += count
	}
	return n
}

// noticeProcesses drops the ownership of sockets when the subject's processes have changed, and
// reports whether there are any.
func (p *peerSampler) noticeProcesses() bool {
	n, same := 0, true
	for _, one := range p.subject.processes {
		if one.gone || one.identity.role != record.RoleSubject {
			continue
		}
		if n < len(p.watched) {
			same = same && p.watched[n] == one.identity.pid
			p.watched[n] = one.identity.pid
		} else {
			p.watched, same = append(p.watched, one.identity.pid), false
		}
		n++
	}
	if same = same && n == len(p.watched); !same {
		clear(p.mine)
		p.from, p.files = 0, -1
	}
	p.watched = p.watched[:n]
	return n > 0
}

// findMine decides which sockets are the subject's, and drops those that are gone. It returns false
// if no process could be inspected.
func (p *peerSampler) findMine() bool {
	p.mine, p.was = p.was, p.mine
	clear(p.mine)
	unknown := 0
	for i := range p.all {
		inode := p.all[i].inode
		if is, known := p.was[inode]; known {
			p.mine[inode] = is
		} else {
			unknown++
		}
	}
	p.cut = false
	if unknown == 0 {
		return true
	}
	clear(p.was) // from here on: those without a known owner
	for i := range p.all {
		if _, known := p.mine[p.all[i].inode]; !known {
			p.was[p.all[i].inode] = true
		}
	}
	whole, seen := p.lookThroughFiles()
	if whole {
		for inode := range p.was {
			p.mine[inode] = false
		}
	}
	p.cut = !whole
	return seen
}

// lookThroughFiles searches the subject's open files for the sockets of was. It reports whether it
// has seen all of them, and any.
func (p *peerSampler) lookThroughFiles() (whole, seen bool) {
	whole = p.from == 0
	skip, left := p.from, p.filesMost
	p.from = 0
	for _, one := range p.subject.processes {
		if one.gone || one.identity.role != record.RoleSubject {
			continue
		}
		err := p.listFiles(one)
		if vanished(err) {
			continue
		}
		if err != nil {
			whole = false
			p.subject.missOf(one, "its connections to others", err)
			continue
		}
		seen = true
		passed := min(skip, len(p.fds))
		skip -= passed
		fds := p.fds[passed:]
		if len(fds) > left {
			p.from = p.from + passed + left
			p.lookAt(one, fds[:left])
			return false, true
		}
		p.from += len(p.fds)
		left -= len(fds)
		p.lookAt(one, fds)
	}
	p.from = 0
	return whole, seen
}

func (p *peerSampler) listFiles(one *process) error {
	dir, err := sys.OpenBelow(one.dir, p.t.path.of("fd").end())
	if err != nil {
		return err
	}
	defer closeFile(&dir)
	p.fds, err = p.t.list.numbers(dir, p.fds)
	return err
}

func (p *peerSampler) lookAt(one *process, fds []int) {
	dir, err := sys.OpenBelow(one.dir, p.t.path.of("fd").end())
	if err != nil {
		return // gone since its files were listed
	}
	defer closeFile(&dir)
	for _, fd := range fds {
		inode, ok := p.t.socketInode(dir, fd)
		if !ok || inode > math.MaxUint32 {
			continue
		}
		if p.was[uint32(inode)] {
			p.mine[uint32(inode)] = true
			delete(p.was, uint32(inode))
		}
	}
}

// sum groups the subject's sockets by their remote address.
func (p *peerSampler) sum(at tick) *record.PeersRow {
	p.peers = p.peers[:0]
	clear(p.index)
	clear(p.pathIndex)
	for i := range p.all {
		to := p.peer(&p.all[i])
		addPeer(to, &p.all[i])
		if to.PID == 0 {
			to.PID = p.owners.pidOf(&p.all[i])
		}
	}
	slices.SortStableFunc(p.peers, func(a, b record.Peer) int {
		return cmp.Or(cmp.Compare(b.Sockets+b.Connecting, a.Sockets+a.Connecting), cmp.Compare(a.Addr, b.Addr))
	})
	most := p.peers[:min(len(p.peers), peersMost)]
	row := &record.PeersRow{ObservedHead: at.head(record.KindPeers), Peers: slices.Clone(most), Cut: p.cut}
	for _, one := range p.peers[len(most):] {
		row.More += one.Sockets + one.Connecting
	}
	return row
}

// peer returns the group of a socket, valid until the next one is made.
func (p *peerSampler) peer(s *peerSocket) *record.Peer {
	if s.path != "" {
		i, ok := p.pathIndex[s.path]
		if !ok {
			i = len(p.peers)
			p.pathIndex[s.path] = i
			p.peers = append(p.peers, record.Peer{Addr: s.path, Awaiting: -1, Quiet: -1})
		}
		return &p.peers[i]
	}
	i, ok := p.index[s.remote]
	if !ok {
		i = len(p.peers)
		p.index[s.remote] = i
		p.peers = append(p.peers, record.Peer{Addr: p.nameOf(s.remote)})
	}
	return &p.peers[i]
}

// nameOf formats an address once.
func (p *peerSampler) nameOf(a netip.AddrPort) string {
	name, ok := p.names[a]
	if !ok {
		if len(p.names) >= maxInterned {
			clear(p.names)
		}
		name = a.String()
		p.names[a] = name
	}
	return name
}

func addPeer(to *record.Peer, s *peerSocket) {
	if s.connecting {
		to.Connecting++
		return
	}
	one := func(n *int, is bool) {
		if is {
			*n++
		}
	}
	to.Sockets++
	one(&to.Unread, s.unread)
	one(&to.Unacked, s.unacked)
	one(&to.Awaiting, s.awaiting)
	one(&to.Quiet, s.quiet)
}
