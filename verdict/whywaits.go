package verdict

import (
	"cmp"
	"fmt"
	"path"
	"slices"
	"strings"

	"ceiling/internal/unit"
	"ceiling/record"
)

// What the server's threads wait for, by the stacks that the kernel took as they
// left their CPUs. It names what the list of kernel functions (waitthreads.go)
// cannot: which lock, whose answer, which file.

// Bounds of what is said of them.
const (
	// burstsFewest of 50 ms each: one may be all of one moment.
	burstsFewest = 3
	// waitThreads is how many threads have to wait for one thing on average, to be
	// worth a word; waitStep to be worth a step.
	waitThreads = 0.05
	waitStep    = 0.5
	waitsNamed  = 3
)

// offWait is what threads wait for, whichever of them and wherever in the program.
type offWait struct {
	record.StackWait
	share       float64 // of the time of all waits that tell
	connections int     // that the server keeps to the object; 0: not known
}

// tellingWaits are those that tell, the longest first.
func (f *facts) tellingWaits() []offWait {
	s := f.run.Stacks
	if s == nil || s.OffCPU == nil || s.OffCPU.Bursts < burstsFewest || s.OffCPU.BurstNs <= 0 {
		return nil
	}
	list := telling(s.OffCPU.Waits, s.OffCPU.BurstNs)
	for i := range list {
		if at := slices.IndexFunc(f.peers.list, func(u peerUse) bool { return u.addr == list[i].Object && u.steady() }); at >= 0 {
			list[i].connections = f.peers.list[at].high
		}
	}
	return list
}

// telling sums up those that tell of waits that were seen for some time.
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
		list[i].Distinct = max(list[i].Distinct, w.Distinct) // they may be the same
		if list[i].Function == "" {
			list[i].Function, list[i].File, list[i].Line = w.Function, w.File, w.Line
		}
	}
	for i := range list {
		list[i].share = float64(list[i].Ns) / total
		list[i].Threads = float64(list[i].Ns) / float64(burstNs)
	}
	slices.SortStableFunc(list, func(a, b offWait) int {
		return cmp.Or(cmp.Compare(weak(a.Reason), weak(b.Reason)), cmp.Compare(b.Ns, a.Ns))
	})
	return list
}

// weak waits come last: a thread of its own sleeps between its rounds.
func weak(reason string) int {
	if reason == record.WaitSleep {
		return 1
	}
	return 0
}

// stackClue says what the threads wait for.
func (f *facts) stackClue() clue {
	var c clue
	list := f.tellingWaits()
	if len(list) == 0 || list[0].Threads < waitThreads {
		return c
	}
	var parts []string
	for i := range list[:min(len(list), waitsNamed)] {
		if list[i].Threads >= waitThreads {
			parts = append(parts, fmt.Sprintf("%s (%.2g threads)", list[i].says(), list[i].Threads))
		}
	}
	off := f.run.Stacks.OffCPU
	c.says = []record.Evidence{record.NewEvidence("stacks.off_cpu.waits", list[0].Threads, "threads",
		"threads blocked, by stacks: %s; seen for %s in %s",
		strings.Join(parts, ", "), ns(float64(off.BurstNs)), unit.Plural(off.Bursts, "burst", "bursts"))}
	if top := &list[0]; top.Threads >= waitStep {
		c.next = top.step() + f.heldDuring(list)
	}
	return c
}

// heldDuring names what is probably done under a lock that others wait for: what
// one thread at a time waits for beside them.
func (f *facts) heldDuring(list []offWait) string {
	if r := list[0].Reason; r != record.WaitLock && r != record.WaitFileLock {
		return ""
	}
	for i := range list[1:] {
		if w := &list[1+i]; w.Threads >= waitStep && w.Threads <= 1.05 && w.Distinct > 1 {
			return fmt.Sprintf("; one thread at a time is in %s meanwhile, probably the one that holds it", w.object())
		}
	}
	return ""
}

// explainBlocked puts what the threads wait for into the sentence of a finding.
func explainBlocked(f *facts, found *finding) {
	list := f.tellingWaits()
	if len(list) == 0 || found.answer != yes {
		return
	}
	top := &list[0]
	switch found.bottleneck {
	case record.ServerBlocked:
		if top.Threads >= waitStep {
			found.because += fmt.Sprintf("; threads blocked %s", top.says())
		}
	case record.ServerCPU, record.ServerThread:
		// A core's worth of CPU, and threads that want their turn.
		i := slices.IndexFunc(list, func(w offWait) bool { return w.Reason == record.WaitInterpreterLock })
		if i < 0 || list[i].Threads < waitStep {
			return
		}
		found.because += fmt.Sprintf("; %.2g threads wait for the interpreter's lock", list[i].Threads)
		found.pro = append(found.pro, f.stackClue().says...)
		found.next = list[i].step()
	}
}

// says is a wait with its share.
func (w *offWait) says() string { return unit.Percent(w.share) + " " + w.object() }

// object is what is waited for, in words.
func (w *offWait) object() string {
	of := func(what, word string) string {
		if w.Object == "" {
			return what
		}
		return what + word + w.Object
	}
	who := func(what, word string) string {
		text := of(what, word)
		var more []string
		if w.Process != "" {
			more = append(more, w.Process)
		}
		switch {
		case w.connections > 0:
			more = append(more, unit.Plural(w.connections, "connection", "connections"))
		case w.Process != "" && w.Distinct > 1:
			more = append(more, fmt.Sprintf("by %d threads", w.Distinct))
		}
		if len(more) > 0 {
			text += " (" + strings.Join(more, ", ") + ")"
		}
		return text
	}
	switch w.Reason {
	case record.WaitLock:
		return of("in futex for a lock", " ") + w.at()
	case record.WaitInterpreterLock:
		return "in futex from take_gil (the interpreter's lock)"
	case record.WaitReceive:
		return who("in recv", " from ")
	case record.WaitSend:
		return who("in send", " to ")
	case record.WaitConnect:
		return who("in connect", " to ")
	case record.WaitSync:
		return of("in "+cmp.Or(w.Kernel, "fsync"), " of ") + w.onDevice()
	case record.WaitDisk:
		return of("for the disk", ", on ") + w.onDevice()
	case record.WaitSwap:
		return "for memory that was swapped out"
	case record.WaitFileLock:
		return of("for a file lock", " on ")
	case record.WaitKernelLock:
		return "for a lock in the kernel (" + w.Kernel + ")"
	case record.WaitNetworkFile:
		return of("for a network file system", ", on ")
	case record.WaitPipeFull:
		return "for room in a pipe"
	case record.WaitSleep:
		return "in sleep" + w.at()
	case record.WaitStopped:
		return "stopped by a signal or a debugger"
	}
	return "in " + cmp.Or(w.Kernel, "the kernel")
}

// at is the place in the server's own code.
func (w *offWait) at() string {
	switch {
	case w.File != "" && w.Line > 0:
		return fmt.Sprintf(" at %s:%d (%s)", path.Base(w.File), w.Line, w.Function)
	case w.Function != "":
		return " from " + w.Function
	}
	return ""
}

func (w *offWait) onDevice() string {
	if w.Device == "" {
		return ""
	}
	return " on device " + w.Device
}

// step is what to do about a wait.
func (w *offWait) step() string {
	name := cmp.Or(w.Process, w.Object, "the other end")
	if w.Process != "" && w.Object != "" {
		name = w.Process + " (" + w.Object + ")"
	}
	switch w.Reason {
	case record.WaitLock:
		return "hold " + cmp.Or(w.Object, "the lock") + w.at() + " for a shorter time, or have several locks"
	case record.WaitInterpreterLock:
		return "run more processes of the server: the interpreter's lock lets one thread of each run at a time"
	case record.WaitReceive:
		return "measure " + name + " by itself: the server's threads wait for its answers"
	case record.WaitSend:
		return "see why " + name + " does not read what the server sends"
	case record.WaitConnect:
		return "keep connections to " + name + " open, or see why it does not take them"
	case record.WaitSync:
		return "sync less often (several requests a sync), or put " + cmp.Or(w.Object, "the file") + " on a faster device"
	case record.WaitDisk:
		return "keep what it reads or writes in memory, or on a faster device" + w.onDevice()
	case record.WaitSwap:
		return "give the host more memory: the server's was swapped out"
	case record.WaitFileLock:
		return "see what else locks " + cmp.Or(w.Object, "the file")
	case record.WaitKernelLock:
		return "see what changes its memory or its directories during the run: threads wait in " + w.Kernel
	case record.WaitNetworkFile:
		return "measure the network file system that " + cmp.Or(w.Object, "its files") + " is on"
	case record.WaitPipeFull:
		return "see which process does not read the pipe that its threads write to"
	case record.WaitSleep:
		return "see why its threads sleep" + w.at() + ": a pause, or trying again"
	case record.WaitStopped:
		return "find what stopped its threads: a signal (SIGSTOP, SIGTSTP), a debugger, a frozen cgroup"
	}
	return "see what its threads wait for in " + cmp.Or(w.Kernel, "the kernel")
}
