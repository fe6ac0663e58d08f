package verdict

import (
	"slices"

	"ceiling/record"
)

// ruleImbalance asks whether the server has workers that could help but get no work: one process
// full, others idle.
func ruleImbalance(f *facts) finding {
	out := finding{bottleneck: record.Uneven, next: just("uneven.next", nil)}
	if !f.cpu.server.subject.known {
		out.answer, out.missing = unknown, []record.Statement{notWatched(f.base)}
		return out
	}
	workers := f.cpu.server.workers()
	if len(workers) < 2 {
		return out
	}
	most := slices.MaxFunc(workers, func(a, b processUse) int { return int(1e6 * (a.cores - b.cores)) })
	rest := (f.base.subjectCores(workers) - most.cores) / float64(len(workers)-1)
	used := with{"pid": most.pid, "cores": most.cores, "others": len(workers) - 1, "each": rest}
	out.pro = []record.Evidence{record.NewEvidence("series.process.cpu_ns", most.cores, "cores",
		say("uneven.cores", used))}
	all := 0.0
	for _, w := range workers {
		all += w.connections.value
	}
	if most.connections.known && all > 0 {
		out.pro = append(out.pro, record.NewEvidence("series.listener.connections", most.connections.value/all, "share",
			say("uneven.connections", with{"connections": most.connections.value, "of": all})))
	}
	if rest > unevenRest*most.cores || most.busiest < threadFull && most.cores < threadFull {
		return out
	}
	if !f.cpu.server.host.known {
		out.answer, out.missing = unknown, just("missing.server-host-cpu", nil)
		return out
	}
	if f.cpu.serverFull() && !f.cpu.oneThreadHolds() {
		return out
	}
	free, missing := f.generatorFree()
	if missing != nil {
		out.answer, out.missing = unknown, missing
		return out
	}
	if !free {
		return out
	}
	out.answer = matched
	out.because = just("uneven", used)
	return out
}

// workers returns the processes that could serve. A parent process without connections only keeps
// the listening socket for its children.
func (f *serverSide) workers() []processUse {
	parents := map[int]bool{}
	listen := 0
	for _, p := range f.subject.processes {
		parents[p.parent] = true
		if p.listens {
			listen++
		}
	}
	return slices.DeleteFunc(slices.Clone(f.subject.processes), func(p processUse) bool {
		return parents[p.pid] && p.connections.value == 0 || listen > 0 && !p.listens && p.connections.value == 0
	})
}

func (f *runFacts) subjectCores(list []processUse) float64 {
	sum := 0.0
	for _, p := range list {
		sum += p.cores
	}
	return sum
}
