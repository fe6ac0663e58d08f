//go:build linux

package observe

import (
	"math"
	"slices"
	"strconv"
	"syscall"

	"ceiling/internal/sys"
	"ceiling/record"
)

// The processes at the other end of the subject's connections, if they run on this host: a
// database, a cache, another server. The owners ask the kernel for the other end's socket by its
// addresses (5 µs each), and search the open files of the host's processes for its inode (1 µs
// each). A server that forks per connection is found through any of its children: it is the
// outermost process of the same program, and its children of that program belong to it.

const (
	// ownersMost is how many connections are followed to their other end.
	ownersMost = peersByOne
	// ownerTries is how often an end that is not yet accepted is looked up.
	ownerTries = 5
	// peerProcessesMost bounds the peer processes that are watched.
	peerProcessesMost = 64
	// ancestorsMost bounds the walk up to the outermost process.
	ancestorsMost = 8
	// scansFree is how many scans of all processes a run may do at any cost.
	scansFree = 2
)

// owners finds them.
type owners struct {
	t       *tools
	subject *subject
	diag    *dumper
	exact   []byte // the question for one socket

	mates  map[uint32]*remoteEnd // by the inode of the subject's end
	wanted map[uint32]int        // inodes of other ends that are searched for, and their process once found
	socket inetSocket
	pids   []int
	fds    []int

	scans     int // scans of all processes, in this run
	scannedNs int64
	scanCost  int64 // ns of CPU
}

// remoteEnd is the other end of a connection.
type remoteEnd struct {
	inode uint32 // 0: unknown
	pid   int    // 0: unknown, or not on this host
	tries int
	done  bool // searched for among all processes
	kept  bool // its connection still exists
}

func newOwners(t *tools, s *subject, diag *dumper) *owners {
	return &owners{t: t, subject: s, diag: diag, exact: exactQuestion(), mates: make(map[uint32]*remoteEnd), wanted: make(map[uint32]int)}
}

// find looks for those not known yet. all are the subject's connections, unix the other ends of its
// unix sockets.
func (o *owners) find(at tick, all []peerSocket, unix map[uint32]uint32) error {
	if at.first() {
		o.scans = 0
	}
	for _, m := range o.mates {
		m.kept = false
	}
	clear(o.wanted)
	for i := range all[:min(len(all), ownersMost)] {
		s := &all[i]
		m := o.mates[s.inode]
		if m == nil {
			m = &remoteEnd{}
			o.mates[s.inode] = m
		}
		m.kept = true
		if m.inode == 0 && m.tries < ownerTries && !s.connecting {
			m.tries++
			var err error
			if m.inode, err = o.otherEnd(s, unix); err != nil {
				return err
			}
		}
		if m.inode != 0 && !m.done && m.pid == 0 {
			o.wanted[m.inode] = 0
		}
	}
	for inode, m := range o.mates {
		if !m.kept {
			delete(o.mates, inode)
		}
	}
	if len(o.wanted) == 0 {
		return nil
	}
	return o.search(at)
}

// pidOf returns the process at the other end of a connection, 0 if unknown.
func (o *owners) pidOf(s *peerSocket) int {
	if m := o.mates[s.inode]; m != nil {
		return m.pid
	}
	return 0
}

// otherEnd returns the inode of the socket at the other end; 0 if this network namespace has none,
// or it is not yet accepted.
func (o *owners) otherEnd(s *peerSocket, unix map[uint32]uint32) (uint32, error) {
	if s.path != "" {
		return unix[s.inode], nil
	}
	other := peerSocket{family: s.family, own: s.remote, remote: s.own}
	other.askAny(o.exact)
	if err := o.diag.ask(o.exact, sockDiagByFamily, 0); err != nil {
		return 0, err
	}
	body, more, err := o.diag.next()
	if _, is := err.(syscall.Errno); is || !more && err == nil { // ENOENT: it is not here; as in refresh
		return 0, nil
	}
	if err != nil {
		return 0, err
	}
	if err := parseInetSocket(body, &o.socket); err != nil {
		return 0, err
	}
	if o.socket.state == tcpListen { // the kernel's result if no socket is connected there
		return 0, nil
	}
	return o.socket.inode, nil
}

// search looks through open files: those of the watched processes and, if that does not suffice, of
// all.
func (o *owners) search(at tick) error {
	for _, p := range o.subject.processes {
		if !p.gone && p.identity.role == record.RolePeer {
			o.lookInto(p.identity.pid)
		}
	}
	if o.settle(false) {
		return nil
	}
	if o.scans >= scansFree && float64(at.tNs-o.scannedNs)*sharePeers < float64(o.scanCost) {
		return nil
	}
	before, err := sys.SamplingThreadNs()
	if err != nil {
		return err
	}
	if o.pids, err = o.t.list.numbers(o.t.procDir, o.pids); err != nil {
		return err
	}
	refused := 0
	for _, pid := range o.pids {
		if denied(o.lookInto(pid)) {
			refused++
		}
	}
	if !o.settle(true) && refused > 0 {
		o.subject.miss("peers' processes", "the server's connections lead to processes of this host, and reading their open files needs root: run as root")
	}
	after, err := sys.SamplingThreadNs()
	o.scans, o.scannedNs, o.scanCost = o.scans+1, at.tNs, after-before
	return err
}

// lookInto searches a process's open files for the ends.
func (o *owners) lookInto(pid int) error {
	dir, err := sys.OpenBelow(o.t.procDir, o.t.path.of("").number(pid).text("/fd").end())
	if err != nil {
		return err
	}
	defer closeFile(&dir)
	if o.fds, err = o.t.list.numbers(dir, o.fds); err != nil {
		return err
	}
	for _, fd := range o.fds {
		inode, ok := o.t.socketInode(dir, fd)
		if !ok || inode > math.MaxUint32 {
			continue
		}
		if _, is := o.wanted[uint32(inode)]; is {
			o.wanted[uint32(inode)] = pid
		}
	}
	return nil
}

// settle assigns what was found, and reports whether that was all.
func (o *owners) settle(final bool) (all bool) {
	all = true
	for _, m := range o.mates {
		pid, is := o.wanted[m.inode]
		switch {
		case !is || m.done || m.pid != 0:
		case pid != 0:
			m.pid, m.done = o.peer(pid), true
			delete(o.wanted, m.inode)
		default:
			m.done = final
			all = false
		}
	}
	return all
}

// peer starts watching the server of a process, and returns its outermost process; 0 if that is the
// subject or the generator itself.
func (o *owners) peer(pid int) int {
	root := o.outermost(pid)
	for _, p := range o.subject.processes {
		if p.gone || p.identity.pid != pid && p.identity.pid != root {
			continue
		}
		if p.identity.role != record.RolePeer {
			return 0
		}
		if p.identity.pid == root {
			return root
		}
	}
	if err := o.subject.watch(record.RolePeer, root, "answers the server"); err != nil {
		if !vanished(err) {
			o.subject.miss("process at the other end of the server's connections", err.Error())
		}
		return 0
	}
	o.subject.adoptPeers(o.pids)
	return root
}

// outermost walks up from a process while the program stays the same.
func (o *owners) outermost(pid int) int {
	exe := o.t.exeOf(pid)
	for range ancestorsMost {
		parent, ok := o.t.parentOf(pid)
		if !ok || parent <= 1 || exe == "" || o.t.exeOf(parent) != exe || o.ours(parent) {
			break
		}
		pid = parent
	}
	return pid
}

// ours reports whether a process is the subject's or the generator. A database that one of them
// started is not part of it.
func (o *owners) ours(pid int) bool {
	return slices.ContainsFunc(o.subject.processes, func(p *process) bool {
		return p.identity.pid == pid && p.identity.role != record.RolePeer && !p.gone
	})
}

// exeOf returns a process's program, "" if it may not be read.
func (t *tools) exeOf(pid int) string {
	n, err := sys.LinkBelow(t.procDir, t.path.of("").number(pid).text("/exe").end(), t.link[:])
	if err != nil {
		return ""
	}
	return t.names.of(t.link[:n])
}

// parentOf is a process's parent.
func (t *tools) parentOf(pid int) (int, bool) {
	text, err := t.r.below(t.procDir, t.path.of("").number(pid).text("/stat").end())
	if err != nil {
		return 0, false
	}
	var st sys.PIDStat
	if err := sys.ParsePIDStat(text, &st); err != nil || st.Ended() {
		return 0, false
	}
	return st.Parent, true
}

// peerWatched returns the watched peer process with this PID, nil if there is none.
func (s *subject) peerWatched(pid int) *process {
	for _, p := range s.processes {
		if p.identity.pid == pid && p.identity.role == record.RolePeer && !p.gone {
			return p
		}
	}
	return nil
}

// watchPeerChild watches a child of a peer process that runs the same program: a backend, a worker,
// a writer.
func (s *subject) watchPeerChild(pid, parent int) error {
	of := s.peerWatched(parent)
	if of == nil || of.identity.exe == "" || s.t.exeOf(pid) != of.identity.exe || s.peerCount() >= peerProcessesMost {
		return nil
	}
	return s.watch(record.RolePeer, pid, "child of "+strconv.Itoa(parent))
}

func (s *subject) peerCount() int {
	n := 0
	for _, p := range s.processes {
		if p.identity.role == record.RolePeer && !p.gone {
			n++
		}
	}
	return n
}

// adoptPeers looks for children that are older than the watch on their parent.
func (s *subject) adoptPeers(pids []int) {
	for before := -1; before != len(s.processes); {
		before = len(s.processes)
		for _, pid := range pids {
			if slices.ContainsFunc(s.processes, func(p *process) bool { return p.identity.pid == pid && !p.gone }) {
				continue
			}
			if parent, ok := s.t.parentOf(pid); ok {
				if err := s.watchPeerChild(pid, parent); err != nil && !vanished(err) {
					s.miss("a process of the server's peers", err.Error())
				}
			}
		}
	}
}
