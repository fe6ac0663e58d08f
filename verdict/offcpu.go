package verdict

import (
	"cmp"
	"math"
	"path"
	"slices"
	"strings"

	"ceiling/record"
)

// What the server's threads wait for, by the stacks that the kernel took as they left their CPUs.
// Stacks name what the list of kernel functions (waitthreads.go) cannot: which lock, whose
// response, which file.

// Bounds for off-CPU stacks.
const (
	// burstsFewest is the fewest bursts, of 50 ms each: a single one may show just one moment.
	burstsFewest = 3
	// waitThreads is how many threads must wait for one thing on average for it to be mentioned;
	// waitStep, for it to be a next step.
	waitThreads = 0.05
	waitStep    = 0.5
	waitsNamed  = 3
)

// offWait is what threads wait for, summed over threads and code locations.
type offWait struct {
	record.StackWait
	share       float64 // of the time of all informative waits
	connections int     // that the server keeps to the object; 0 if unknown
}

// tellingWaits returns the informative waits, the longest first.
func (f *serverSide) tellingWaits() []offWait {
	s := f.base.run.Stacks
	if s == nil || s.OffCPU == nil || s.OffCPU.Bursts < burstsFewest || s.OffCPU.BurstNs <= 0 {
		return nil
	}
	list := telling(s.OffCPU.Waits, s.OffCPU.BurstNs)
	requests := f.base.slots
	if f.base.open {
		requests = math.Max(f.base.rate*f.base.run.Latency.Service.MeanNs/1e9, 1)
	}
	byStrength(list, requests)
	for i := range list {
		if at := slices.IndexFunc(f.peers.list, func(u peerUse) bool { return u.addr == list[i].Object && u.steady() }); at >= 0 {
			list[i].connections = f.peers.list[at].high
		}
	}
	return list
}

// telling sums the informative waits that lasted for some time.
func telling(waits []record.StackWait, burstNs int64) []offWait {
	var list []offWait
	total := 0.0
	for _, w := range waits {
		if w.Idle || w.Reason == record.WaitCPU || w.Ns <= 0 {
			continue
		}
		total += float64(w.Ns)
		i := slices.IndexFunc(list, func(o offWait) bool { return o.Reason == w.Reason && o.Object == w.Object && o.Device == w.Device })
		if i < 0 {
			list = append(list, offWait{StackWait: w})
			continue
		}
		list[i].Ns += w.Ns
		list[i].Times += w.Times
		list[i].Distinct = max(list[i].Distinct, w.Distinct) // they may be the same threads
		if list[i].Function == "" {
			list[i].Function, list[i].File, list[i].Line = w.Function, w.File, w.Line
		}
	}
	for i := range list {
		list[i].share = float64(list[i].Ns) / total
		list[i].Threads = float64(list[i].Ns) / float64(burstNs)
	}
	byStrength(list, math.Inf(1))
	return list
}

// byStrength sorts waits by what they explain of so many requests in flight.
func byStrength(list []offWait, requests float64) {
	slices.SortStableFunc(list, func(a, b offWait) int {
		return cmp.Or(cmp.Compare(weak(&a, requests), weak(&b, requests)), cmp.Compare(b.Ns, a.Ns))
	})
}

// weak sorts weak waits last: a background thread sleeps between its rounds. If half as many threads
// sleep as there are requests in flight, the requests sleep.
func weak(w *offWait, requests float64) int {
	if w.Reason == record.WaitSleep && w.Threads < mostOf*requests {
		return 1
	}
	return 0
}

// stackClue says what the threads wait for.
func (f *serverSide) stackClue() hint {
	var c hint
	list := f.tellingWaits()
	if len(list) == 0 || list[0].Threads < waitThreads {
		return c
	}
	var parts []record.Statement
	for i := range list[:min(len(list), waitsNamed)] {
		if list[i].Threads >= waitThreads {
			parts = append(parts, say("wait.threads", with{"wait": list[i].says(), "threads": list[i].Threads}))
		}
	}
	off := f.base.run.Stacks.OffCPU
	c.says = []record.Evidence{record.NewEvidence("stacks.off_cpu.waits", list[0].Threads, "threads",
		say("waits", with{"waits": parts, "seen_ns": off.BurstNs, "bursts": off.Bursts}))}
	if top := &list[0]; top.Threads >= waitStep {
		c.next = append([]record.Statement{top.stepWith(f.waitTool())}, f.base.heldDuring(list)...)
	}
	return c
}

// heldDuring names what the holder of a contended lock probably does: what one thread at a time
// waits for while others wait for the lock.
func (f *runFacts) heldDuring(list []offWait) []record.Statement {
	if r := list[0].Reason; r != record.WaitLock && r != record.WaitFileLock {
		return nil
	}
	for i := range list[1:] {
		if w := &list[1+i]; w.Threads >= waitStep && w.Threads <= 1.05 && w.Distinct > 1 {
			return just("wait.held-during", with{"what": w.object()})
		}
	}
	return nil
}

// explainBlocked adds what the threads wait for to a finding's sentence.
func explainBlocked(f *serverSide, found *finding) {
	list := f.tellingWaits()
	if len(list) == 0 || found.answer != matched {
		return
	}
	top := &list[0]
	switch found.bottleneck {
	case record.ServerBlocked:
		if top.Threads >= waitStep {
			found.because = append(found.because, say("blocked.threads", with{"wait": top.says()}))
		}
	case record.ServerCPU, record.ServerThread:
		// One core's worth of CPU, and threads waiting for their turn.
		i := slices.IndexFunc(list, func(w offWait) bool { return w.Reason == record.WaitInterpreterLock })
		if i < 0 || list[i].Threads < waitStep {
			return
		}
		found.because = append(found.because, say("interpreter.waits", with{"threads": list[i].Threads}))
		found.pro = append(found.pro, f.stackClue().says...)
		found.next = []record.Statement{list[i].step()}
	}
}

// says returns a wait with its share.
func (w *offWait) says() record.Statement {
	return say("wait.share", with{"share": w.share, "what": w.object()})
}

// object returns what the threads wait for.
func (w *offWait) object() record.Statement { return say("wait-for."+w.kind(), w.values()) }

// step says what to do about a wait.
func (w *offWait) step() record.Statement { return say("unblock."+w.kind(), w.values()) }

// stepWith is step with the command that shows the code, where the stacks do not name it.
func (w *offWait) stepWith(tool record.Statement) record.Statement {
	of := w.values()
	if w.Function == "" {
		of["tool"] = tool
	}
	return say("unblock."+w.kind(), of)
}

// kind returns the suffix of a wait's code.
func (w *offWait) kind() string {
	switch w.Reason {
	case record.WaitLock, record.WaitInterpreterLock, record.WaitReceive, record.WaitSend, record.WaitConnect, record.WaitSync,
		record.WaitDisk, record.WaitSwap, record.WaitFileLock, record.WaitKernelLock, record.WaitNetworkFile, record.WaitPipeFull,
		record.WaitSleep, record.WaitStopped:
		return strings.ReplaceAll(w.Reason, " ", "-")
	}
	return "other"
}

// values describes a wait: on what, which process is at the other end, in which kernel function,
// and where in the server's own code.
func (w *offWait) values() with {
	of := with{"object": w.Object, "process": w.Process, "kernel": w.Kernel, "device": w.Device, "connections": w.connections,
		"threads": w.Distinct, "function": w.Function, "file": path.Base(w.File), "line": w.Line, "tool": record.Statement{}}
	if w.File == "" {
		of["line"] = 0
	}
	return of
}
