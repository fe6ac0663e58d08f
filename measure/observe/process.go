//go:build linux

package observe

import (
	"errors"
	"slices"
	"syscall"

	"ceiling/internal/sys"
	"ceiling/record"
)

// The watched processes: the subject's, the generator's, and those of the servers that the subject
// is connected to, which have samplers of their own, so that a large number of them costs the
// subject no row. Three samplers share them, because their costs differ: processSampler reads CPU
// times at every sample, stateSampler what each thread is doing, switchSampler what needs the long
// files. The results of the last two go into the next row of the first.

const (
	// busiestThreads and commonWaits bound a row.
	busiestThreads = 8
	commonWaits    = 16

	tickNs = sys.TickNs
)

// process is one watched process. Its files stay open: once it is gone they return ESRCH, even if
// its PID has been reused.
type process struct {
	identity  identity
	usage     usage
	looks     looks
	gone      bool
	announced bool
	dir, stat int // descriptors of /proc/PID and its stat
}

// identity has the constant facts about a process, as in record.SubjectRow.
type identity struct {
	role       string
	pid        int
	ppid       int
	startTicks uint64
	comm, exe  string
	cpus       string
	cgroup     string
	how        string
	filesMax   int64
	listeners  []uint64
}

// usage has the CPU time of a process and its threads.
type usage struct {
	read         bool // the times are from an earlier sample
	lastNs       int64
	cpuNs        int64
	utime, stime uint64
	threads      []thread
	cut          bool                // there are more threads, beyond the limit
	busiest      [busiestThreads]int // indexes into threads
}

// looks has what only some samples read: states, switches, files and blocks.
type looks struct {
	states     record.ThreadCount
	waits      []record.WaitCount
	looked     bool // states and waits are new
	vol, invol int64
	switchesNs int64 // 0: nothing new
	switchesAt int64 // last reading, 0: never
	openFiles  int   // 0: nothing new, -1: not permitted

	readBytes, writtenBytes   int64 // over switchesNs; -1: not readable
	ioRead                    bool
	lastReadBytes, lastWrites uint64
}

// thread is one of its threads.
type thread struct {
	tid            int
	file           int // schedstat, or stat if the kernel has none
	comm           string
	runNs, queueNs uint64
	dRun, dQueue   int64
	state          byte
	wchan          string
	vol, invol     uint64
	switchesRead   bool
}

// openProcess opens a process of /proc. The error is ENOENT or ESRCH if it is gone already.
func openProcess(t *tools, role string, pid int) (*process, error) {
	p := &process{identity: identity{role: role, pid: pid}, dir: -1, stat: -1}
	var err error
	if p.dir, err = sys.OpenBelow(t.procDir, t.path.of("").number(pid).end()); err != nil {
		return nil, err
	}
	if p.stat, err = sys.OpenBelow(p.dir, t.path.of("stat").end()); err != nil {
		p.close(t)
		return nil, err
	}
	if err := p.describe(t); err != nil {
		p.close(t)
		return nil, err
	}
	return p, nil
}

// describe reads the facts that are constant, or change seldom.
func (p *process) describe(t *tools) error {
	text, err := t.r.single(p.stat)
	if err != nil {
		return err
	}
	var st sys.PIDStat
	if err := sys.ParsePIDStat(text, &st); err != nil {
		return err
	}
	if st.Ended() {
		return syscall.ESRCH
	}
	p.identity.ppid, p.identity.startTicks, p.identity.comm = st.Parent, st.StartTicks, t.names.of(st.Comm)
	if text, err = t.r.below(p.dir, t.path.of("status").end()); err != nil {
		return err
	}
	var status sys.PIDStatus
	if err := sys.ParsePIDStatus(text, &status); err != nil {
		return err
	}
	p.identity.cpus = string(status.CPUsAllowed)
	if text, err := t.r.below(p.dir, t.path.of("limits").end()); err == nil {
		p.identity.filesMax = parseOpenFilesLimit(text)
	}
	if n, err := sys.LinkBelow(p.dir, t.path.of("exe").end(), t.link[:]); err == nil {
		p.identity.exe = string(t.link[:n]) // another user's may not be readable: then it is ""
	}
	return nil
}

func (p *process) close(t *tools) {
	closeFile(&p.dir)
	closeFile(&p.stat)
	for i := range p.usage.threads {
		t.closeThread(&p.usage.threads[i])
	}
	p.usage.threads = nil
}

// vanished reports whether an error means that the process or thread is gone.
func vanished(err error) bool {
	return errors.Is(err, syscall.ESRCH) || errors.Is(err, syscall.ENOENT)
}

// processSampler samples the CPU times of all watched processes.
type processSampler struct {
	t         *tools
	subject   *subject
	schedstat bool // the kernel keeps run and queue times
	peers     bool // only those at the other ends
	tids      []int
}

func (s *processSampler) sample(at tick, emit Emit) error {
	s.subject.announce(at, emit)
	for _, p := range s.subject.processes {
		if p.gone || (p.identity.role == record.RolePeer) != s.peers {
			continue
		}
		err := s.one(p, at, emit)
		switch {
		case vanished(err):
			p.gone = true
		case err != nil:
			p.usage.read = false // it starts afresh when it can be read again
			s.subject.missOf(p, "CPU times", err)
		}
	}
	s.subject.bury(at, emit)
	return nil
}

func (s *processSampler) one(p *process, at tick, emit Emit) error {
	text, err := s.t.r.single(p.stat)
	if err != nil {
		return err
	}
	var st sys.PIDStat
	if err := sys.ParsePIDStat(text, &st); err != nil {
		return err
	}
	if st.Ended() {
		return syscall.ESRCH
	}
	p.identity.comm = s.t.names.of(st.Comm)
	cpuNs, err := sys.ProcessClockNs(p.identity.pid)
	if err != nil {
		return syscall.ESRCH // EINVAL: no such process
	}
	s.readThreads(p, st.Threads)
	if n, err := sys.OpenFileCount(p.dir, s.t.path.of("fd").end()); err == nil && n > 0 {
		p.looks.openFiles = n
	}
	if p.usage.read {
		emit(s.fill(p, at, &st, cpuNs))
	}
	p.usage.read, p.usage.lastNs = true, at.tNs
	p.usage.cpuNs, p.usage.utime, p.usage.stime = cpuNs, st.UserTicks, st.SystemTicks
	return nil
}

// fill builds the row from earlier readings and the current one.
func (s *processSampler) fill(p *process, at tick, st *sys.PIDStat, cpuNs int64) *record.ProcessRow {
	row := &record.ProcessRow{
		ObservedHead: at.head(record.KindProcess),
		Role:         p.identity.role, PID: p.identity.pid, StartTicks: p.identity.startTicks, Comm: p.identity.comm,
		CPUNs: cpuNs - p.usage.cpuNs, UserNs: int64(st.UserTicks-p.usage.utime) * tickNs, SystemNs: int64(st.SystemTicks-p.usage.stime) * tickNs,
		RunNs: -1, QueueNs: -1,
		Threads: st.Threads, ThreadsRead: len(p.usage.threads),
		Voluntary: -1, Involuntary: -1,
		RSSBytes: st.RSSPages * s.t.pageBytes,
	}
	row.WidthNs = at.tNs - p.usage.lastNs
	if s.schedstat {
		row.RunNs, row.QueueNs = 0, 0
		for i := range p.usage.threads {
			row.RunNs += p.usage.threads[i].dRun
			row.QueueNs += p.usage.threads[i].dQueue
		}
	}
	if p.looks.looked {
		row.States, row.Waits = p.looks.states, slices.Clone(p.looks.waits)
	}
	row.Busiest = p.fillBusiest()
	row.OpenFiles = p.looks.openFiles
	p.looks.looked, p.looks.openFiles = false, 0
	if p.looks.switchesNs > 0 {
		row.Voluntary, row.Involuntary, row.SwitchesNs = p.looks.vol, p.looks.invol, p.looks.switchesNs
		row.ReadBytes, row.WrittenBytes = p.looks.readBytes, p.looks.writtenBytes
		p.looks.switchesNs = 0
	}
	return row
}

// fillBusiest picks the threads that ran most, or that waited for a CPU.
func (p *process) fillBusiest() []record.ThreadUse {
	n := 0
	for i := range p.usage.threads {
		t := &p.usage.threads[i]
		if t.dRun <= 0 && t.dQueue <= 0 {
			continue
		}
		if n < busiestThreads {
			n++
		} else if t.dRun <= p.usage.threads[p.usage.busiest[n-1]].dRun {
			continue
		}
		k := n - 1
		for ; k > 0 && p.usage.threads[p.usage.busiest[k-1]].dRun < t.dRun; k-- {
			p.usage.busiest[k] = p.usage.busiest[k-1]
		}
		p.usage.busiest[k] = i
	}
	use := make([]record.ThreadUse, n)
	for k, i := range p.usage.busiest[:n] {
		t := &p.usage.threads[i]
		use[k] = record.ThreadUse{TID: t.tid, Comm: t.comm, RunNs: t.dRun, QueueNs: t.dQueue}
		if p.looks.looked {
			use[k].State, use[k].Wchan = stateText(t.state), t.wchan
		}
	}
	return use
}

// stateText returns a state letter as a string, without allocating.
func stateText(state byte) string {
	const letters = "RSDTtZXIPKW"
	for i := range len(letters) {
		if letters[i] == state {
			return letters[i : i+1]
		}
	}
	return ""
}

// readThreads reads the times of the process's threads, and first lists them again if their number
// changed. A thread that cannot be read does not affect the others.
func (s *processSampler) readThreads(p *process, count int) {
	if want := min(count, s.t.threadLimit(p)); want != len(p.usage.threads) {
		if err := s.listThreads(p); err != nil && !vanished(err) {
			s.subject.missOf(p, "its threads", err)
		}
	}
	kept := p.usage.threads[:0]
	for i := range p.usage.threads {
		t := p.usage.threads[i]
		err := s.readThread(&t)
		if err == nil {
			kept = append(kept, t)
			continue
		}
		s.t.closeThread(&t)
		if !vanished(err) {
			p.usage.cut = true
			s.subject.missOf(p, "a thread", err)
		}
	}
	p.usage.threads = kept
}

// readThread reads one thread's times. They go backwards if another thread has called execve(2): it
// takes over the first one's number (fs/exec.c, de_thread).
func (s *processSampler) readThread(t *thread) error {
	text, err := s.t.r.single(t.file)
	if err != nil {
		return err
	}
	var now sys.Schedstat
	if s.schedstat {
		if err := sys.ParseSchedstat(text, &now); err != nil {
			return err
		}
		t.dQueue = max(int64(now.QueueNs-t.queueNs), 0)
	} else {
		var st sys.PIDStat
		if err := sys.ParsePIDStat(text, &st); err != nil {
			return err
		}
		now.RunNs = (st.UserTicks + st.SystemTicks) * tickNs
		t.dQueue = -1
	}
	t.dRun = max(int64(now.RunNs-t.runNs), 0)
	t.runNs, t.queueNs = now.RunNs, now.QueueNs
	return nil
}

// listThreads updates p.threads from /proc/PID/task. A thread that appeared since the process was
// first read began within the interval, so its times count from 0, unless it may have been beyond
// the limit before.
func (s *processSampler) listThreads(p *process) error {
	fd, err := sys.OpenBelow(p.dir, s.t.path.of("task").end())
	if err != nil {
		return err
	}
	s.tids, err = s.t.list.numbers(fd, s.tids)
	closeFile(&fd)
	if err != nil {
		return err
	}
	old, cut := p.usage.threads, p.usage.cut
	limit := s.t.threadLimit(p)
	p.usage.threads = make([]thread, 0, min(len(s.tids), limit))
	p.usage.cut = false
	i := 0
	for _, tid := range s.tids {
		for i < len(old) && old[i].tid < tid {
			s.t.closeThread(&old[i])
			i++
		}
		if i < len(old) && old[i].tid == tid {
			p.usage.threads = append(p.usage.threads, old[i])
			i++
			continue
		}
		if len(p.usage.threads) == limit {
			p.usage.cut = true
			continue
		}
		t, err := s.openThread(p, tid, cut)
		if err == nil {
			p.usage.threads = append(p.usage.threads, t)
			continue
		}
		p.usage.cut = true
		if !vanished(err) {
			s.subject.missOf(p, "a thread", err)
		}
	}
	for ; i < len(old); i++ {
		s.t.closeThread(&old[i])
	}
	return nil
}

// openThread opens a thread's times. seen: it may have run before this interval.
func (s *processSampler) openThread(p *process, tid int, seen bool) (thread, error) {
	t := thread{tid: tid, file: -1}
	text, err := s.t.r.below(p.dir, s.t.path.of("task/").number(tid).text("/comm").end())
	if err != nil {
		return t, err
	}
	if n := len(text); n > 0 && text[n-1] == '\n' {
		text = text[:n-1]
	}
	t.comm = s.t.names.of(text)
	file := "/stat"
	if s.schedstat {
		file = "/schedstat"
	}
	if t.file, err = sys.OpenBelow(p.dir, s.t.path.of("task/").number(tid).text(file).end()); err != nil {
		return t, err
	}
	s.t.openThreads++
	if !p.usage.read || seen {
		if err := s.readThread(&t); err != nil {
			s.t.closeThread(&t)
			return t, err
		}
	}
	return t, nil
}

// close closes the processes only if the subject's sampler owns them.
func (s *processSampler) close() {
	if !s.peers {
		s.subject.close()
	}
}

// stateSampler samples what each thread of the subject is doing.
type stateSampler struct {
	t       *tools
	subject *subject
	peers   bool // as in processSampler
	group   [16]byte
}

// groupOf appends a thread's name with # for each number in it: the threads of a pool are numbered.
func groupOf(comm string, into []byte) []byte {
	for i := range len(comm) {
		b := comm[i]
		if b >= '0' && b <= '9' {
			b = '#'
		}
		if n := len(into); b != '#' || n == 0 || into[n-1] != '#' {
			into = append(into, b)
		}
	}
	return into
}

func (s *stateSampler) sample(_ tick, _ Emit) error {
	for _, p := range s.subject.processes {
		if p.gone || p.identity.role == record.RoleGenerator || (p.identity.role == record.RolePeer) != s.peers {
			continue
		}
		p.looks.states, p.looks.waits, p.looks.looked = record.ThreadCount{}, p.looks.waits[:0], len(p.usage.threads) > 0
		for i := range p.usage.threads {
			if err := s.one(p, &p.usage.threads[i]); err != nil && !vanished(err) {
				p.looks.looked = false
				s.subject.missOf(p, "what its threads do", err)
				break
			}
		}
		p.looks.waits = p.looks.waits[:min(len(p.looks.waits), commonWaits)]
	}
	return nil
}

func (s *stateSampler) one(p *process, t *thread) error {
	t.wchan = ""
	text, err := s.t.r.below(p.dir, s.t.path.of("task/").number(t.tid).text("/stat").end())
	if err != nil {
		return err
	}
	var st sys.PIDStat
	if err := sys.ParsePIDStat(text, &st); err != nil {
		return err
	}
	t.state, t.comm = st.State, s.t.names.of(st.Comm)
	countState(st.State, &p.looks.states)
	if st.State == 'R' {
		return nil
	}
	text, err = s.t.r.below(p.dir, s.t.path.of("task/").number(t.tid).text("/wchan").end())
	if errors.Is(err, syscall.EACCES) || errors.Is(err, syscall.EPERM) {
		return nil
	}
	if err != nil {
		return err
	}
	if len(text) == 0 || text[0] == '0' {
		return nil // running by now, or not readable
	}
	t.wchan = s.t.names.of(text)
	group := ""
	if t.comm != p.identity.comm {
		group = s.t.names.of(groupOf(t.comm, s.group[:0]))
	}
	p.looks.waits = countWait(p.looks.waits, t.wchan, group)
	return nil
}

// countWait counts one more thread of a name in a kernel function, and keeps the list in descending
// order.
func countWait(waits []record.WaitCount, wchan, comm string) []record.WaitCount {
	i := 0
	for i < len(waits) && (waits[i].Wchan != wchan || waits[i].Comm != comm) {
		i++
	}
	if i == len(waits) {
		waits = append(waits, record.WaitCount{Wchan: wchan, Comm: comm})
	}
	waits[i].Threads++
	for ; i > 0 && waits[i-1].Threads < waits[i].Threads; i-- {
		waits[i-1], waits[i] = waits[i], waits[i-1]
	}
	return waits
}

func (s *stateSampler) close() {}

// switchSampler counts context switches, which each thread has in a file of sixty lines, and open
// files.
type switchSampler struct {
	t       *tools
	subject *subject
	peers   bool // as in processSampler
	fds     []int
}

func (s *switchSampler) sample(at tick, _ Emit) error {
	for _, p := range s.subject.processes {
		if p.gone || (p.identity.role == record.RolePeer) != s.peers {
			continue
		}
		s.count(p, at)
		s.countBytes(p)
		if err := s.countFiles(p); err != nil && !vanished(err) {
			s.subject.missOf(p, "its open files", err)
		}
	}
	return nil
}

// count adds up the switches of a process's threads. If that fails, the next sample starts afresh.
func (s *switchSampler) count(p *process, at tick) {
	p.looks.vol, p.looks.invol, p.looks.switchesNs = 0, 0, 0
	if p.looks.switchesAt != 0 {
		p.looks.switchesNs = at.tNs - p.looks.switchesAt
	}
	p.looks.switchesAt = at.tNs
	for i := range p.usage.threads {
		err := s.one(p, &p.usage.threads[i])
		if err == nil || vanished(err) {
			continue
		}
		p.looks.switchesNs, p.looks.switchesAt = 0, 0
		for k := range p.usage.threads {
			p.usage.threads[k].switchesRead = false
		}
		s.subject.missOf(p, "context switches", err)
		return
	}
}

func (s *switchSampler) one(p *process, t *thread) error {
	text, err := s.t.r.below(p.dir, s.t.path.of("task/").number(t.tid).text("/status").end())
	if err != nil {
		return err
	}
	var st sys.PIDStatus
	if err := sys.ParsePIDStatus(text, &st); err != nil {
		return err
	}
	if t.switchesRead {
		p.looks.vol += max(int64(st.Voluntary-t.vol), 0)
		p.looks.invol += max(int64(st.Involuntary-t.invol), 0)
	}
	t.vol, t.invol, t.switchesRead = st.Voluntary, st.Involuntary, true
	return nil
}

// countBytes reads how much a process has read from and written to block devices.
func (s *switchSampler) countBytes(p *process) {
	p.looks.readBytes, p.looks.writtenBytes = -1, -1
	text, err := s.t.r.below(p.dir, s.t.path.of("io").end())
	var now sys.PIDIO
	if err != nil || sys.ParsePIDIO(text, &now) != nil {
		p.looks.ioRead = false // another user's, or a kernel without CONFIG_TASK_IO_ACCOUNTING
		return
	}
	if p.looks.ioRead {
		p.looks.readBytes, p.looks.writtenBytes = max(int64(now.Read-p.looks.lastReadBytes), 0), max(int64(now.Written-p.looks.lastWrites), 0)
	}
	p.looks.ioRead, p.looks.lastReadBytes, p.looks.lastWrites = true, now.Read, now.Written
}

// countFiles lists a process's open files where the kernel does not count them, which every sample
// of the process's times asks it.
func (s *switchSampler) countFiles(p *process) error {
	path := s.t.path.of("fd").end()
	if n, err := sys.OpenFileCount(p.dir, path); n > 0 || err != nil {
		return err
	}
	p.looks.openFiles = -1
	fd, err := sys.OpenBelow(p.dir, path)
	if err == nil {
		defer closeFile(&fd)
		if s.fds, err = s.t.list.numbers(fd, s.fds); err == nil {
			p.looks.openFiles = len(s.fds)
			return nil
		}
	}
	if errors.Is(err, syscall.EACCES) || errors.Is(err, syscall.EPERM) {
		return nil
	}
	return err
}

func (s *switchSampler) close() {}
