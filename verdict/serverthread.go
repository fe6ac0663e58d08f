package verdict

import (
	"fmt"
	"math"

	"ceiling/internal/unit"
	"ceiling/record"
)

// ruleServerThread asks whether one thread of the server runs all the time
// while other cores are idle: more cores would not help it.
func ruleServerThread(f *facts) finding {
	out := finding{bottleneck: record.ServerThread,
		next: fmt.Sprintf("profile that thread (%s), spread its work over several, or run more processes of the server", f.cpuTool())}
	if !f.subject.known {
		out.answer, out.missing = cannotTell, []string{notWatched(f)}
		return out
	}
	if len(f.subject.threads) == 0 {
		out.answer, out.missing = cannotTell, []string{"the server's threads were not recorded"}
		return out
	}
	t := f.subject.threads[0]
	out.pro = append(f.cpuEvidence(), record.NewEvidence("series.process.busiest", t.run, "share", "thread %s ran %s of the time", t.comm,
		unit.Percent(t.run)))
	if t.run > 0 && t.run >= lonelyThread*f.subject.cores {
		out.times, out.nearly = math.Max(1/t.run, 1), fmt.Sprintf("one thread of the server ran %s of the time", unit.Percent(t.run))
	}
	n, interpreters, collector := f.subject.fullThreads(), f.fullInterpreters(), f.collector()
	switch {
	case n > 0:
		interpreters = nil // it is that thread, whoever has to wait for it
	case collector != nil:
		n = 1
	default:
		n = len(interpreters)
	}
	if n == 0 {
		return out
	}
	if !f.host.known {
		out.answer, out.missing = cannotTell, []string{"the CPU of the server's host was not recorded"}
		return out
	}
	if n >= len(f.serverCPUs) || f.serverFull() && !f.oneThreadHolds() && interpreters == nil {
		return out // its cores are full: that is server cpu, or shared
	}
	free, missing := f.generatorFree()
	if missing != nil {
		out.answer, out.missing = cannotTell, missing
		return out
	}
	if !free {
		return out
	}
	out.pro = append(out.pro, f.placeEvidence(serverQueue, inServer)...)
	out.answer = yes
	if collector != nil && n == 1 {
		out.next, out.because = f.collectorSays(collector)
		return out
	}
	if interpreters != nil {
		out.next, out.because = f.interpretersSay(interpreters)
		return out
	}
	what := fmt.Sprintf("thread %s of %s", t.comm, f.subjectName())
	if n > 1 {
		what = fmt.Sprintf("%d threads of %s", n, f.subjectName())
	}
	out.because = fmt.Sprintf("single-threaded server: %s ran %s of the time, while %.1f of %s were idle",
		what, unit.Percent(t.run), f.host.over(f.serverCPUs, idle), unit.Plural(len(f.serverCPUs), "core", "cores"))
	if f.places.known && f.places.both && f.places.share[inServer] >= 0.5 {
		out.caveats = append(out.caveats, "the requests wait inside the server, not in its sockets: a lock that is held while it computes looks the same")
	}
	return out
}
