//go:build linux

package observe

import (
	"errors"
	"fmt"
	"slices"
	"strconv"
	"strings"
	"syscall"

	"ceiling/internal/sys"
	"ceiling/record"
)

// Finding the subject: the target's listening sockets have inodes, and the processes that hold one
// of them open are the server; so are their children. A slow scan of /proc finds new ones. It only
// inspects new processes, or all when the listeners changed.

// subject is the set of watched processes.
type subject struct {
	t         *tools
	target    string // in words
	processes []*process
	listeners []listener
	changed   bool // the listeners changed since the last look
	held      map[uint64][]int

	known    []int // inspected already, ascending
	again    []int // could not be inspected this time
	now      []int
	fds      []int
	ended    map[int]struct{} // PIDs of watched processes that are gone
	denied   int              // processes whose files are not readable, in the last look
	deniedAt string           // one of them

	// joined is called for each process found, missing for what could not be read.
	joined  func(*process)
	missing func(what, why string)
	said    map[string]bool
}

func newSubject(t *tools, target string) *subject {
	return &subject{
		t: t, target: target, held: make(map[uint64][]int), ended: make(map[int]struct{}), said: make(map[string]bool),
		joined: func(*process) {}, missing: func(string, string) {},
	}
}

// noticeListeners records the current listeners.
func (s *subject) noticeListeners(found []listener) {
	same := len(found) == len(s.listeners)
	for i := 0; same && i < len(found); i++ {
		same = found[i].inode == s.listeners[i].inode || s.knowsListener(found[i].inode)
	}
	if !same {
		s.listeners = append(s.listeners[:0], found...)
		s.changed = true
	}
}

func (s *subject) knowsListener(inode uint64) bool {
	for i := range s.listeners {
		if s.listeners[i].inode == inode {
			return true
		}
	}
	return false
}

// holders returns the processes that hold a socket, as of the last look; the list only grows behind its end.
func (s *subject) holders(inode uint64) []int { return s.held[inode] }

// addrText formats a listener's address.
func (s *subject) addrText(l *listener) string {
	if l.path != "" {
		return l.path
	}
	for i := range s.listeners {
		if k := &s.listeners[i]; k.inode == l.inode && k.addr == l.addr {
			if k.path == "" {
				k.path = l.addr.String() // kept, so that it is formatted once
			}
			return k.path
		}
	}
	return l.addr.String()
}

// watch adds a process by its PID. It may be watched already.
func (s *subject) watch(role string, pid int, how string) error {
	for _, p := range s.processes {
		if p.identity.pid == pid && p.identity.role == role {
			return nil
		}
	}
	p, err := openProcess(s.t, role, pid)
	if err != nil {
		return err
	}
	p.identity.how = how
	s.processes = append(s.processes, p)
	s.joined(p)
	return nil
}

// isSubject reports whether a process is part of the subject.
func (s *subject) isSubject(pid int) bool {
	for _, p := range s.processes {
		if p.identity.pid == pid && p.identity.role == record.RoleSubject && !p.gone {
			return true
		}
	}
	return false
}

// look lists /proc and inspects the new processes, or all of them when the listeners changed.
func (s *subject) look() error {
	var err error
	if s.now, err = s.t.list.numbers(s.t.procDir, s.now); err != nil {
		return fmt.Errorf("list processes: %w", err)
	}
	all := s.changed
	if all {
		s.changed = false
		clear(s.held)
		s.denied, s.deniedAt = 0, ""
	}
	before := len(s.processes)
	s.again = s.again[:0]
	i := 0
	for _, pid := range s.now {
		for i < len(s.known) && s.known[i] < pid {
			i++
		}
		if !all && i < len(s.known) && s.known[i] == pid {
			continue
		}
		if err := s.lookInto(pid); err != nil && !vanished(err) {
			s.again = append(s.again, pid)
			s.miss("process "+strconv.Itoa(pid), fmt.Sprintf("whether it is part of the server was not to be seen: %v", err))
		}
	}
	for before < len(s.processes) {
		before = len(s.processes)
		s.adopt()
	}
	s.now = slices.DeleteFunc(s.now, func(pid int) bool { return slices.Contains(s.again, pid) })
	s.known, s.now = s.now, s.known
	if all {
		s.reportUnowned()
	}
	return nil
}

// lookInto decides whether a process is part of the subject.
func (s *subject) lookInto(pid int) error {
	err := s.lookForListeners(pid)
	if denied(err) {
		s.denied++
		if s.deniedAt == "" {
			s.deniedAt = fmt.Sprintf("process %d", pid)
		}
		err = nil
	}
	if err != nil || s.isSubject(pid) {
		return err
	}
	return s.watchChild(pid)
}

// adopt looks again for children of processes that have just joined: a child's PID may be listed
// before its parent's.
func (s *subject) adopt() {
	for _, pid := range s.now {
		if s.isSubject(pid) {
			continue
		}
		if err := s.watchChild(pid); err != nil && !vanished(err) {
			s.again = append(s.again, pid)
		}
	}
}

// watchChild watches a process if its parent is part of the subject.
func (s *subject) watchChild(pid int) error {
	text, err := s.t.r.below(s.t.procDir, s.t.path.of("").number(pid).text("/stat").end())
	if err != nil {
		return err
	}
	var st sys.PIDStat
	if err := sys.ParsePIDStat(text, &st); err != nil {
		return err
	}
	switch {
	case st.Ended():
		return nil
	case s.isSubject(st.Parent):
		return s.watch(record.RoleSubject, pid, fmt.Sprintf("child of %d", st.Parent))
	}
	return s.watchPeerChild(pid, st.Parent)
}

// lookForListeners searches a process's open files for the listeners.
func (s *subject) lookForListeners(pid int) error {
	if len(s.listeners) == 0 {
		return nil
	}
	dir, err := sys.OpenBelow(s.t.procDir, s.t.path.of("").number(pid).text("/fd").end())
	if err != nil {
		return err
	}
	defer closeFile(&dir)
	if s.fds, err = s.t.list.numbers(dir, s.fds); err != nil {
		return err
	}
	for _, fd := range s.fds {
		inode, ok := s.t.socketInode(dir, fd)
		if !ok {
			continue
		}
		for i := range s.listeners {
			if s.listeners[i].inode == inode {
				if err := s.holds(pid, &s.listeners[i]); err != nil {
					return err
				}
			}
		}
	}
	return nil
}

// holds records that a process has a listener open.
func (s *subject) holds(pid int, l *listener) error {
	if !slices.Contains(s.held[l.inode], pid) {
		s.held[l.inode] = append(s.held[l.inode], pid)
	}
	if err := s.watch(record.RoleSubject, pid, "listens on "+s.addrText(l)); err != nil {
		return err
	}
	for _, p := range s.processes {
		if p.identity.pid == pid && p.identity.role == record.RoleSubject && !slices.Contains(p.identity.listeners, l.inode) {
			p.identity.listeners = append(p.identity.listeners, l.inode)
		}
	}
	return nil
}

// socketInode returns which socket a descriptor of a process is; false for anything else, and for
// one closed by now.
func (t *tools) socketInode(fdDir, fd int) (uint64, bool) {
	n, err := sys.LinkBelow(fdDir, t.path.of("").number(fd).end(), t.link[:])
	if err != nil {
		return 0, false
	}
	return parseSocketLink(t.link[:n])
}

func denied(err error) bool {
	return errors.Is(err, syscall.EACCES) || errors.Is(err, syscall.EPERM)
}

// reportUnowned reports what a full look left open.
func (s *subject) reportUnowned() {
	if len(s.listeners) == 0 {
		return
	}
	var without []string
	for i := range s.listeners {
		l := &s.listeners[i]
		if len(s.held[l.inode]) == 0 {
			owner := ""
			if l.uid >= 0 {
				owner = fmt.Sprintf(" (of user %d)", l.uid)
			}
			without = append(without, s.addrText(l)+owner)
		}
	}
	switch {
	case len(without) > 0 && s.denied > 0:
		s.miss("subject", fmt.Sprintf("no process was found that listens on %s; the open files of %d processes (%s first) may not be read: "+
			"run as the server's user or as root, or name the server's process", strings.Join(without, ", "), s.denied, s.deniedAt))
	case len(without) > 0:
		s.miss("subject", fmt.Sprintf("no process in this PID namespace holds %s: the server runs outside of it", strings.Join(without, ", ")))
	}
}

// miss reports a gap once.
func (s *subject) miss(what, why string) {
	if !s.said[what+why] {
		s.said[what+why] = true
		s.missing(what, why)
	}
}

// missOf reports once what could not be read of one process. Sources of the others continue, and so
// do this one's, in case it changes.
func (s *subject) missOf(p *process, what string, err error) {
	s.miss(fmt.Sprintf("process %d (%s): %s", p.identity.pid, p.identity.comm, what), err.Error())
}

// announce emits a row for each process that has joined since the last call.
func (s *subject) announce(at tick, emit Emit) {
	for _, p := range s.processes {
		if p.announced {
			continue
		}
		p.announced = true
		event := record.SubjectFound
		if _, again := s.ended[p.identity.pid]; again {
			event = record.SubjectRestarted
		}
		s.emit(p, event, at, emit)
	}
}

// bury emits a row for each process that is gone, and drops it.
func (s *subject) bury(at tick, emit Emit) {
	kept := s.processes[:0]
	for _, p := range s.processes {
		if !p.gone {
			kept = append(kept, p)
			continue
		}
		s.ended[p.identity.pid] = struct{}{}
		if i, ok := slices.BinarySearch(s.known, p.identity.pid); ok {
			s.known = slices.Delete(s.known, i, i+1) // the PID may be reused
		}
		s.emit(p, record.SubjectGone, at, emit)
		p.close(s.t)
	}
	clear(s.processes[len(kept):])
	s.processes = kept
}

func (s *subject) emit(p *process, event string, at tick, emit Emit) {
	row := &record.SubjectRow{
		ObservedHead: at.head(record.KindSubject), Event: event, Role: p.identity.role, PID: p.identity.pid, ParentPID: p.identity.ppid,
		StartTicks: p.identity.startTicks, Comm: p.identity.comm, Exe: p.identity.exe, CPUsAllowed: p.identity.cpus, Cgroup: p.identity.cgroup,
		Listeners: p.identity.listeners, FilesMax: p.identity.filesMax, How: p.identity.how,
	}
	row.WidthNs, row.Late = 0, false
	emit(row)
}

func (s *subject) close() {
	for _, p := range s.processes {
		p.close(s.t)
	}
	s.processes = nil
}

// subjectSampler looks for new processes of the subject.
type subjectSampler struct {
	subject *subject
}

func (s *subjectSampler) sample(_ tick, _ Emit) error { return s.subject.look() }

func (s *subjectSampler) close() {}

// spreadSampler counts the target's connections by owning process. It reads every descriptor of the
// subject, about 1 µs each, so it runs seldom; its counts go into the next ListenerRow.
type spreadSampler struct {
	*connections
	t       *tools
	subject *subject
	fds     []int
	owner   map[uint32]int // index in counts by inode
	counts  []record.ProcessConnections
	unowned int
	fresh   bool
	visit   func(end, *inetSocket)
}

func newSpreadSampler(t *tools, s *subject, c *connections) *spreadSampler {
	sp := &spreadSampler{connections: c, t: t, subject: s, owner: make(map[uint32]int)}
	sp.visit = func(e end, socket *inetSocket) {
		if e != endServer || socket.inode == 0 || socket.state != tcpEstablished && socket.state != tcpCloseWait {
			return
		}
		if i, ok := sp.owner[socket.inode]; ok {
			sp.counts[i].Connections++
		} else {
			sp.unowned++
		}
	}
	return sp
}

func (s *spreadSampler) sample(_ tick, _ Emit) error {
	clear(s.owner)
	s.counts, s.unowned, s.fresh = nil, 0, false
	for _, p := range s.subject.processes {
		if p.gone || p.identity.role != record.RoleSubject {
			continue
		}
		s.counts = append(s.counts, record.ProcessConnections{PID: p.identity.pid})
		if err := s.own(p, len(s.counts)-1); err != nil && !vanished(err) && !denied(err) {
			s.subject.missOf(p, "its open files", err)
		}
	}
	if err := s.each(s.visit); err != nil {
		return err
	}
	s.fresh = true
	return nil
}

// own records the sockets of one process. A socket held by several counts for the first.
func (s *spreadSampler) own(p *process, index int) error {
	dir, err := sys.OpenBelow(p.dir, s.t.path.of("fd").end())
	if err != nil {
		return err
	}
	defer closeFile(&dir)
	if s.fds, err = s.t.list.numbers(dir, s.fds); err != nil {
		return err
	}
	for _, fd := range s.fds {
		inode, ok := s.t.socketInode(dir, fd)
		if !ok {
			continue
		}
		if _, taken := s.owner[uint32(inode)]; !taken {
			s.owner[uint32(inode)] = index
		}
	}
	return nil
}

// take returns the counts once.
func (s *spreadSampler) take() ([]record.ProcessConnections, int) {
	if !s.fresh {
		return nil, 0
	}
	s.fresh = false
	return s.counts, s.unowned
}
