package verdict

import (
	"fmt"
	"math"
	"slices"
	"strconv"

	"ceiling/record"
)

// The servers on the same host that the server calls: a database, a cache. They are observed like
// the server itself, so that a database out of CPU, one that waits for its disk, and a pool too
// small for a database with both to spare are three different answers.

// behindServer is one of them.
type behindServer struct {
	processFacts
	use      *peerUse // the server's connections to it, all addresses together
	addr     string   // the address with the most of them
	pid      int      // its outermost process
	name     string
	runtime  string
	cpus     []int // that it may use
	waits    []offWait
	packages []record.StackPackage
	samples  int
	disk     figure // threads in uninterruptible sleep, on average
	written  figure // bytes per second to block devices
	looks    int    // samples of its threads' states: of its process with the most
}

// behindOf collects them, the ones with the most connections first.
func behindOf(f *serverSide, series *record.Series) []behindServer {
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
		b.processFacts = processesAmong(f.base, series, record.RolePeer, f.subject.host, func(pid int) bool { return rootOf(pid) == b.pid })
		b.name = "PID " + strconv.Itoa(b.pid)
		if p := b.find(b.pid); p != nil && p.comm != "" {
			b.name = p.comm
		}
		b.cpus = f.host.allowedOf(b.allowed)
		b.stolen = f.host.stolenOf(b.cpus)
		b.stacksOf(f.base)
		b.states(f, series, rootOf)
		b.sampled(f)
		list = append(list, b)
	}
	return list
}

// join adds the connections to another address of the same server.
func (u *peerUse) join(other *peerUse) {
	u.low, u.high = u.low+other.low, u.high+other.high
	u.sockets, u.used = u.sockets+other.sockets, u.used+other.used
	u.quiet, u.connecting = u.quiet+other.quiet, u.connecting+other.connecting
	u.timed = u.timed && other.timed
}

// stacksOf reads its stacks.
func (b *behindServer) stacksOf(f *runFacts) {
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

// sampled takes its CPU from stack samples if there is no row for its processes: with many
// processes, rows are rare.
func (b *behindServer) sampled(f *serverSide) {
	if b.known || b.samples < stacksFewest || f.base.run.Stacks.CPU == nil {
		return
	}
	c := f.base.run.Stacks.CPU
	if seconds := float64(c.DurationNs) / 1e9; c.Hz > 0 && seconds > 0 {
		b.known, b.host, b.cores = true, f.subject.host, float64(b.samples)/float64(c.Hz)/seconds
	}
}

// states averages its threads' states over the samples that have them.
func (b *behindServer) states(f *serverSide, series *record.Series, rootOf func(int) int) {
	looks := map[int]float64{}
	disk := map[int]float64{}
	written, width, bytesKnown := 0.0, map[int]float64{}, true
	for _, row := range observed(f.base, series.Observed.Processes) {
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
		}
	}
	sum := 0.0
	for pid, n := range looks {
		sum += disk[pid] / n
		b.looks = max(b.looks, int(n))
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

// asked reports whether the server's requests to it fill the connections, or are what most of n
// requests wait for.
func (b *behindServer) asked(n float64) bool {
	if !b.use.timed {
		return b.use.sockets > 0 // their use is unknown
	}
	open := b.use.sockets - math.Min(b.use.quiet, b.use.sockets)
	return b.use.used > 0 && (b.use.used >= mostOf*open || n > 0 && b.use.used >= mostOf*n)
}

// outOfCPU says how its CPU is used up; empty if it is not. With a thread per connection, the
// number of connections bounds the full threads.
func (b *behindServer) outOfCPU(f *serverSide) (how record.Statement) {
	n, had := float64(len(b.cpus)), f.host.had(b.cpus)
	full := b.fullThreads()
	used := with{"used_cores": b.cores, "cores": n, "waited": b.queue.value, "idle_none": false}
	switch q := b.quota.throttled; {
	case !b.known || b.cores <= 0:
	case q.known && q.value >= throttledShare:
		return say("behind.throttled", with{"share": q.value})
	case n == 0 || !f.host.known:
	case b.cores >= behindFull*had:
		return say("behind.cores", used)
	case f.host.full(b.cpus) && b.cores+b.queue.value >= serverDemandMin*had && b.cores > f.subject.cores:
		used["idle_none"] = true
		return say("behind.cores", used)
	case full == 0 || full > 1 && b.use.timed && float64(full) >= poolBusy*b.use.used:
	default:
		return say("behind.threads", with{"threads": full, "thread": b.threads[0].comm, "ran": b.threads[0].run})
	}
	return how
}

// lockWait returns a lock that its threads wait for.
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

// limit is what limits a server behind.
type limit struct {
	says record.Statement // how, in one clause after its name
	next []record.Statement
	pro  []record.Evidence
	// caveats are what is inferred rather than observed.
	caveats []record.Statement
}

// limit returns what holds up its responses; nil if it has everything to spare.
func (b *behindServer) limit(f *serverSide) *limit {
	if how := b.outOfCPU(f); how.Code != "" {
		l := &limit{says: say("behind.out-of-cpu", with{"how": how}),
			next: just("behind.out-of-cpu.next", with{"server": b.name, "profiler": profilerOf(b.runtime, b.pid),
				"one_thread": b.fullThreads() == 1 && b.cores < behindFull*f.host.had(b.cpus)})}
		if b.samples >= stacksFewest && len(b.packages) > 0 {
			l.pro = append(l.pro, record.NewEvidence("stacks.peers.packages", b.packages[0].Share, "share",
				say("behind.packages", with{"server": b.name, "packages": packagesOf(b.packages), "samples": b.samples})))
		}
		return l
	}
	device := f.disks.full(true)
	if d := diskWaitsOf(b.waits); d.holdUp(b.use.used) {
		l := &limit{
			says: say("behind.disk", with{"waits": d.says()}),
			next: just("behind.next", with{"server": b.name, "step": d.top.step()}),
			pro:  append([]record.Evidence{b.waitEvidence(f.base)}, f.disks.evidence(device)...),
		}
		if device != nil {
			l.says = say("behind.disk-device", with{"waits": d.says(), "work": workOf(device)})
		}
		return l
	}
	if w := b.lockWait(); w != nil {
		return &limit{
			says: say("behind.lock", with{"threads": w.Threads, "what": w.object()}),
			next: just("behind.next", with{"server": b.name, "step": w.step()}),
			pro:  []record.Evidence{b.waitEvidence(f.base)},
		}
	}
	if b.waits == nil && b.disk.known && b.disk.value >= waitStep {
		asleep := with{"server": b.name, "threads": b.disk.value}
		if device != nil {
			return &limit{
				says: say("behind.disk-work", with{"threads": b.disk.value, "work": workOf(device)}),
				next: just("behind.next", with{"server": b.name, "step": diskNext(device)}),
				pro: append([]record.Evidence{record.NewEvidence("series.process.states.disk", b.disk.value, "threads",
					say("behind.disk-threads", asleep))}, f.disks.evidence(device)...),
				caveats: diskCaveats(device),
			}
		}
		return &limit{
			says: say("behind.disk-sleep", asleep),
			next: just("behind.disk-sleep.next", asleep),
			pro: []record.Evidence{record.NewEvidence("series.process.states.disk", b.disk.value, "threads",
				say("behind.disk-threads", asleep))},
		}
	}
	if b.waits == nil && !b.lookedAt() && device != nil && device.Behind && f.disks.pressed(b.looks) {
		return &limit{
			says:    say("behind.disk-unseen", with{"work": workOf(device)}),
			next:    just("behind.next", with{"server": b.name, "step": diskNext(device)}),
			pro:     f.disks.evidence(device),
			caveats: append(diskCaveats(device), say("caveat.behind-unseen", with{"server": b.name, "looks": b.looks})),
		}
	}
	return nil
}

// lookedAt reports whether the run has enough samples of its threads' states: a short one may have one.
func (b *behindServer) lookedAt() bool { return b.looks >= looksFewest }

// waitEvidence returns what its threads wait for.
func (b *behindServer) waitEvidence(f *runFacts) record.Evidence {
	var waits []record.Statement
	for i := range b.waits[:min(len(b.waits), waitsNamed)] {
		if w := &b.waits[i]; w.Threads >= waitThreads {
			waits = append(waits, say("behind.wait", with{"threads": w.Threads, "what": w.object()}))
		}
	}
	return record.NewEvidence("stacks.peers.waits", b.waits[0].Threads, "threads",
		say("behind.waits", with{"server": b.name, "waits": waits, "seen_ns": f.run.Stacks.OffCPU.BurstNs}))
}

// spare says what it has left.
func (b *behindServer) spare() record.Statement {
	if !b.known {
		return record.Statement{}
	}
	return say("behind.spare", with{"server": b.name, "used_cores": b.cores, "cores": len(b.cpus),
		"no_disk": b.lookedAt() && b.disk.value < waitThreads})
}

// evidence returns its CPU use as evidence.
func (b *behindServer) evidence() []record.Evidence {
	if !b.known {
		return nil
	}
	written := 0.0
	if b.written.known && b.written.value >= 1 {
		written = b.written.value
	}
	return []record.Evidence{record.NewEvidence("series.process.cpu_ns", b.cores, "cores",
		say("behind.used", with{"server": b.who(), "used_cores": b.cores, "cores": len(b.cpus), "written_bytes_per_s": written}))}
}

// behindAt returns the server behind at an address; nil if it is not on this host.
func (f *serverSide) behindAt(addr string) *behindServer {
	for i := range f.behind {
		if b := &f.behind[i]; b.addr == addr || slices.ContainsFunc(f.peers.list,
			func(u peerUse) bool { return u.addr == addr && u.pid == b.pid }) {
			return b
		}
	}
	return nil
}

// called returns an address with the name of the server there, if known.
func (f *serverSide) called(u *peerUse) string {
	if b := f.behindAt(u.addr); b != nil {
		return fmt.Sprintf("%s (%s)", b.name, u.addr)
	}
	return u.addr
}

// sparePool returns a connection pool that requests wait for, to a server on the same host with
// CPU and disk to spare; nil if there is none.
func (f *facts) sparePool() (*peerUse, *behindServer) {
	n, mean := f.underWay(), positive(f.base.run.Latency.Response.MeanNs)
	server := f.cpu.server
	for i := range server.peers.list {
		u := &server.peers.list[i]
		if b := server.behindAt(u.addr); b != nil && b.known && u.high > 1 && server.peers.pool(u, n, mean) && b.limit(server) == nil {
			return u, b
		}
	}
	return nil, nil
}

// explainPool adds the pool that requests wait for to a finding that the server waits.
func explainPool(f *facts, found *finding) {
	if found.bottleneck != record.ServerBlocked || found.answer != matched || found.explained {
		return
	}
	u, b := f.sparePool()
	if u == nil {
		return
	}
	found.because = append(found.because, say("pool.in-use", with{"connections": u.high, "to": f.cpu.server.called(u), "spare": b.spare(),
		"said": u == f.poolBefore() && mentions(found.because, "turns.connections", "blocked.pool")}))
}

// ruleBehind asks whether a server that the server calls on the same host is out of CPU,
// disk-bound or lock-bound while requests wait for its responses.
func ruleBehind(f *facts) finding {
	out := finding{bottleneck: record.ServerBlocked, explained: true}
	n := f.underWay()
	for i := range f.cpu.server.behind {
		b := &f.cpu.server.behind[i]
		if !b.asked(n) {
			continue
		}
		l := b.limit(f.cpu.server)
		if l == nil {
			continue
		}
		if free, missing := f.generatorFree(); !free {
			if missing != nil {
				out.answer, out.missing = unknown, missing
			}
			return out
		}
		p := &f.places
		if !p.known || !p.both {
			out.answer, out.missing = unknown, []record.Statement{p.missing()}
			return out
		}
		if p.share[serverQueue]+p.share[inServer] < mostOf {
			return out
		}
		// If the server has no CPU to spare either, the larger consumer decides.
		if idle, missing := f.cpu.serverIdle(); missing != nil || !idle && b.cores <= f.cpu.server.subject.cores {
			return out
		}
		out.answer = matched
		out.pro = slices.Concat(b.evidence(), l.pro, []record.Evidence{f.cpu.server.peers.says(b.use)}, f.cpu.server.cpuEvidence(),
			f.placeEvidence(serverQueue, inServer), f.cpu.server.stackClue().says)
		out.because = just("behind", with{"server": b.who(), "limit": l.says})
		out.next, out.caveats = l.next, l.caveats
		return out
	}
	return out
}
