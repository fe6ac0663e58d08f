package verdict

import (
	"fmt"
	"math"
	"slices"
	"strings"

	"ceiling/internal/unit"
	"ceiling/record"
)

// The servers on the same host that the server asks: a database, a cache. They are
// watched like the server itself, so that a database that is out of CPU, one that
// waits for its disk, and a pool of connections that is too small for a database
// with both to spare are three different answers.

// behindServer is one of them.
type behindServer struct {
	processFacts
	use      *peerUse // its connections from the server, all addresses together
	addr     string   // the address with the most of them
	pid      int      // its outermost process
	name     string
	runtime  string
	cpus     []int // that it may use
	waits    []offWait
	packages []record.StackPackage
	samples  int
	disk     figure // threads in uninterruptible sleep, on average
	written  figure // bytes a second to block devices
	looks    int
}

// behindOf gathers them, those with most connections first.
func behindOf(f *facts, series *record.Series) []behindServer {
	if !f.subject.known || series == nil {
		return nil
	}
	parents := map[int]int{}
	for _, row := range series.Observed.Subjects {
		if row.Role == record.RolePeer && row.Host == f.subject.host {
			parents[row.PID] = row.ParentPID
		}
	}
	rootOf := func(pid int) int {
		for range len(parents) {
			up, is := parents[pid]
			if _, watched := parents[up]; !is || !watched {
				break
			}
			pid = up
		}
		return pid
	}
	var list []behindServer
	for i := range f.peers.list {
		u := &f.peers.list[i]
		if _, watched := parents[u.pid]; u.pid == 0 || !watched {
			continue
		}
		if at := slices.IndexFunc(list, func(b behindServer) bool { return b.pid == u.pid }); at >= 0 {
			sum := *list[at].use
			sum.join(u)
			list[at].use = &sum
			continue
		}
		b := behindServer{use: u, addr: u.addr, pid: u.pid}
		b.processFacts = processesAmong(f, series, record.RolePeer, f.subject.host, func(pid int) bool { return rootOf(pid) == b.pid })
		b.name = fmt.Sprintf("process %d", b.pid)
		if p := b.find(b.pid); p != nil && p.comm != "" {
			b.name = p.comm
		}
		b.cpus = f.host.allowedOf(b.allowed)
		b.stacksOf(f)
		b.states(f, series, rootOf)
		b.sampled(f)
		list = append(list, b)
	}
	return list
}

// join adds the connections to another address of the same server.
func (u *peerUse) join(other *peerUse) {
	u.low, u.high = u.low+other.low, u.high+other.high
	u.sockets, u.used, u.quiet, u.connecting = u.sockets+other.sockets, u.used+other.used, u.quiet+other.quiet, u.connecting+other.connecting
	u.timed = u.timed && other.timed
}

// stacksOf is what its stacks say.
func (b *behindServer) stacksOf(f *facts) {
	s := f.run.Stacks
	if s == nil {
		return
	}
	for i := range s.Peers {
		one := &s.Peers[i]
		if one.PID != b.pid {
			continue
		}
		b.runtime, b.samples, b.packages = one.Runtime, one.Samples, one.Packages
		if off := s.OffCPU; off != nil && off.Bursts >= burstsFewest && off.BurstNs > 0 {
			b.waits = telling(one.Waits, off.BurstNs)
		}
	}
}

// sampled takes its CPU from the samples of stacks where no row of its processes came:
// many of them are read seldom.
func (b *behindServer) sampled(f *facts) {
	if b.known || b.samples < stacksFewest || f.run.Stacks.CPU == nil {
		return
	}
	c := f.run.Stacks.CPU
	if seconds := float64(c.DurationNs) / 1e9; c.Hz > 0 && seconds > 0 {
		b.known, b.host, b.cores = true, f.subject.host, float64(b.samples)/float64(c.Hz)/seconds
	}
}

// states is what its threads did in the samples that looked.
func (b *behindServer) states(f *facts, series *record.Series, rootOf func(int) int) {
	looks := map[int]float64{}
	disk := map[int]float64{}
	written, width, bytesKnown := 0.0, map[int]float64{}, true
	for _, row := range observed(f, series.Observed.Processes) {
		s := &row.States
		if row.Role != record.RolePeer || row.Host != f.subject.host || rootOf(row.PID) != b.pid {
			continue
		}
		if row.SwitchesNs > 0 {
			width[row.PID] += float64(row.SwitchesNs) / 1e9
			written += positive(float64(row.WrittenBytes))
			bytesKnown = bytesKnown && row.WrittenBytes >= 0
		}
		if s.Running+s.Sleeping+s.Disk+s.Other > 0 {
			looks[row.PID]++
			disk[row.PID] += positive(float64(s.Disk))
			b.looks++
		}
	}
	sum := 0.0
	for pid, n := range looks {
		sum += disk[pid] / n
	}
	longest := 0.0
	for _, s := range width {
		longest = math.Max(longest, s)
	}
	if longest > 0 && bytesKnown {
		b.written = some(written / longest)
	}
	if b.looks > 0 {
		b.disk = some(sum)
	}
}

// who names it in a sentence.
func (b *behindServer) who() string { return fmt.Sprintf("%s (%s)", b.name, b.addr) }

// asked tells whether what the server asks of it fills the connections, or is what
// most of n requests wait for.
func (b *behindServer) asked(n float64) bool {
	if !b.use.timed {
		return b.use.sockets > 0 // whose use is not known
	}
	open := b.use.sockets - math.Min(b.use.quiet, b.use.sockets)
	return b.use.used > 0 && (b.use.used >= mostOf*open || n > 0 && b.use.used >= mostOf*n)
}

// outOfCPU says how its CPU is used up, "" where it is not. With a thread of its own
// for each connection, full threads are as many as the connections allow.
func (b *behindServer) outOfCPU(f *facts) string {
	if !b.known || b.cores <= 0 {
		return ""
	}
	if q := b.quota.throttled; q.known && q.value >= throttledShare {
		return fmt.Sprintf("its cgroup throttled it in %s of the periods", unit.Percent(q.value))
	}
	n := float64(len(b.cpus))
	if n == 0 || !f.host.known {
		return ""
	}
	text := fmt.Sprintf("it used %.2f of %s", b.cores, unit.Plural(len(b.cpus), "core", "cores"))
	if b.cores >= behindFull*n {
		return text
	}
	if f.host.full(b.cpus) && b.cores+b.queue.value >= serverWants*n && b.cores > f.subject.cores {
		if b.queue.known {
			text += fmt.Sprintf(", and its threads waited for %.2f more", b.queue.value)
		}
		return text + ", with none idle"
	}
	full := b.fullThreads()
	if full == 0 || full > 1 && b.use.timed && float64(full) >= poolBusy*b.use.used {
		return ""
	}
	if full == 1 {
		return fmt.Sprintf("its thread %s ran %s of the time", b.threads[0].comm, unit.Percent(b.threads[0].run))
	}
	return fmt.Sprintf("%d of its threads ran all the time", full)
}

// lockWait is a lock that its threads wait for.
func (b *behindServer) lockWait() *offWait {
	for i := range b.waits {
		switch w := &b.waits[i]; w.Reason {
		case record.WaitLock, record.WaitInterpreterLock, record.WaitFileLock, record.WaitKernelLock:
			if w.Threads >= waitStep && w.Threads >= mostOf*(b.use.used-1) {
				return w
			}
		}
	}
	return nil
}

// limit is what a server behind is at the end of.
type limit struct {
	says string // how, in one clause after its name
	next string
	pro  []record.Evidence
}

// limit says what holds up its answers, nil where it has all of it to spare.
func (b *behindServer) limit(f *facts) *limit {
	if how := b.outOfCPU(f); how != "" {
		l := &limit{says: "is out of CPU: " + how,
			next: fmt.Sprintf("send %s less work, or give it more CPU: profile it with %s", b.name, profilerOf(b.runtime, b.pid))}
		if b.fullThreads() == 1 && b.cores < behindFull*float64(len(b.cpus)) {
			l.next = fmt.Sprintf("send %s less work, or have several of it: one thread does its work (profile it with %s)", b.name,
				profilerOf(b.runtime, b.pid))
		}
		if b.samples >= stacksFewest && len(b.packages) > 0 {
			l.pro = append(l.pro, record.NewEvidence("stacks.peers.packages", b.packages[0].Share, "share", "CPU of %s by stacks: %s (%s)", b.name,
				packagesText(b.packages), unit.Plural(b.samples, "sample", "samples")))
		}
		return l
	}
	if d := diskWaitsOf(b.waits); d.holdUp(b.use.used) {
		return &limit{
			says: "waits for its disk: " + d.says(),
			next: fmt.Sprintf("in %s: %s", b.name, d.top.step()),
			pro:  []record.Evidence{b.waitEvidence(f)},
		}
	}
	if w := b.lockWait(); w != nil {
		return &limit{
			says: fmt.Sprintf("waits for itself: %.2g of its threads are %s", w.Threads, w.object()),
			next: fmt.Sprintf("in %s: %s", b.name, w.step()),
			pro:  []record.Evidence{b.waitEvidence(f)},
		}
	}
	if b.waits == nil && b.disk.known && b.disk.value >= waitStep {
		return &limit{
			says: fmt.Sprintf("waits for its disk: %.2g of its threads were in uninterruptible sleep", b.disk.value),
			next: fmt.Sprintf("see what %s reads and writes, and how often it syncs", b.name),
			pro: []record.Evidence{record.NewEvidence("series.process.states.disk", b.disk.value, "threads",
				"%.2g threads of %s waited for the disk or the like (state D)", b.disk.value, b.name)},
		}
	}
	return nil
}

// waitEvidence is what its threads wait for.
func (b *behindServer) waitEvidence(f *facts) record.Evidence {
	var parts []string
	for i := range b.waits[:min(len(b.waits), waitsNamed)] {
		if w := &b.waits[i]; w.Threads >= waitThreads {
			parts = append(parts, fmt.Sprintf("%.2g %s", w.Threads, w.object()))
		}
	}
	return record.NewEvidence("stacks.peers.waits", b.waits[0].Threads, "threads", "threads of %s blocked, by stacks: %s; seen for %s", b.name,
		strings.Join(parts, ", "), ns(float64(f.run.Stacks.OffCPU.BurstNs)))
}

// spare says what it has left.
func (b *behindServer) spare() string {
	if !b.known {
		return ""
	}
	text := fmt.Sprintf("%s used %.2f of %s", b.name, b.cores, unit.Plural(len(b.cpus), "core", "cores"))
	if b.disk.known && b.disk.value < waitThreads {
		text += " and did not wait for a disk"
	}
	return text
}

// evidence is its CPU as a fact.
func (b *behindServer) evidence() []record.Evidence {
	if !b.known {
		return nil
	}
	text := fmt.Sprintf("%s, which the server asks, used %.2f of %s", b.who(), b.cores, unit.Plural(len(b.cpus), "core", "cores"))
	if b.written.known && b.written.value >= 1 {
		text += fmt.Sprintf(" and wrote %s/s to disks", unit.FormatBytesSI(int64(b.written.value)))
	}
	return []record.Evidence{record.NewEvidence("series.process.cpu_ns", b.cores, "cores", "%s", text)}
}

// behindAt is the server behind on an address, nil where it is not on this host.
func (f *facts) behindAt(addr string) *behindServer {
	for i := range f.behind {
		if b := &f.behind[i]; b.addr == addr || slices.ContainsFunc(f.peers.list,
			func(u peerUse) bool { return u.addr == addr && u.pid == b.pid }) {
			return b
		}
	}
	return nil
}

// called is an address with the name of the server there, where that is known.
func (f *facts) called(u *peerUse) string {
	if b := f.behindAt(u.addr); b != nil {
		return fmt.Sprintf("%s (%s)", b.name, u.addr)
	}
	return u.addr
}

// sparePool is a pool of connections that requests wait for, to a server on the same
// host that has CPU and disk to spare; nil where there is none.
func (f *facts) sparePool() (*peerUse, *behindServer) {
	n, mean := f.underWay(), positive(f.run.Latency.Response.MeanNs)
	for i := range f.peers.list {
		u := &f.peers.list[i]
		if b := f.behindAt(u.addr); b != nil && b.known && u.high > 1 && f.peers.pool(u, n, mean) && b.limit(f) == nil {
			return u, b
		}
	}
	return nil, nil
}

// explainPool puts a pool into the sentence of a finding that says that the server
// waits.
func explainPool(f *facts, found *finding) {
	if found.bottleneck != record.ServerBlocked || found.answer != yes || found.explained {
		return
	}
	u, b := f.sparePool()
	if u == nil {
		return
	}
	if pool := fmt.Sprintf("%d connections to %s", u.high, f.called(u)); !strings.Contains(found.because, pool) {
		found.because += "; its " + pool + " are all in use"
	}
	found.because += ", while " + b.spare()
}

// ruleBehind asks whether a server on the same host that the server asks is at the
// end of its CPU, its disk or a lock, while requests wait for its answers.
func ruleBehind(f *facts) finding {
	out := finding{bottleneck: record.ServerBlocked, explained: true}
	n := f.underWay()
	for i := range f.behind {
		b := &f.behind[i]
		if !b.asked(n) {
			continue
		}
		l := b.limit(f)
		if l == nil {
			continue
		}
		if free, missing := f.generatorFree(); !free {
			if missing != nil {
				out.answer, out.missing = cannotTell, missing
			}
			return out
		}
		p := &f.places
		if !p.known || !p.both {
			out.answer, out.missing = cannotTell, []string{p.missing()}
			return out
		}
		if p.share[serverQueue]+p.share[inServer] < mostOf {
			return out
		}
		// Where the server has no CPU to spare either, the larger part decides.
		if idle, missing := f.serverIdle(); missing != nil || !idle && b.cores <= f.subject.cores {
			return out
		}
		out.answer = yes
		out.pro = slices.Concat(b.evidence(), l.pro, []record.Evidence{f.peers.says(b.use)}, f.cpuEvidence(),
			f.placeEvidence(serverQueue, inServer), f.stackClue().says)
		out.because = fmt.Sprintf("server blocked: the requests wait for %s, which %s", b.who(), l.says)
		out.next = l.next
		return out
	}
	return out
}
