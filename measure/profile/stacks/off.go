//go:build linux

package stacks

import (
	"encoding/binary"
	"errors"
	"fmt"
	"math/rand/v2"
	"runtime"
	"slices"
	"sync"
	"syscall"
	"time"

	"github.com/cilium/ebpf"
	"github.com/cilium/ebpf/link"

	"ceiling/internal/sys"
	"ceiling/measure/profile/symbol"
)

const (
	// burst is how long the switches are traced at a time, and burstEvery how often if that is
	// cheap: an eighth of the time.
	burst      = 50 * time.Millisecond
	burstEvery = 400 * time.Millisecond
	// offShare is the largest cost, as a share of one core: a switch costs about 2 µs, so a server
	// that switches 100,000 times a second is traced less often.
	offShare = 0.0075
	// objectsMax is how many descriptors are looked up after a burst, and sleepersMax how many
	// threads that slept all through it.
	objectsMax  = 64
	sleepersMax = 256
)

// OffSampler samples what threads wait for.
type OffSampler struct {
	s       *switches
	effort  float64
	served  uint16 // port that the load uses; 0: none
	members *members

	table   map[string]*blocked
	key     []byte
	comms   map[int]string
	objects map[descriptor]object // of the burst
	now     round

	bursts           int
	burstNs          int64
	threadNs, seenNs int64
	runnableNs       int64
	switched         int64
	lost             int
	costNs, kernelNs int64
	err              error

	stop chan struct{}
	done chan struct{}

	turn   sync.Mutex // a burst belongs to one block
	block  int
	paused bool
}

type descriptor struct {
	pid, fd int
}

// round is one burst.
type round struct {
	asleep map[int]*blocked // threads asleep at its start
	chains map[int32][]uint64
}

// blocked is a distinct wait.
type blocked struct {
	counted
	call   int64
	state  uint32
	arg    uint64
	object object
	names  []string // of the kernel's frames, if they came with names
	tids   map[int]bool
}

// tidsMax bounds the distinct threads in one wait.
const tidsMax = 1024

// NewOffSampler loads the program, which takes up to 30 ms: call it before the load begins. served
// is the port that the load uses; effort the part of the usual cost that it may have, above 0 to 1.
func NewOffSampler(t *Tables, served uint16, effort float64) (*OffSampler, error) {
	s, err := loadSwitches()
	if err != nil {
		return nil, fmt.Errorf("see what threads wait for: %w", err)
	}
	return &OffSampler{
		s: s, effort: effort, served: served, table: map[string]*blocked{}, comms: map[int]string{},
		members: newMembers(), block: noBlock,
	}, nil
}

// Start begins sampling. with, if not nil, has the processes and finds their children; else pids
// are all there are.
func (o *OffSampler) Start(with *CPUSampler, pids []int) {
	if with != nil {
		o.members = with.members
	} else {
		for _, pid := range pids {
			o.members.watch(pid)
		}
	}
	o.stop, o.done = make(chan struct{}), make(chan struct{})
	go func() {
		defer close(o.done)
		runtime.LockOSThread()
		defer runtime.UnlockOSThread()
		o.run()
	}()
}

// Watch, WatchPeer and Answers do what CPUSampler's do, for use without one.
func (o *OffSampler) Watch(pid int)                 { o.members.watch(pid) }
func (o *OffSampler) WatchPeer(pid, parent int)     { o.members.watchPeer(pid, parent) }
func (o *OffSampler) Answers(root int, addr string) { o.members.answers(root, addr) }

// Stop ends sampling and releases everything.
func (o *OffSampler) Stop() {
	if o.stop != nil {
		close(o.stop)
		<-o.done
		o.stop = nil
	}
	if o.s != nil {
		o.err = errors.Join(o.err, o.s.close())
		o.s = nil
	}
}

func (o *OffSampler) run() {
	stats, err := ebpf.EnableStats(0) // BPF_STATS_RUN_TIME; Linux 5.8
	if err == nil {
		defer func() { o.err = errors.Join(o.err, stats.Close()) }()
	}
	// The first comes soon, so that a short run has one; the rest at random times.
	pause := time.Duration(rand.Int64N(int64(burst)))
	for {
		if !o.sleep(pause) {
			return
		}
		before := o.costNs + o.kernelNs
		if err := o.burstUnlessPaused(); err != nil {
			o.err = err
			return
		}
		cost := float64(o.costNs + o.kernelNs - before)
		least := time.Duration(max(float64(burstEvery), cost/offShare)/o.effort) - burst
		pause = least/2 + time.Duration(rand.Int64N(int64(least)))
	}
}

// sleep reports whether the time passed before the end.
func (o *OffSampler) sleep(d time.Duration) bool {
	timer := time.NewTimer(d)
	defer timer.Stop()
	select {
	case <-timer.C:
		return true
	case <-o.stop:
		return false
	}
}

func (o *OffSampler) burstUnlessPaused() error {
	o.turn.Lock()
	defer o.turn.Unlock()
	if o.paused {
		return nil
	}
	return o.burst()
}

// burst traces the switches once.
func (o *OffSampler) burst() error {
	started := sys.ThreadCPUNs()
	o.now = round{asleep: map[int]*blocked{}, chains: map[int32][]uint64{}}
	o.objects = map[descriptor]object{}
	pids := o.members.pids()
	for _, pid := range pids {
		if err := o.s.targets.Put(uint32(pid), uint32(1)); err != nil && !errors.Is(err, syscall.E2BIG) {
			return fmt.Errorf("name the server's processes to the kernel: %w", err)
		}
	}
	attached, err := link.AttachTracing(link.TracingOptions{Program: o.s.program})
	if err != nil {
		return permitted(fmt.Errorf("watch the scheduler's switches: %w", err))
	}
	from := sys.MonotonicNs()
	threads, err := o.sleepers(pids)
	o.sleep(burst)
	err = errors.Join(err, attached.Close())
	to := sys.MonotonicNs()
	if err != nil {
		return fmt.Errorf("watch the scheduler's switches: %w", err)
	}
	o.threadNs += int64(threads) * (to - from)
	o.bursts++
	o.burstNs += to - from
	if err := o.collect(to); err != nil {
		return fmt.Errorf("read what threads waited for: %w", err)
	}
	o.costNs += sys.ThreadCPUNs() - started
	if stats, err := o.s.program.Stats(); err == nil {
		o.kernelNs = int64(stats.Runtime)
	}
	return nil
}

// collect reads the sums of a burst, and the unfinished waits.
func (o *OffSampler) collect(nowNs int64) error {
	var list []wait
	var w wait
	var v sum
	all := o.s.waits.Iterate()
	for all.Next(&w, &v) {
		o.take(w, v)
		list = append(list, w)
	}
	err := all.Err()
	var tids []uint32
	var tid uint32
	var at start
	open := o.s.started.Iterate()
	for open.Next(&tid, &at) {
		tids = append(tids, tid)
		if away := nowNs - int64(at.AtNs); away > 0 {
			o.take(wait{Process: at.Process, Thread: tid, Kernel: at.Kernel, User: at.User, Call: at.Call, Arg: at.Arg, State: at.State},
				sum{uint64(away), 1})
		}
	}
	err = errors.Join(err, open.Err())
	// An entry that is gone need not be deleted.
	for _, w := range list {
		_ = o.s.waits.Delete(w)
	}
	for _, tid := range tids {
		_ = o.s.started.Delete(tid)
	}
	for id := range o.now.chains {
		_ = o.s.stacks.Delete(uint32(id))
	}
	return err
}

// chain returns a stack of the burst by its ID.
func (o *OffSampler) chain(id int32) []uint64 {
	if id < 0 {
		return nil
	}
	if c, ok := o.now.chains[id]; ok {
		return c
	}
	var frames [framesMax]uint64
	if err := o.s.stacks.Lookup(uint32(id), &frames); err != nil {
		o.now.chains[id] = nil
		return nil
	}
	n := slices.Index(frames[:], 0)
	if n < 0 {
		n = len(frames)
	}
	c := slices.Clone(frames[:n])
	o.now.chains[id] = c
	return c
}

// take adds one sum.
func (o *OffSampler) take(w wait, v sum) {
	o.switched += int64(v.Times)
	space := o.members.of(int(w.Process))
	if space == nil {
		return
	}
	one := blocked{counted: counted{space: space, kernel: o.chain(w.Kernel), user: o.chain(w.User)}, call: w.Call, state: w.State}
	if was := o.now.asleep[int(w.Thread)]; w.Kernel == sleptBefore && was != nil {
		one.names = was.names
	} else if w.Kernel < 0 {
		o.lost++
	}
	o.add(&one, int(w.Thread), w.Arg, int64(v.Ns), int64(v.Times))
}

// add sums up a thread's wait.
func (o *OffSampler) add(b *blocked, tid int, arg uint64, ns, times int64) {
	if o.members.peerOf(b.space.PID) == nil {
		o.seenNs += ns
		if b.state&(1<<stateBits-1) == runnable {
			o.runnableNs += ns
		}
	}
	b.thread = o.group(b.space.PID, tid)
	switch {
	case takesFD(b.call):
		b.object = o.object(b.space.PID, int(int32(arg)))
	case b.call == syscall.SYS_FUTEX && b.space.Runtime != symbol.Go && b.space.Runtime != symbol.Java:
		b.arg = arg // identifies the lock
	}
	k := o.keyOf(b)
	sum := o.table[string(k)]
	if sum == nil {
		if len(o.table) >= stacksMax {
			o.lost++
			return
		}
		sum = b
		sum.tids = map[int]bool{}
		o.table[string(k)] = sum
	}
	sum.value += ns
	sum.times += times
	sum.inBlock(o.block, ns)
	if len(sum.tids) < tidsMax {
		sum.tids[tid] = true
	}
}

func (o *OffSampler) keyOf(b *blocked) []byte {
	k := binary.NativeEndian.AppendUint32(o.key[:0], uint32(b.space.PID))
	k = append(append(k, b.thread...), 0)
	k = append(append(k, b.object.kind...), 0)
	k = append(append(k, b.object.name...), 0)
	k = append(append(k, b.object.local.String()...), 0)
	if b.object.accepted {
		k = append(k, 1)
	}
	k = binary.NativeEndian.AppendUint64(k, uint64(b.call))
	k = binary.NativeEndian.AppendUint64(k, b.arg)
	k = binary.NativeEndian.AppendUint32(k, b.state)
	for _, part := range [2][]uint64{b.kernel, b.user} {
		k = binary.NativeEndian.AppendUint32(k, uint32(len(part)))
		for _, a := range part {
			k = binary.NativeEndian.AppendUint64(k, a)
		}
	}
	for _, name := range b.names {
		k = append(append(k, name...), 0)
	}
	o.key = k
	return k
}

// object returns what a descriptor is, looked up once per burst.
func (o *OffSampler) object(pid, fd int) object {
	d := descriptor{pid, fd}
	at, ok := o.objects[d]
	if !ok && len(o.objects) < objectsMax && fd >= 0 {
		at = objectOf(pid, fd)
		o.objects[d] = at
	}
	return at
}

// group returns the name of a thread's group.
func (o *OffSampler) group(pid, tid int) string {
	name, ok := o.comms[tid]
	if !ok && len(o.comms) < commsMax {
		name = groupOf(threadName(pid, tid))
		o.comms[tid] = name
	}
	return name
}
