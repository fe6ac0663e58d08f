//go:build linux

package stacks

import (
	"cmp"
	"fmt"
	"maps"
	"net/netip"
	"os"
	"slices"
	"strings"

	"ceiling/measure/profile/symbol"
	"ceiling/record"
)

// addresses returns all addresses to symbolize.
func (o *OffSampler) addresses() []symbol.Address {
	var list []symbol.Address
	for _, b := range o.table {
		b.each(func(a symbol.Address) { list = append(list, a) })
	}
	return list
}

// place is the key that waits are summed up by.
type waitPlace struct {
	reason                  string
	idle                    bool
	pid                     int
	thread                  string
	function, file, through string
	line                    int
	kernel, object, device  string
}

// waitSum is the sum of the waits of a key.
type waitSum struct {
	ns, times int64
	tids      map[int]bool
	remote    netip.AddrPort
	peer      int
}

// waitSums are the waits of one server.
type waitSums map[waitPlace]*waitSum

// figures sums up the waits of the server and of its peers, and returns the server's as stacks too.
func (o *OffSampler) figures(frames map[symbol.Address]symbol.Frame) (*record.OffCPUStacks, []named, map[*peer][]record.StackWait) {
	out := &record.OffCPUStacks{
		Method: "sched_switch in bursts", Bursts: o.bursts, BurstNs: o.burstNs, ThreadNs: o.threadNs, SeenNs: o.seenNs, RunnableNs: o.runnableNs,
		Switches: o.switched, CostNs: o.costNs, KernelNs: o.kernelNs,
	}
	of := map[*peer]waitSums{nil: {}}
	variables := map[symbol.Address]string{}
	var stacks []named
	for _, b := range o.table {
		n := b.named(frames)
		who := o.members.peerOf(b.space.PID)
		served := func(port uint16) bool { return o.served != 0 && port == o.served }
		if who != nil {
			served = func(port uint16) bool { return who.ports[port] }
		}
		if of[who] == nil {
			of[who] = waitSums{}
		}
		at := b.place(n.frames[:n.inKernel], n.frames[n.inKernel:], b.variable(variables), served)
		of[who].add(at, b)
		if who == nil {
			n.reason, n.idle = at.reason, at.idle
			stacks = append(stacks, n)
		}
	}
	peers := map[*peer][]record.StackWait{}
	for who, sums := range of {
		peers[who] = sums.rows(float64(max(o.burstNs, 1)))
	}
	out.Waits = peers[nil]
	delete(peers, nil)
	for i := range out.Waits {
		o.members.nameOther(&out.Waits[i])
	}
	slices.SortFunc(stacks, func(a, b named) int { return cmp.Compare(b.value, a.value) })
	return out, stacks, peers
}

func (sums waitSums) add(at waitPlace, b *blocked) {
	s := sums[at]
	if s == nil {
		s = &waitSum{tids: map[int]bool{}, remote: b.object.remote, peer: b.object.pid}
		sums[at] = s
	}
	s.ns += b.value
	s.times += b.times
	maps.Copy(s.tids, b.tids)
}

// rows returns the longest, for the record.
func (sums waitSums) rows(burstNs float64) []record.StackWait {
	list := []record.StackWait{}
	for at, s := range sums {
		list = append(list, at.row(s, burstNs))
	}
	slices.SortFunc(list, func(a, b record.StackWait) int {
		if a.Idle != b.Idle { // the informative ones come first
			if b.Idle {
				return -1
			}
			return 1
		}
		return cmp.Or(cmp.Compare(b.Ns, a.Ns), cmp.Compare(fmt.Sprint(a), fmt.Sprint(b)))
	})
	return list[:min(len(list), record.StackWaitsMost)]
}

// nameOther names the process at the other end of a wait, if it is on this host.
func (m *members) nameOther(w *record.StackWait) {
	m.mu.Lock()
	defer m.mu.Unlock()
	for _, p := range m.peers {
		if s := m.spaces[p.root]; s != nil && (w.Object != "" && p.addrs[w.Object] || w.ProcessPID == p.root) {
			w.Process, w.ProcessPID = s.Comm, p.root
			return
		}
	}
	if w.ProcessPID == 0 {
		return
	}
	if comm, err := os.ReadFile(fmt.Sprintf("/proc/%d/comm", w.ProcessPID)); err == nil {
		w.Process = printable(strings.TrimSpace(string(comm)))
	}
}

// named symbolizes a wait's stack.
func (b *blocked) named(frames map[symbol.Address]symbol.Frame) named {
	n := named{counted: &b.counted}
	for _, name := range b.names {
		n.frames = append(n.frames, symbol.Frame{Name: name, Package: symbol.Kernel, Mapped: true})
	}
	b.each(func(a symbol.Address) {
		if f := frames[a]; f.Mapped {
			n.frames = append(n.frames, f)
		}
	})
	for n.inKernel < len(n.frames) && n.frames[n.inKernel].Package == symbol.Kernel {
		n.inKernel++
	}
	n.trim()
	return n
}

// trim removes the scheduler's frames, and the tracing program's.
func (n *named) trim() {
	for i := n.inKernel - 1; i >= 0; i-- {
		switch n.frames[i].Name {
		case "__schedule", "schedule", "schedule_timeout", "preempt_schedule_irq", "preempt_schedule_common", "io_schedule",
			"io_schedule_timeout",
			"schedule_hrtimeout_range", "schedule_hrtimeout_range_clock":
			n.frames, n.inKernel = n.frames[i+1:], n.inKernel-i-1
			return
		}
	}
}

// variable returns the variable that contains a futex.
func (b *blocked) variable(known map[symbol.Address]string) string {
	if b.arg == 0 {
		return ""
	}
	at := symbol.Address{Space: b.space, At: b.arg}
	name, ok := known[at]
	if !ok && len(known) < objectsMax {
		name = b.space.Data(b.arg)
		known[at] = name
	}
	return name
}

// place returns the key that a wait is summed up by.
func (b *blocked) place(kernel, user []symbol.Frame, variable string, served func(uint16) bool) waitPlace {
	at := waitPlace{pid: b.space.PID, thread: b.thread, object: b.object.name, device: b.object.device}
	at.reason, at.idle = b.reason(kernel, user, variable, served)
	if at.reason == record.WaitLock && at.object == "" {
		at.object = variable
	}
	switch at.reason {
	case record.WaitCPU: // whatever it was about to do
		return waitPlace{reason: at.reason, pid: at.pid, thread: at.thread}
	case record.WaitSync, record.WaitDisk, record.WaitFileLock:
		at.kernel = kernelEntry(kernel) // a sync waits in many functions
	}
	if at.kernel == "" && len(kernel) > 0 {
		at.kernel = kernel[0].Name
	}
	if at.idle && at.object != "" && at.reason == record.WaitReceive {
		at.object = "" // each of the load's connections is different
	}
	if f, ok := firstOwn(user); ok {
		at.function, at.file, at.line = f.Name, f.File, f.Line
	}
	for _, f := range user {
		if f.Name != "" && plumbing(&f) {
			at.through = f.Name
			break
		}
	}
	if at.reason == record.WaitInterpreterLock {
		at.through = "take_gil"
	}
	return at
}

func (at *waitPlace) row(s *waitSum, burstNs float64) record.StackWait {
	return record.StackWait{
		Reason: at.reason, Idle: at.idle, Ns: s.ns, Threads: float64(s.ns) / burstNs, Distinct: len(s.tids), Times: s.times,
		Thread: at.thread, PID: at.pid, Function: at.function, File: at.file, Line: at.line, Through: at.through,
		Kernel: at.kernel, Object: at.object, Device: at.device, ProcessPID: s.peer,
	}
}
