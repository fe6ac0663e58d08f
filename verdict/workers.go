package verdict

import (
	"math"

	"ceiling/record"
)

// A server that dedicates a worker (a process or a thread) to each request is full when all of
// them are busy, whatever they do. Idle workers wait for a connection or for work; workers
// serving a request do not.

// workersBusy is the share of busy workers from which none is left for the next request.
const workersBusy = 0.9

// workerFacts counts the workers and how many of them are busy on average.
type workerFacts struct {
	count  int
	busy   float64
	thread string // thread name of the workers; "" if they are processes
}

// full reports whether all workers are busy and there are more requests than workers.
func (w *workerFacts) full(n float64) bool {
	return w.count > 1 && w.busy >= workersBusy*float64(w.count) && n > float64(w.count)
}

// workersOf finds the workers: parallel single-threaded processes, or threads of one name. Stacks
// distinguish a worker that polls one connection for a response from one that polls for requests;
// kernel functions alone count both as idle.
func workersOf(f *serverSide, series *record.Series) workerFacts {
	if w := f.workerProcesses(series); w.count > 0 {
		return w
	}
	return f.base.workerThreads()
}

// workerProcesses finds the server's single-threaded processes without children.
func (f *serverSide) workerProcesses(series *record.Series) workerFacts {
	parents := map[int]bool{}
	for _, p := range f.subject.processes {
		parents[p.parent] = true
	}
	looks, idle := map[int]float64{}, map[int]float64{}
	for _, row := range observed(f.base, series.Observed.Processes) {
		s := &row.States
		all := s.Running + s.Sleeping + s.Disk + s.Other
		if row.Role != record.RoleSubject || row.Host != f.subject.host || all == 0 || parents[row.PID] {
			continue
		}
		if all > 1 || s.Sleeping == 1 && len(row.Waits) == 0 {
			return workerFacts{} // not single-threaded, or what it waits for is unknown
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
	waits := f.base.idleByProcess()
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

// forWork reports whether a kind of sleep means a worker with nothing to do.
func forWork(kind string) bool {
	switch kind {
	case "events", "completions", "connections", "child", "signal", "lock":
		return true
	}
	return false
}

// completeWaits returns the rows of waits if none was cut off; idle waits sort last and would be
// cut first.
func (f *runFacts) completeWaits() []record.StackWait {
	s := f.run.Stacks
	if s == nil || s.OffCPU == nil || s.OffCPU.Bursts < burstsFewest || s.OffCPU.BurstNs <= 0 || len(s.OffCPU.Waits) >= record.StackWaitsMost {
		return nil
	}
	return s.OffCPU.Waits
}

// idleByProcess returns each process's idle time as a share of one thread's; nil if unknown.
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

// workerThreads finds the threads of one name in one process and returns the name with the most
// busy ones. Go threads run any goroutine and do not count; many threads waiting for one lock are
// no pool.
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

// runtimeOfProcess returns the runtime of one of the server's processes.
func (f *runFacts) runtimeOfProcess(pid int) string {
	for _, p := range f.run.Stacks.Processes {
		if p.PID == pid {
			return p.Runtime
		}
	}
	return ""
}

// explainWorkers adds to a finding of blocked requests that all workers are busy, and puts more
// workers ahead of what each of them waits for.
func explainWorkers(f *facts, found *finding) {
	n := f.underWay()
	if w := &f.cpu.server.crew; found.bottleneck == record.ServerBlocked && found.answer == matched && !found.explained && w.full(n) {
		of := with{"workers": w.count, "busy": w.busy, "thread": w.thread, "requests": n, "next": found.next}
		found.because = append(found.because, say("workers.busy", of))
		found.pro = append(found.pro, record.NewEvidence("series.process.waits", w.busy, "workers", say("workers.mean-busy", of)))
		found.next = just("workers.next", of)
	}
}
