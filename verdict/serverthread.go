package verdict

import (
	"math"

	"ceiling/record"
)

// ruleServerThread asks whether one thread of the server runs all the time
// while other cores are idle: more cores would not help it.
func ruleServerThread(f *facts) finding {
	out := finding{bottleneck: record.ServerThread,
		next: just("server-thread.next", with{"tool": f.cpuTool()})}
	if !f.subject.known {
		out.answer, out.missing = unknown, []record.Statement{notWatched(f.runFacts)}
		return out
	}
	if len(f.subject.threads) == 0 {
		out.answer, out.missing = unknown, just("missing.server-threads", nil)
		return out
	}
	t := f.subject.threads[0]
	out.pro = append(f.cpuEvidence(), record.NewEvidence("series.process.busiest", t.run, "share",
		say("server-thread.ran", with{"thread": t.comm, "ran": t.run})))
	if t.run > 0 && t.run >= lonelyThread*f.subject.cores {
		out.times, out.nearly = math.Max(1/t.run, 1), say("server-thread.nearly", with{"ran": t.run})
	}
	n, interpreters, collector := f.subject.fullThreads(), f.fullInterpreters(), f.collector()
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
	if !f.host.known {
		out.answer, out.missing = unknown, just("missing.server-host-cpu", nil)
		return out
	}
	if n >= len(f.serverCPUs) || f.serverFull() && !f.oneThreadHolds() && interpreters == nil {
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
		out.next, out.because = f.collectorSays(collector)
		return out
	}
	if interpreters != nil {
		out.next, out.because = f.interpretersSay(interpreters)
		return out
	}
	out.because = just("server-thread", with{"thread": t.comm, "threads": n, "server": f.subjectName(), "ran": t.run,
		"idle": f.host.over(f.serverCPUs, idle), "cores": len(f.serverCPUs)})
	if f.places.known && f.places.both && f.places.share[inServer] >= 0.5 {
		out.caveats = append(out.caveats, say("server-thread.inside", nil))
	}
	return out
}
