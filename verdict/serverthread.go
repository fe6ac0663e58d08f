package verdict

import (
	"math"
	"slices"
	"strings"

	"ceiling/record"
)

// ruleServerThread asks whether one thread of the server runs all the time
// while other cores are idle: more cores would not help it.
func ruleServerThread(f *facts) finding {
	out := finding{bottleneck: record.ServerThread,
		next: just("server-thread.next", with{"tool": f.cpu.server.cpuTool()})}
	if !f.cpu.server.subject.known {
		out.answer, out.missing = unknown, []record.Statement{notWatched(f.base)}
		return out
	}
	if len(f.cpu.server.subject.threads) == 0 {
		out.answer, out.missing = unknown, just("missing.server-threads", nil)
		return out
	}
	t := f.cpu.server.subject.threads[0]
	out.pro = append(f.cpu.server.cpuEvidence(), record.NewEvidence("series.process.busiest", t.run, "share",
		say("server-thread.ran", with{"thread": t.comm, "ran": t.run})))
	if t.run > 0 && t.run >= lonelyThread*f.cpu.server.subject.cores {
		out.times, out.nearly = math.Max(1/t.run, 1), say("server-thread.nearly", with{"ran": t.run})
	}
	n, interpreters, collector := f.cpu.server.subject.fullThreads(), f.cpu.server.fullInterpreters(), f.cpu.server.collector()
	switch {
	case n > 0:
		interpreters = nil // that thread is the limit, whatever waits for it
	case collector != nil:
		n = 1
	default:
		n = len(interpreters)
	}
	if n == 0 {
		return out
	}
	if !f.cpu.server.host.known {
		out.answer, out.missing = unknown, just("missing.server-host-cpu", nil)
		return out
	}
	if n >= len(f.cpu.server.cpus) || f.cpu.serverFull() && !f.cpu.oneThreadHolds() && interpreters == nil {
		return out // its cores are full: server CPU or shared CPU is the bottleneck
	}
	free, missing := f.generatorFree()
	if missing != nil {
		out.answer, out.missing = unknown, missing
		return out
	}
	if !free {
		return out
	}
	out.pro = append(out.pro, f.placeEvidence(serverQueue, inServer)...)
	out.answer = matched
	if collector != nil && n == 1 {
		name := f.cpu.server.subjectName()
		out.next = just("collector.next", with{"server": name})
		out.because = just("collector", with{"server": name, "thread": collector.comm, "ran": collector.run})
		return out
	}
	if interpreters != nil {
		out.next, out.because = f.cpu.server.interpretersSay(interpreters)
		return out
	}
	out.because = just("server-thread", with{"thread": t.comm, "threads": n, "server": f.cpu.server.subjectName(), "ran": t.run,
		"idle": f.cpu.server.host.over(f.cpu.server.cpus, idle), "cores": len(f.cpu.server.cpus)})
	if f.places.known && f.places.both && f.places.share[inServer] >= 0.5 {
		out.caveats = append(out.caveats, say("server-thread.inside", nil))
	}
	return out
}

// collectorRuns is the share of the time during which a stop-the-world garbage collector makes it
// the bottleneck: without it the rate could be two and a half times as high.
const collectorRuns = 0.6

// collector returns the JVM thread that collects garbage while the others are stopped, if it does
// so most of the time; nil if there is none. The names are HotSpot's: the serial collector runs
// in the VM Thread, the parallel one and G1's pauses in GC Thread#n.
func (f *serverSide) collector() *threadUse {
	for i := range f.subject.threads {
		t := &f.subject.threads[i]
		if (t.comm == "VM Thread" || strings.HasPrefix(t.comm, "GC Thread#")) && t.run >= collectorRuns {
			return t
		}
	}
	return nil
}

// Bounds for the CPU of a process whose interpreter is always busy; threads in system calls use
// CPU in addition.
const (
	interpreterFull = 0.85
	interpreterMost = 1.3
)

// fullInterpreters returns the server's processes in which one thread at a time runs code, and
// one always does: CPython and Ruby have one lock for that. None of their threads is full,
// because they take turns.
func (f *serverSide) fullInterpreters() []processUse {
	if f.base.run.Stacks == nil {
		return nil
	}
	var full []processUse
	for _, p := range f.base.run.Stacks.Processes {
		if p.Runtime != "python" && p.Runtime != "ruby" {
			continue
		}
		i := slices.IndexFunc(f.subject.processes, func(u processUse) bool { return u.pid == p.PID })
		if i < 0 {
			continue
		}
		if u := f.subject.processes[i]; u.cores >= interpreterFull && u.cores <= interpreterMost && u.busiest < threadFull {
			full = append(full, u)
		}
	}
	return full
}

// interpretersSay returns the finding and what to do about it.
func (f *serverSide) interpretersSay(full []processUse) (next, because []record.Statement) {
	used := 0.0
	for _, p := range full {
		used += p.cores
	}
	return just("interpreter.next", nil), just("interpreter", with{"processes": len(full), "server": f.subjectName(), "used_cores": used,
		"cores": len(f.cpus)})
}
