package verdict

import (
	"math"

	"ceiling/record"
)

// A server that gives each request a worker, a process or a thread, is full when all
// of them are busy, whatever they are busy with. Workers with nothing to do wait for
// a connection or for work, and those that serve somebody do not.

// workersBusy of them at any time leave none for the next request.
const workersBusy = 0.9

// workerFacts are the workers, and how many of them are busy on average.
type workerFacts struct {
	count  int
	busy   float64
	thread string // the name of threads that work; "" where processes do
}

// full tells whether all are busy, and more requests are there than they are.
func (w *workerFacts) full(n float64) bool {
	return w.count > 1 && w.busy >= workersBusy*float64(w.count) && n > float64(w.count)
}

// workersOf finds them: processes of one thread beside each other, or threads of one
// name. By stacks a worker that polls one connection, for an answer, is told from one
// that polls for requests; by the kernel's functions alone it counts as idle.
func workersOf(f *serverSide, series *record.Series) workerFacts {
	if w := f.workerProcesses(series); w.count > 0 {
		return w
	}
	return f.workerThreads()
}

// workerProcesses are the server's processes of one thread that have no children.
func (f *serverSide) workerProcesses(series *record.Series) workerFacts {
	parents := map[int]bool{}
	for _, p := range f.subject.processes {
		parents[p.parent] = true
	}
	looks, idle := map[int]float64{}, map[int]float64{}
	for _, row := range observed(f.runFacts, series.Observed.Processes) {
		s := &row.States
		all := s.Running + s.Sleeping + s.Disk + s.Other
		if row.Role != record.RoleSubject || row.Host != f.subject.host || all == 0 || parents[row.PID] {
			continue
		}
		if all > 1 || s.Sleeping == 1 && len(row.Waits) == 0 {
			return workerFacts{} // not of one thread, or what it waits for is not known
		}
		looks[row.PID]++
		for _, w := range row.Waits {
			if forWork(sleepOf(w.Wchan).kind) {
				idle[row.PID]++
			}
		}
	}
	if len(looks) < 2 {
		return workerFacts{}
	}
	waits := f.idleByProcess()
	w := workerFacts{count: len(looks)}
	for pid, n := range looks {
		share := idle[pid] / n
		if waits != nil {
			share = math.Min(waits[pid], 1)
		}
		w.busy += 1 - share
	}
	return w
}

// forWork tells a sleep of a worker that has nothing to do.
func forWork(kind string) bool {
	switch kind {
	case "events", "completions", "connections", "child", "signal", "lock":
		return true
	}
	return false
}

// completeWaits are the rows of waits where none was left out, for the idle ones come
// last.
func (f *runFacts) completeWaits() []record.StackWait {
	s := f.run.Stacks
	if s == nil || s.OffCPU == nil || s.OffCPU.Bursts < burstsFewest || s.OffCPU.BurstNs <= 0 || len(s.OffCPU.Waits) >= record.StackWaitsMost {
		return nil
	}
	return s.OffCPU.Waits
}

// idleByProcess is the time with nothing to do of each process, as a share of one
// thread's; nil where that is not known.
func (f *runFacts) idleByProcess() map[int]float64 {
	waits := f.completeWaits()
	if waits == nil {
		return nil
	}
	idle := map[int]float64{}
	for i := range waits {
		if w := &waits[i]; w.Idle {
			idle[w.PID] += float64(w.Ns) / float64(f.run.Stacks.OffCPU.BurstNs)
		}
	}
	return idle
}

// workerThreads are the threads of one name in one process, those of the name with
// most that are busy. Go's run any goroutine; that many wait for one lock is no pool.
func (f *runFacts) workerThreads() workerFacts {
	waits := f.completeWaits()
	type group struct {
		pid    int
		thread string
	}
	busy, all, lock := map[group]float64{}, map[group]float64{}, map[group]float64{}
	for i := range waits {
		w := &waits[i]
		threads := float64(w.Ns) / float64(f.run.Stacks.OffCPU.BurstNs)
		g := group{w.PID, w.Thread}
		all[g] += threads
		if w.Idle {
			continue
		}
		busy[g] += threads
		if w.Reason == record.WaitLock || w.Reason == record.WaitInterpreterLock || w.Reason == record.WaitCPU {
			lock[g] += threads
		}
	}
	var most workerFacts
	for g, n := range busy {
		if n > most.busy && lock[g] < mostOf*n && f.runtimeOfProcess(g.pid) != "go" {
			most = workerFacts{count: int(math.Round(all[g])), busy: n, thread: g.thread}
		}
	}
	return most
}

// runtimeOfProcess is what runs one of the server's processes.
func (f *runFacts) runtimeOfProcess(pid int) string {
	for _, p := range f.run.Stacks.Processes {
		if p.PID == pid {
			return p.Runtime
		}
	}
	return ""
}

// explainWorkers says that all workers are busy in a finding that says that requests
// wait, and has more of them come before what each of them waits for.
func explainWorkers(f *facts, found *finding) {
	n := f.underWay()
	if w := &f.crew; found.bottleneck == record.ServerBlocked && found.answer == yes && !found.explained && w.full(n) {
		of := with{"workers": w.count, "busy": w.busy, "thread": w.thread, "requests": n, "next": found.next}
		found.because = append(found.because, say("workers.busy", of))
		found.pro = append(found.pro, record.NewEvidence("series.process.waits", w.busy, "workers", say("workers.mean-busy", of)))
		found.next = just("workers.next", of)
	}
}
