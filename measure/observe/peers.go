package observe

import (
	"cmp"
	"math"
	"net/netip"
	"slices"

	"ceiling/internal/sys"
	"ceiling/record"
)

// The connections that the subject keeps to others: which of the host's
// sockets that do not belong to a port it listens on are among its open files.
//
// The host's sockets are listed, and the open files of the subject are looked
// through (1 µs each) only when a socket has appeared of which it is not known
// whose it is. As long as the subject has as many files open as then and none
// of its sockets is gone, there is nothing new, and only these are asked for: a
// pool that stays as it is costs some microseconds a second. Lists are dear, so
// their rate is held down; a moment for which there should be one and is none
// has no row.

const (
	peersMost = 16
	// peerFilesMost is how many open files one sample looks through, 4 ms; the
	// next goes on from there.
	peerFilesMost = 4096
	// peerQuietMs is how long nothing goes either way on a quiet socket.
	peerQuietMs = 1000
	// peersByOne is how many sockets are asked for one by one, 0.3 ms.
	peersByOne = 64
	// peerListsFree is how many lists a run begins with whatever they cost: one
	// before the load has made the server connect, two for a pool to have come
	// to rest.
	peerListsFree = 3
)

// peerSampler samples them.
type peerSampler struct {
	t         *tools
	subject   *subject
	target    netip.AddrPort
	filesMost int
	tcp, unix *dumper
	questions []question
	request   []byte // about unix sockets

	socket     inetSocket
	unixSocket unixSocket
	exact      []byte // the question for one socket
	owners     *owners
	peerList
	peerOwners
	index     map[netip.AddrPort]int // in row.Peers
	pathIndex map[string]int
	names     map[netip.AddrPort]string
	peers     []record.Peer
	row       record.PeersRow
}

// peerList is the sockets at the last list of all of them.
type peerList struct {
	all       []peerSocket
	files     int                 // open files of the subject then; -1: the list is no longer good
	lists     int                 // in this run
	listedNs  int64               // when it was made
	listCost  int64               // ns of CPU
	listening map[uint16]struct{} // ports
	paths     map[uint32]string   // of unix sockets that have one, by inode
	peerOf    map[uint32]uint32   // of those that have none: inode of the other end
}

// peerOwners is whose a socket is.
type peerOwners struct {
	mine, was map[uint32]bool // by inode: whether a socket is the subject's, where that is known
	watched   []int           // processes that mine is about
	from      int             // open files to pass over: looked through by the last sample
	fds       []int           // open files
}

// newPeerSampler opens its netlink sockets in the calling thread's network
// namespace. target is the subject's own address, invalid for a unix socket's.
func newPeerSampler(t *tools, s *subject, target netip.AddrPort) (*peerSampler, error) {
	p := &peerSampler{
		t: t, subject: s, target: target, filesMost: peerFilesMost,
		questions: peerQuestions(target.Port()), request: unixRequest(1<<tcpEstablished, unixShows), exact: exactQuestion(),
		peerList: peerList{
			files: -1, listening: make(map[uint16]struct{}), paths: make(map[uint32]string), peerOf: make(map[uint32]uint32),
		},
		peerOwners: peerOwners{mine: make(map[uint32]bool), was: make(map[uint32]bool)},
		index:      make(map[netip.AddrPort]int), pathIndex: make(map[string]int), names: make(map[netip.AddrPort]string),
		peers: make([]record.Peer, 0, peersMost),
	}
	var err error
	if p.tcp, err = newDumper(netlinkSockDiag); err != nil {
		return nil, err
	}
	if p.unix, err = newDumper(netlinkSockDiag); err != nil {
		p.tcp.close()
		return nil, err
	}
	p.owners = newOwners(t, s, p.tcp)
	if p.listTCP() != nil {
		p.questions = peerQuestionsByFamily(target.Port())
		err = p.listTCP()
	}
	if err != nil {
		p.close()
		return nil, err
	}
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
		if p.lists >= peerListsFree && float64(at.tNs-p.listedNs)*sharePeers < float64(p.listCost) {
			return nil
		}
		if seen, err := p.list(at, files); err != nil || !seen {
			return err // where none of the processes may be looked into: no row rather than an empty one
		}
	}
	if err := p.owners.find(at, p.all, p.peerOf); err != nil {
		return err
	}
	p.sum()
	p.row.ObservedHead = at.head(record.KindPeers)
	emit(&p.row)
	return nil
}

// list makes a new list, and tells whether any of the subject's processes could
// be looked into.
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
	// A file that came or went while the list was made may be a socket that it
	// lacks: with as many files the next sample would take it for whole.
	if seen && !p.row.Cut && len(p.all) <= peersByOne && p.countFiles() == files {
		p.files = files
	}
	after, err := sys.SamplingThreadNs()
	p.lists, p.listedNs, p.listCost = p.lists+1, at.tNs, after-before
	return seen, err
}

// keepMine forgets the sockets that are not the subject's.
func (p *peerSampler) keepMine() {
	p.all = slices.DeleteFunc(p.all, func(s peerSocket) bool { return !p.mine[s.inode] })
}

// countFiles is how many files the subject has open, -1 where that may not be
// known.
func (p *peerSampler) countFiles() int {
	n := 0
	for _, one := range p.subject.processes {
		if one.gone || one.role != record.RoleSubject {
			continue
		}
		dir, err := sys.OpenBelow(one.dir, p.t.path.of("fd").end())
		if err != nil {
			return -1
		}
		count, err := sys.OpenFileCount(dir)
		closeFile(&dir)
		if err != nil || count == 0 { // a kernel before 6.2 does not tell
			return -1
		}
		n += count
	}
	return n
}

// noticeProcesses forgets whose sockets are whose when the subject's processes
// are others than before, and tells whether there are any.
func (p *peerSampler) noticeProcesses() bool {
	n, same := 0, true
	for _, one := range p.subject.processes {
		if one.gone || one.role != record.RoleSubject {
			continue
		}
		if n < len(p.watched) {
			same = same && p.watched[n] == one.pid
			p.watched[n] = one.pid
		} else {
			p.watched, same = append(p.watched, one.pid), false
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

// findMine decides which of the sockets are the subject's, and forgets those
// that are gone. It is false when no process could be looked into.
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
	p.row.Cut = false
	if unknown == 0 {
		return true
	}
	clear(p.was) // from here on: those that nobody was found to hold
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
	p.row.Cut = !whole
	return seen
}

// lookThroughFiles looks for the sockets of was among the subject's open
// files. It says whether it has seen all of them, and any.
func (p *peerSampler) lookThroughFiles() (whole, seen bool) {
	whole = p.from == 0
	skip, left := p.from, p.filesMost
	p.from = 0
	for _, one := range p.subject.processes {
		if one.gone || one.role != record.RoleSubject {
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

// sum groups the subject's sockets by the address they go to.
func (p *peerSampler) sum() {
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
	p.row.More = 0
	for _, one := range p.peers[min(len(p.peers), peersMost):] {
		p.row.More += one.Sockets + one.Connecting
	}
	p.row.Peers = p.peers[:min(len(p.peers), peersMost)]
}

// peer is the group of a socket, valid until the next one is made.
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

// nameOf writes an address once.
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
