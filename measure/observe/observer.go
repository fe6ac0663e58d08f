//go:build linux

// Package observe samples what a host does during a run: its CPUs, the server's processes, the
// queues of the run's own sockets, the network devices and the kernel's error counters.
//
// Every kernel source has its own file. Reading is separate from parsing, so that the parsers are
// tested with text from real machines; they are written by hand and do not allocate, because a
// sampler that disturbs the machine measures itself: /proc/stat of 128 CPUs costs 25 µs this way
// and twenty times that with fmt.Sscanf.
//
// Everything works without root as far as the kernel allows. What it does not allow, or does not
// have, is a record.NotMeasured with the reason; nothing is guessed. A source that fails during the
// run is lost from then on, with the time, and the run continues; a process that cannot be read
// only loses its own rows.
//
// Generator and server on one host may be in two network namespaces. Each end of the connections,
// and of the link between them, is read in its own.
//
// Sources that are read together form a round. Each round may use a share of one core and waits
// after exceeding it, so the observer stays below one per cent of a core however many CPUs, threads
// and sockets there are. The record has its actual cost.
package observe

import (
	"context"
	"fmt"
	"math/rand/v2"
	"net/netip"
	"runtime"
	"slices"
	"strconv"
	"time"

	"ceiling/internal/sys"
	"ceiling/record"
)

const (
	defaultInterval = 100 * time.Millisecond

	// shortestRowNs is the smallest width of a row that is not due: two ticks of the kernel's
	// clock.
	shortestRowNs = 20e6

	// longestUnseen bounds how long a new process of the subject can go unnoticed after a scan of
	// all processes, which may cost 50 ms.
	longestUnseen = 5 * time.Second

	secondNs = int64(time.Second)

	// peerSamples is how many samples of the connections to others a window shorter than that many
	// seconds has, if they are cheap.
	peerSamples = 6

	// sliceOfReadings is the thread's time slice; the usual one is 3 ms.
	sliceOfReadings = 100 * time.Microsecond
)

// Shares of one core that the rounds may use.
const (
	shareQueues   = 0.0038 // lists and rows; the looks have lookShare on top
	shareCounters = 0.0016
	shareMembers  = 0.0013
	shareSlow     = 0.0005
	shareTCPInfo  = 0.0003
	shareSpread   = 0.0003
	sharePeers    = 0.0002
	shareBehind   = 0.0005
	shareBeyond   = 0.0002
	shareOthers   = 0.0002
	shareFiles    = 0.0001
	shareTitles   = 0.0003
)

// An Observer samples one host. It belongs to one goroutine.
type Observer struct {
	cfg     Config
	t       *tools
	subject *subject

	// server is where the target is; generator is where its clients are, if that is another network
	// namespace of this host, else nil.
	server    side
	generator *side

	timetable timetable
	missing   []record.NotMeasured

	looker   *socketLookup // nil if no sockets can be looked up
	times    *timesSampler // nil without kernel events
	stat     *statSampler
	throttle *throttleSampler

	closed     bool  // a sample has been taken after the end of the window
	nowNs      int64 // of the current sample; 0 before the first
	costNs     int64
	reportAtNs int64
	reported   int64 // when the last ObserverRow was written; valid once reporting
	reporting  bool
	reportCost int64
	samples    int
}

// timetable has the rounds in reading order: which processes exist and what they do precedes what
// they used.
type timetable struct {
	queues   round // socket queues
	tcpInfo  round
	times    round // bursts of kernel events
	spread   round // connections per process
	peers    round // connections to others
	behind   round // CPU of the processes at their other ends, if on this host
	beyond   round // what else these do
	others   round // the CPU of the host's other processes
	files    round // on which disks their files are
	titles   round // what a database's processes report in their titles
	slow     round // what changes less often, or costs more
	members  round // the subject's listeners and processes: 1,000 take 60 ms
	counters round // everything else, over the same intervals
}

// New opens every source. NotMeasured has what cannot be observed; the error means that nothing
// can.
func New(cfg Config) (*Observer, error) {
	if cfg.Interval <= 0 {
		cfg.Interval = defaultInterval
	}
	if cfg.Effort == 0 {
		cfg.Effort = 1
	}
	if cfg.proc == "" {
		cfg.proc, cfg.sysfs = "/proc", "/sys"
	}
	if cfg.TargetAddr.IsValid() {
		cfg.TargetAddr = netip.AddrPortFrom(cfg.TargetAddr.Addr().Unmap().WithZone(""), cfg.TargetAddr.Port())
	}
	t, err := newTools(cfg.proc, cfg.sysfs)
	if err != nil {
		return nil, fmt.Errorf("observe %s: %w", cfg.Host, err)
	}
	if _, err := sys.SamplingThreadNs(); err != nil {
		t.close()
		return nil, fmt.Errorf("observe %s: read the thread's CPU clock: %w", cfg.Host, err)
	}
	o := &Observer{cfg: cfg, t: t}
	o.planRounds()
	o.findSides()
	o.addCPU()
	o.addNetwork()
	o.addSockets()
	o.addProcesses()
	o.addPeers()
	o.addDisks()
	o.addTimes()
	return o, nil
}

// rounds lists all rounds in order.
func (o *Observer) rounds() [13]*round {
	t := &o.timetable
	return [...]*round{&t.times, &t.queues, &t.tcpInfo, &t.spread, &t.peers, &t.beyond, &t.behind, &t.others, &t.files, &t.titles,
		&t.slow, &t.members, &t.counters}
}

// planRounds sets the timetable.
func (o *Observer) planRounds() {
	every := int64(o.cfg.Interval)
	seldom := max(every, secondNs)
	// A row sums up the looks and costs little; the lists, which may cost 50 ms, have a share of
	// their own.
	o.timetable.queues = round{everyNs: every, share: shareQueues, longestNs: max(every, secondNs/4)}
	o.timetable.tcpInfo = round{everyNs: seldom, share: shareTCPInfo}
	o.timetable.spread = round{everyNs: seldom, share: shareSpread}
	// Its pauses are no longer than that: it limits its expensive parts itself. A short run has
	// several too, since one sample proves no pool.
	few := seldom
	if w := int64(o.cfg.Window); w > 0 {
		few = min(seldom, max(every, w/peerSamples))
	}
	o.timetable.peers = round{everyNs: few, share: sharePeers, longestNs: few, jitter: rand.New(rand.NewPCG(jitterSeed, 2))}
	o.timetable.behind = round{everyNs: max(every, secondNs/2), share: shareBehind, longestNs: max(every, 2*secondNs)} // a short run has some
	o.timetable.beyond = round{everyNs: seldom, share: shareBeyond, longestNs: max(every, int64(longestUnseen))}
	// A one-second run has one at its end.
	o.timetable.others = round{everyNs: seldom, share: shareOthers, longestNs: max(every, 3*secondNs), counts: true}
	o.timetable.files = round{everyNs: seldom, share: shareFiles, longestNs: max(every, int64(longestUnseen))}
	o.timetable.titles = round{everyNs: max(every, secondNs/4), share: shareTitles, longestNs: max(every, secondNs/2),
		jitter: rand.New(rand.NewPCG(jitterSeed, 3))}
	o.timetable.slow = round{everyNs: max(every, secondNs/2), share: shareSlow, longestNs: max(every, int64(longestUnseen)), counts: true}
	o.timetable.members = round{everyNs: every, share: shareMembers, counts: true}
	o.timetable.counters = round{everyNs: every, share: shareCounters, counts: true}
	for _, r := range o.rounds() {
		r.plannedMinNs = every
		r.share *= o.cfg.Effort
	}
}

// add adds a source to a round, or notes why it cannot. A probed source is read once; its first
// reading in the run starts afresh.
func (o *Observer) add(r *round, name string, probed bool, s sampler, err error) {
	if err == nil && probed {
		err = s.sample(tick{host: o.cfg.Host}, func(record.ObservedRow) {})
		if err != nil {
			s.close()
		}
	}
	if err != nil {
		o.miss(record.NotMeasured{What: name, Why: err.Error()})
		return
	}
	r.sources = append(r.sources, &source{name: name, sampler: s})
}

func (o *Observer) miss(n record.NotMeasured) {
	n.Host = o.cfg.Host
	o.missing = append(o.missing, n)
}

func (o *Observer) addCPU() {
	t := o.t
	var err error
	o.stat, err = newStatSampler(&t.r, t.proc)
	o.add(&o.timetable.counters, "cpu", true, o.stat, err)
	softirq, err := newSoftirqSampler(&t.r, t.proc)
	o.add(&o.timetable.counters, "softirq", true, softirq, err)
	psi, err := newPSISampler(&t.r, t.proc)
	o.add(&o.timetable.counters, "psi", true, psi, err)
	freq, err := newFreqSampler(&t.r, t.names, t.sysfs)
	o.add(&o.timetable.slow, "freq", true, freq, err)
}

// Seeds of the jitter: the record allows the moments of a run to be recomputed anyway, and a fixed
// seed keeps two runs alike.
const jitterSeed = 0x6365696c696e67

// addSockets adds the queues, and the listeners with what depends on them: the subject itself.
func (o *Observer) addSockets() {
	target := "nothing"
	switch {
	case o.cfg.TargetUnix != "":
		target = o.cfg.TargetUnix
	case o.cfg.TargetAddr.IsValid():
		target = o.cfg.TargetAddr.String()
	}
	o.subject = newSubject(o.t, target)
	o.subject.missing = func(what, why string) {
		o.miss(record.NotMeasured{What: what, Why: why, TNs: o.nowNs, Part: len(o.subject.processes) > 0})
	}
	switch {
	case o.cfg.TargetUnix != "":
		o.addUnix()
	case o.cfg.TargetAddr.IsValid():
		o.addTCP()
	default:
		o.miss(record.NotMeasured{What: "sockets", Why: "no target was named"})
	}
}

func (o *Observer) addUnix() {
	target, err := newUnixTarget(o.cfg.TargetUnix)
	if err != nil {
		o.miss(record.NotMeasured{What: "sockets", Why: err.Error()})
		return
	}
	var sockets *unixSampler
	var listeners *unixListeners
	err = o.server.in(func() (err error) {
		if sockets, err = newUnixSampler(target); err != nil {
			return err
		}
		if listeners, err = newUnixListeners(target); err != nil {
			sockets.close()
		}
		return err
	})
	if err != nil {
		o.miss(record.NotMeasured{What: "sockets", Why: err.Error()})
		return
	}
	o.add(&o.timetable.queues, "sockets", true, sockets, nil)
	o.addListeners(listeners.list, nil, listeners.close)
	o.miss(record.NotMeasured{What: "tcp_info", Why: "the target is a unix socket"})
	o.miss(record.NotMeasured{What: "connections per process", Why: "not counted for unix sockets", Part: true})
	if o.generator != nil {
		o.miss(record.NotMeasured{What: "sockets", Why: "of a unix socket's connections only the ends in the server's network namespace are seen",
			Part: true})
	}
}

// addListeners adds the listeners' queues and finds the subject through them. connections is nil if
// they cannot be listed.
func (o *Observer) addListeners(list func([]listener) ([]listener, error), c *connections, stop func()) {
	s := &listenerSampler{list: list, subject: o.subject, stop: stop}
	if c != nil {
		s.spread = newSpreadSampler(o.t, o.subject, c)
		o.add(&o.timetable.spread, "connections per process", true, s.spread, nil)
	}
	o.add(&o.timetable.members, "listener", true, s, nil)
}

// addProcesses adds the subject, found and named, and the generator. The order is that of one
// sample: which processes exist, what they do, what they used.
func (o *Observer) addProcesses() {
	t, s := o.t, o.subject
	var err error
	if o.throttle, err = newThrottleSampler(&t.r, t.proc); err == nil {
		o.add(&o.timetable.slow, "throttle", false, o.throttle, nil)
	} else {
		o.throttle = nil
		o.miss(record.NotMeasured{What: "throttle", Why: err.Error()})
	}
	s.joined = o.joined
	for _, pid := range o.cfg.SubjectPIDs {
		o.watch(record.RoleSubject, pid)
	}
	if o.cfg.GeneratorPID != 0 {
		o.watch(record.RoleGenerator, o.cfg.GeneratorPID)
	}
	o.add(&o.timetable.slow, "subject", true, &subjectSampler{s}, nil)
	if !slices.ContainsFunc(s.processes, func(p *process) bool { return p.identity.role == record.RoleSubject }) && len(s.listeners) == 0 {
		o.miss(record.NotMeasured{What: "subject", Why: fmt.Sprintf("nothing listens on %s in this network namespace: "+
			"the server is on another host, or in a container: name its process", s.target)})
	}
	schedstat := t.hasSchedstat()
	if !schedstat {
		o.miss(record.NotMeasured{What: "run-queue delay", Why: "this kernel keeps no /proc/PID/schedstat (CONFIG_SCHED_INFO)", Part: true})
	}
	if fd, err := sys.OpenBelow(t.procDir, t.path.of("self/wchan").end()); err == nil {
		closeFile(&fd)
	} else {
		o.miss(record.NotMeasured{What: "wait channels", Why: fmt.Sprintf("this kernel has no /proc/PID/wchan: %v", err), Part: true})
	}
	o.add(&o.timetable.slow, "thread states", false, &stateSampler{t: t, subject: s}, nil)
	o.add(&o.timetable.slow, "context switches", false, &switchSampler{t: t, subject: s}, nil)
	o.add(&o.timetable.others, "neighbours", false, newNeighbourSampler(t, s), nil)
	o.add(&o.timetable.members, "process", false, &processSampler{t: t, subject: s, schedstat: schedstat}, nil)
	o.add(&o.timetable.beyond, "peers' thread states", false, &stateSampler{t: t, subject: s, peers: true}, nil)
	o.add(&o.timetable.beyond, "peers' context switches", false, &switchSampler{t: t, subject: s, peers: true}, nil)
	o.add(&o.timetable.titles, "titles", false, &titleSampler{t: t, subject: s}, nil)
	o.add(&o.timetable.behind, "peers' processes", false, &processSampler{t: t, subject: s, schedstat: schedstat, peers: true}, nil)
}

// addPeers adds what the subject is connected to. It runs after the search for the subject, so that
// the first scan of its files precedes the run.
func (o *Observer) addPeers() {
	var s *peerSampler
	err := o.server.in(func() (err error) {
		s, err = newPeerSampler(o.t, o.subject, o.cfg.TargetAddr)
		return err
	})
	o.add(&o.timetable.peers, "peers", true, s, err)
}

// addDisks adds the block devices, with the processes that have files open on them.
func (o *Observer) addDisks() {
	files := newDiskFiles(o.t, o.subject, func(what, why string) {
		o.miss(record.NotMeasured{What: what, Why: why, TNs: o.nowNs, Part: true})
	})
	disks, err := newDiskSampler(o.t, files.usedBy)
	o.add(&o.timetable.counters, "disk", true, disks, err)
	o.add(&o.timetable.files, "disk files", false, files, nil)
}

// watch adds a named process.
func (o *Observer) watch(role string, pid int) {
	if err := o.subject.watch(role, pid, "given"); err != nil {
		o.miss(record.NotMeasured{What: "process " + strconv.Itoa(pid), Why: err.Error()})
	}
}

// joined completes the facts about a process that was found.
func (o *Observer) joined(p *process) {
	name := fmt.Sprintf("process %d (%s)", p.identity.pid, p.identity.comm)
	if p.identity.role == record.RoleSubject {
		o.missing = slices.DeleteFunc(o.missing, func(n record.NotMeasured) bool { return n.What == "subject" })
	}
	if fd, err := sys.OpenBelow(p.dir, o.t.path.of("fd").end()); err == nil {
		closeFile(&fd)
	} else if denied(err) {
		o.miss(record.NotMeasured{
			What: name, Why: "its open files, executable and wait channels belong to another user: run as that user or as root",
			TNs: o.nowNs, Part: true,
		})
	}
	if o.throttle == nil {
		return
	}
	text, err := o.t.r.below(p.dir, o.t.path.of("cgroup").end())
	if vanished(err) {
		return
	}
	if err == nil {
		var ok bool
		if p.identity.cgroup, ok = sys.ParseCgroupPath(text, o.throttle.mount.Version); ok {
			err = o.throttle.watch(p.identity.cgroup)
		} else {
			err = fmt.Errorf("it is in no cgroup of version %d", o.throttle.mount.Version)
		}
	}
	if err != nil {
		o.miss(record.NotMeasured{What: name + ": throttling", Why: err.Error(), TNs: o.nowNs, Part: true})
	}
}

// Sample reads every source that is due at nowNs, on the run's clock, and emits their rows. It may
// be called at any ascending times: rows carry their true widths. A source that fails is noted in
// NotMeasured and not read again.
func (o *Observer) Sample(nowNs int64, emit Emit) {
	runtime.LockOSThread()
	defer runtime.UnlockOSThread()
	began := time.Now()
	first := threadNs()
	cpu := first
	ends := o.ends(nowNs)
	for _, r := range o.rounds() {
		start := nowNs + int64(time.Since(began))
		if len(r.sources) == 0 || !r.due(start) && !(ends && r.counts && start-r.lastNs >= shortestRowNs) {
			continue
		}
		before := cpu
		for _, s := range r.sources {
			if s.lost {
				continue
			}
			o.sampleOne(s, nowNs+int64(time.Since(began)), r.plannedNs, emit)
			now := threadNs()
			s.samples++
			s.costNs += now - cpu
			cpu = now
		}
		r.done(start, cpu-before)
	}
	o.samples++
	o.report(nowNs, emit)
	o.costNs += threadNs() - first
	if o.looker != nil {
		o.costNs += o.looker.spent()
	}
}

// ends reports once that the window is over.
func (o *Observer) ends(nowNs int64) bool {
	if o.closed || o.cfg.Window <= 0 || nowNs < int64(o.cfg.Window) {
		return false
	}
	o.closed = true
	return true
}

// sampleOne reads one source, and drops it if that fails.
func (o *Observer) sampleOne(s *source, atNs, plannedNs int64, emit Emit) {
	o.nowNs = atNs
	if err := s.sampler.sample(s.tick(o.cfg.Host, atNs, plannedNs), emit); err != nil {
		s.lost = true
		s.sampler.close()
		o.miss(record.NotMeasured{What: s.name, Why: err.Error(), TNs: atNs})
	}
}

// threadNs returns the thread's CPU time. New has checked that the clock works.
func threadNs() int64 {
	ns, err := sys.SamplingThreadNs()
	if err != nil {
		return 0
	}
	return ns
}

// report emits the cost of observing, once a second.
func (o *Observer) report(nowNs int64, emit Emit) {
	if !o.reporting {
		o.reporting, o.reported, o.reportAtNs = true, nowNs, nowNs+secondNs
		return
	}
	if nowNs < o.reportAtNs {
		return
	}
	at := tick{host: o.cfg.Host, tNs: nowNs, widthNs: max(nowNs-o.reported, 1)}
	row := &record.ObserverRow{ObservedHead: at.head(record.KindObserver), CPUNs: o.costNs - o.reportCost, Samples: o.samples}
	for _, r := range o.rounds() {
		for _, s := range r.sources {
			if s.samples > 0 {
				row.Sources = append(row.Sources, record.SourceCost{Source: s.name, Samples: s.samples, CPUNs: s.costNs})
			}
			s.samples, s.costNs = 0, 0
		}
	}
	emit(row)
	o.reported, o.reportAtNs, o.reportCost, o.samples = nowNs, nowNs+secondNs, o.costNs, 0
}

// Next returns when a source is due next, on the run's clock.
func (o *Observer) Next() int64 {
	next := int64(1<<63 - 1)
	for _, r := range o.rounds() {
		if len(r.sources) > 0 {
			next = min(next, r.dueNs)
		}
	}
	if o.cfg.Window > 0 && !o.closed {
		next = min(next, int64(o.cfg.Window))
	}
	return next
}

// Run samples whenever a source is due until ctx is done, and the cumulative counters once more
// then if the window's end was not known. clock is the run's, in nanoseconds. It may be called
// again after it has returned; nothing observes in between.
func (o *Observer) Run(ctx context.Context, clock func() int64, emit Emit) {
	if o.times != nil {
		defer o.times.rest()
	}
	// A reading is dated before it is made: with 1,000 runnable threads an ordinary one may lose its
	// CPU in between for most of a second. It is refused where the policy may not change.
	runtime.LockOSThread()
	_ = sys.SetShortSlice(sliceOfReadings)
	if o.looker != nil {
		o.looker.start(ctx)
		defer o.looker.stop()
		if err := o.looker.plain; err != nil {
			o.miss(record.NotMeasured{What: "sockets", Part: true,
				Why: "the thread that looks at them has no real-time priority and may come late on a busy CPU: " + err.Error()})
		}
	}
	timer := time.NewTimer(0)
	defer timer.Stop()
	for {
		select {
		case <-ctx.Done():
			if now := clock(); !o.closed && now > 0 {
				o.cfg.Window = time.Duration(now)
				o.Sample(now, emit)
			}
			return
		case <-timer.C:
		}
		o.Sample(clock(), emit)
		timer.Reset(time.Duration(max(o.Next()-clock(), 0)))
	}
}

// Subject returns the server's processes on this host found so far. The observer's own scans find
// them: in New, and in Sample from time to time.
func (o *Observer) Subject() (pids []int) {
	for _, p := range o.subject.processes {
		if p.identity.role == record.RoleSubject && !p.gone {
			pids = append(pids, p.identity.pid)
		}
	}
	return pids
}

// Cost is the CPU time, in nanoseconds, that the samples have used, including emit.
func (o *Observer) Cost() int64 { return o.costNs }

// NotMeasured lists what is missing from the record, as far as known now.
func (o *Observer) NotMeasured() []record.NotMeasured { return slices.Clone(o.missing) }

// Close closes all descriptors.
func (o *Observer) Close() {
	for _, r := range o.rounds() {
		for _, s := range r.sources {
			if !s.lost {
				s.sampler.close()
			}
		}
	}
	o.subject.close()
	o.t.close()
}
