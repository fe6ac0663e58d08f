package verdict

import (
	"fmt"
	"slices"

	"ceiling/record"
)

// ruleUneven asks whether the server has workers that could help but get
// nothing: one process full, others idle.
func ruleUneven(f *facts) finding {
	out := finding{bottleneck: record.Uneven, next: "see how connections reach the workers: SO_REUSEPORT hashes them once, for good; open more of them (-c), or let one process accept for all"}
	if !f.subject.known {
		out.answer, out.missing = cannotTell, []string{notWatched(f)}
		return out
	}
	workers := f.workers()
	if len(workers) < 2 {
		return out
	}
	most := slices.MaxFunc(workers, func(a, b processUse) int { return int(1e6 * (a.cores - b.cores)) })
	rest := (f.subjectCores(workers) - most.cores) / float64(len(workers)-1)
	out.pro = []record.Evidence{record.NewEvidence("series.process.cpu_ns", most.cores, "cores",
		"process %d used %.2f cores, the other %d used %.2f each on average", most.pid, most.cores, len(workers)-1, rest)}
	all := 0.0
	for _, w := range workers {
		all += w.connections.value
	}
	if most.connections.known && all > 0 {
		out.pro = append(out.pro, record.NewEvidence("series.listener.connections", most.connections.value/all, "share", "it held %.0f of %.0f connections",
			most.connections.value, all))
	}
	if rest > unevenRest*most.cores || most.busiest < threadFull && most.cores < threadFull {
		return out
	}
	if !f.host.known {
		out.answer, out.missing = cannotTell, []string{"the CPU of the server's host was not recorded"}
		return out
	}
	if f.serverFull() && !f.oneThreadHolds() {
		return out
	}
	free, missing := f.generatorFree()
	if missing != nil {
		out.answer, out.missing = cannotTell, missing
		return out
	}
	if !free {
		return out
	}
	out.answer = yes
	out.because = fmt.Sprintf("worker imbalance: process %d is full (%.2f cores), the other %d use %.2f each", most.pid, most.cores,
		len(workers)-1, rest)
	return out
}

// workers are the processes that could serve. The parent of another one that
// holds no connection only keeps the listening socket for its children.
func (f *facts) workers() []processUse {
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

func (f *facts) subjectCores(list []processUse) float64 {
	sum := 0.0
	for _, p := range list {
		sum += p.cores
	}
	return sum
}
