//go:build linux

// Package stacks samples stacks of a server's processes through the kernel, whatever language they
// are written in: on-CPU (perf events) and off-CPU (the scheduler's context switches). It
// symbolizes and sums them up.
package stacks

import (
	"cmp"
	"errors"
	"fmt"
	"maps"
	"net/netip"
	"os"
	"runtime"
	"slices"
	"strconv"
	"strings"
	"sync"
	"syscall"
	"time"

	"ceiling/internal/sys"
	"ceiling/measure/profile/symbol"
)

const (
	// hzMax is the rate per CPU; with many CPUs it is lower, so that all of them together stay
	// below samplesMax a second. A sample costs the reader about 1 µs, so that is at most 0.2% of a
	// core.
	hzMax      = 199
	samplesMax = 1600
	hzLeast    = 11
	// framesMax bounds the depth of a stack.
	framesMax = 64
	// Pages of a CPU's ring: 199 stacks of 64 frames take 110 kB a second, and the ring is drained
	// every drainEvery.
	ringPages  = 64
	drainEvery = 250 * time.Millisecond
	// eventsMax bounds the descriptors if each thread needs its own.
	eventsMax = 512
)

// CPUSampler samples on-CPU stacks.
type CPUSampler struct {
	hz     int
	whole  bool // every CPU is sampled, whichever process runs
	kernel bool
	events []*sys.PerfClock
	rings  []ring

	members *members
	table   *table
	comms   map[int]string // threads' names, by TID
	one     sample
	lost    uint64
	costNs  int64
	opened  int // events
	sampled int // of members, under their lock

	stop   chan struct{}
	done   chan struct{}
	marks  chan mark
	err    error
	lasted time.Duration
}

// members are the processes whose samples count: the named ones and their children.
type members struct {
	mu     sync.Mutex
	spaces map[int]*symbol.Space
	failed map[int]error
	peers  map[int]*peer // of other servers: which one they belong to
}

// peer is another server that the server is connected to.
type peer struct {
	root  int             // its outermost process
	addrs map[string]bool // that it listens on
	ports map[uint16]bool
}

func newMembers() *members {
	return &members{spaces: map[int]*symbol.Space{}, failed: map[int]error{}, peers: map[int]*peer{}}
}

// pids lists them, the server's first.
func (m *members) pids() []int {
	m.mu.Lock()
	defer m.mu.Unlock()
	list := slices.Sorted(maps.Keys(m.spaces))
	slices.SortStableFunc(list, func(a, b int) int { return cmp.Compare(m.order(a), m.order(b)) })
	return list
}

func (m *members) order(pid int) int {
	if m.peers[pid] != nil {
		return 1
	}
	return 0
}

// watchPeer adds a process of another server: its outermost, or a child of a known one.
func (m *members) watchPeer(pid, parent int) {
	m.mu.Lock()
	of := m.peers[parent]
	if of == nil {
		of = m.peers[pid]
	}
	if of == nil {
		of = &peer{root: pid, addrs: map[string]bool{}, ports: map[uint16]bool{}}
	}
	if m.spaces[pid] == nil || m.peers[pid] != nil { // never one of the server's
		m.peers[pid] = of
	}
	m.mu.Unlock()
	m.watch(pid)
}

// answers records an address that a peer listens on.
func (m *members) answers(root int, addr string) {
	m.mu.Lock()
	defer m.mu.Unlock()
	of := m.peers[root]
	if of == nil {
		return
	}
	of.addrs[addr] = true
	if at, err := netip.ParseAddrPort(addr); err == nil {
		of.ports[at.Port()] = true
	}
}

// peerOf returns the peer a process belongs to: nil for the server's.
func (m *members) peerOf(pid int) *peer {
	m.mu.Lock()
	defer m.mu.Unlock()
	return m.peers[pid]
}

// membersMax bounds them: a server that forks per request has many.
const membersMax = 4096

// watch adds a process, at any time and from any goroutine.
func (m *members) watch(pid int) {
	m.mu.Lock()
	defer m.mu.Unlock()
	if m.spaces[pid] != nil || len(m.spaces) >= membersMax {
		return
	}
	if err := m.open(pid); err != nil {
		m.failed[pid] = err
	}
}

// open adds a process whose samples count, with symbols if it may be read.
func (m *members) open(pid int) error {
	s, err := symbol.OpenSpace(pid)
	if err != nil {
		s = &symbol.Space{PID: pid}
	}
	m.spaces[pid] = s
	return err
}

// forked handles a new child; children of members are members. One that has already ended has no
// symbols, and is not worth reporting.
func (m *members) forked(pid, parent int) {
	m.mu.Lock()
	defer m.mu.Unlock()
	delete(m.spaces, pid) // the PID may be reused
	delete(m.peers, pid)
	if m.spaces[parent] != nil && len(m.spaces) < membersMax {
		if of := m.peers[parent]; of != nil {
			m.peers[pid] = of
		}
		_ = m.open(pid)
	}
}

// of returns the space of a member, or nil.
func (m *members) of(pid int) *symbol.Space {
	m.mu.Lock()
	defer m.mu.Unlock()
	return m.spaces[pid]
}

// NewCPUSampler opens the sampler for existing processes; more may be watched later. If it may
// sample every CPU (root, CAP_PERFMON, or kernel.perf_event_paranoid below 1) it sees every new
// thread and child; else only the existing threads, and what they start. effort is the part of the
// usual rate of samples, above 0 to 1.
func NewCPUSampler(pids []int, effort float64) (*CPUSampler, error) {
	c, cpus, err := newSampler(effort)
	if err != nil {
		return nil, err
	}
	c.whole = true
	for _, cpu := range cpus {
		if err = c.open(sys.PerfClockConfig{PID: -1, CPU: cpu}); err != nil {
			c.closeEvents()
			return newThreadSampler(pids, effort)
		}
	}
	return c.watching(pids), nil
}

// newThreadSampler works without the privilege to sample whole CPUs.
func newThreadSampler(pids []int, effort float64) (*CPUSampler, error) {
	c, cpus, err := newSampler(effort)
	if err != nil {
		return nil, err
	}
	if err := c.openThreads(pids, cpus); err != nil {
		c.closeEvents()
		return nil, fmt.Errorf("take CPU samples: %w", err)
	}
	return c.watching(pids), nil
}

func newSampler(effort float64) (*CPUSampler, []int, error) {
	cpus, err := onlineCPUs()
	if err != nil {
		return nil, nil, err
	}
	return &CPUSampler{
		members: newMembers(),
		table:   newTable(), comms: map[int]string{}, kernel: true,
		hz: max(int(effort*float64(min(hzMax, samplesMax/len(cpus)))), hzLeast),
	}, cpus, nil
}

func (c *CPUSampler) watching(pids []int) *CPUSampler {
	c.opened = len(c.events)
	for _, pid := range pids {
		c.members.watch(pid)
	}
	return c
}

// open adds an event with its own ring.
func (c *CPUSampler) open(of sys.PerfClockConfig) error {
	of.Hz, of.Kernel, of.MaxStack, of.Pages = c.hz, c.kernel, framesMax, ringPages
	e, err := sys.OpenPerfClock(of)
	if err != nil {
		return err
	}
	c.events = append(c.events, e)
	if e.Ring != nil {
		c.rings = append(c.rings, newRing(e.Ring, os.Getpagesize()))
	}
	return nil
}

// openThreads opens an event per thread and CPU, which share one ring per CPU: an inherited event
// has no ring across CPUs (perf_mmap).
func (c *CPUSampler) openThreads(pids, cpus []int) error {
	tids, err := threadsOf(pids)
	if err != nil {
		return err
	}
	if len(tids) == 0 {
		return errors.New("no thread of the server was found")
	}
	if n := eventsMax / len(cpus); len(tids) > n {
		return fmt.Errorf("the server has %d threads, and without root or CAP_PERFMON at most %d are sampled on %d CPUs", len(tids), n, len(cpus))
	}
	for _, kernel := range []bool{true, false} { // the kernel's part alone may be denied
		c.kernel = kernel
		if err = c.openEach(tids, cpus); err == nil {
			return nil
		}
		c.closeEvents()
	}
	if errors.Is(err, os.ErrPermission) {
		level := "unknown"
		if text, readErr := os.ReadFile("/proc/sys/kernel/perf_event_paranoid"); readErr == nil {
			level = strings.TrimSpace(string(text))
		}
		return fmt.Errorf("%w: kernel.perf_event_paranoid is %s; run as root, with CAP_PERFMON, or as the server's user with it at 2 or less",
			err, level)
	}
	return err
}

func (c *CPUSampler) openEach(tids, cpus []int) error {
	for _, cpu := range cpus {
		var into *sys.PerfClock
		for _, tid := range tids {
			err := c.open(sys.PerfClockConfig{PID: tid, CPU: cpu, Inherit: true, Into: into})
			if errors.Is(err, syscall.ESRCH) {
				continue // it has ended
			}
			if err != nil {
				return err
			}
			if into == nil {
				into = c.events[len(c.events)-1]
			}
		}
	}
	if len(c.events) == 0 {
		return errors.New("the server's threads have ended")
	}
	return nil
}

func (c *CPUSampler) closeEvents() {
	for _, e := range c.events {
		// Closing an event only fails for a wrong descriptor.
		_ = e.Close()
	}
	c.events, c.rings = nil, nil
}

// Watch counts the samples of another process, from any goroutine. Unless every CPU is sampled it
// only provides symbols.
func (c *CPUSampler) Watch(pid int) { c.members.watch(pid) }

// WatchPeer also samples a process of another server that the server is connected to: its outermost
// one, or a child of a known one. Its samples are kept separate.
func (c *CPUSampler) WatchPeer(pid, parent int) { c.members.watchPeer(pid, parent) }

// Answers records an address that the peer with an outermost process listens on.
func (c *CPUSampler) Answers(root int, addr string) { c.members.answers(root, addr) }

// Start begins sampling.
func (c *CPUSampler) Start() error {
	for _, e := range c.events {
		if err := e.Enable(); err != nil {
			c.closeEvents()
			return fmt.Errorf("begin CPU samples: %w", err)
		}
	}
	c.stop, c.done, c.marks = make(chan struct{}), make(chan struct{}), make(chan mark)
	go func() {
		defer close(c.done)
		runtime.LockOSThread()
		defer runtime.UnlockOSThread()
		c.run()
	}()
	return nil
}

func (c *CPUSampler) run() {
	timer := time.NewTicker(drainEvery)
	defer timer.Stop()
	began, paused := time.Now(), false
	for {
		select {
		case <-timer.C:
			c.drain()
		case m := <-c.marks:
			if !paused {
				c.lasted += time.Since(began)
			}
			c.turn(m)
			began, paused = time.Now(), m.paused
			close(m.done)
		case <-c.stop:
			if !paused {
				c.lasted += time.Since(began)
			}
			for _, e := range c.events {
				c.err = errors.Join(c.err, e.Disable())
			}
			c.drain()
			return
		}
	}
}

// Stop ends sampling and closes the events. It reads the new mappings now, while the processes
// exist.
func (c *CPUSampler) Stop() {
	if c.stop != nil {
		close(c.stop)
		<-c.done
		c.stop = nil
		c.members.mu.Lock()
		for _, s := range c.members.spaces {
			s.Refresh()
		}
		c.members.mu.Unlock()
	}
	c.closeEvents()
}

// drain reads the rings.
func (c *CPUSampler) drain() {
	before := sys.ThreadCPUNs()
	for i := range c.rings {
		c.rings[i].read(c.take)
	}
	c.costNs += sys.ThreadCPUNs() - before
}

// take handles one record.
func (c *CPUSampler) take(kind uint32, body []byte) {
	switch kind {
	case recordSample:
		if !c.one.parse(body) {
			return
		}
		space := c.members.of(c.one.pid)
		if space == nil {
			return
		}
		c.table.add(space, c.thread(c.one.pid, c.one.tid), c.one.kernel, c.one.user, 1)
		c.members.mu.Lock()
		c.sampled++
		c.members.mu.Unlock()
	case recordLost:
		c.lost += parseLost(body)
	case recordFork:
		if pid, parent, ok := parseFork(body); ok {
			c.members.forked(pid, parent)
		}
	}
}

// commsMax bounds the names kept.
const commsMax = 65536

// thread returns the name of a thread's group.
func (c *CPUSampler) thread(pid, tid int) string {
	name, ok := c.comms[tid]
	if !ok && len(c.comms) < commsMax {
		name = groupOf(threadName(pid, tid))
		c.comms[tid] = name
	}
	return name
}

// threadName returns the name of a thread, "" if it has ended.
func threadName(pid, tid int) string {
	b, err := os.ReadFile(fmt.Sprintf("/proc/%d/task/%d/comm", pid, tid))
	if err != nil {
		return ""
	}
	return strings.TrimSpace(string(b))
}

// groupOf returns the name that the threads of a pool share: numbers become #.
func groupOf(name string) string {
	var b strings.Builder
	digits := false
	for _, r := range name {
		if r >= '0' && r <= '9' {
			if !digits {
				b.WriteByte('#')
			}
			digits = true
			continue
		}
		digits = false
		if r < ' ' || r == 0x7f {
			r = '?'
		}
		b.WriteRune(r)
	}
	return b.String()
}

// threadsOf lists the threads of processes; one that has ended has none.
func threadsOf(pids []int) ([]int, error) {
	var list []int
	for _, pid := range pids {
		entries, err := os.ReadDir(fmt.Sprintf("/proc/%d/task", pid))
		if os.IsNotExist(err) {
			continue
		}
		if err != nil {
			return nil, err
		}
		for _, e := range entries {
			if tid, err := strconv.Atoi(e.Name()); err == nil {
				list = append(list, tid)
			}
		}
	}
	return list, nil
}

// onlineCPUs parses a list like "0-3,8".
func onlineCPUs() ([]int, error) {
	text, err := os.ReadFile("/sys/devices/system/cpu/online")
	if err != nil {
		return nil, err
	}
	var list []int
	for part := range strings.SplitSeq(strings.TrimSpace(string(text)), ",") {
		first, last, ranged := strings.Cut(part, "-")
		from, err := strconv.Atoi(first)
		to := from
		if ranged && err == nil {
			to, err = strconv.Atoi(last)
		}
		if err != nil || to < from || to-from > 1<<16 {
			return nil, fmt.Errorf("read /sys/devices/system/cpu/online: %q", text)
		}
		for cpu := from; cpu <= to; cpu++ {
			list = append(list, cpu)
		}
	}
	return list, nil
}

// method says how the samples were taken.
func (c *CPUSampler) method() string {
	if !c.whole {
		how := "cpu-clock of the server's threads"
		if !c.kernel {
			how += ", without the kernel's part"
		}
		return how
	}
	return "cpu-clock of every CPU"
}
