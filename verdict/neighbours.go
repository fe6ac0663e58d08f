package verdict

import (
	"cmp"
	"math"
	"slices"

	"ceiling/record"
)

// A server thread that is runnable most of the time but rarely runs has lost its CPU to other
// processes. Then nothing of the server is full, and no core is idle.

// neighbour is the CPU that processes of one name used on a host.
type neighbour struct {
	comm  string
	pids  []int
	cores float64
}

// neighboursOf lists the processes other than the server and the generator that used CPU on a
// host in the window, by descending use. One that last ran on a CPU outside cpus took nothing
// from them, as far as a sample shows.
func neighboursOf(f *runFacts, series *record.Series, host string, cpus []int) []neighbour {
	var list []neighbour
	width := 0.0
	for _, row := range observed(f, series.Observed.Neighbours) {
		if row.Host != host || row.WidthNs <= 0 {
			continue
		}
		width += float64(row.WidthNs)
		for _, one := range row.Neighbours {
			if one.CPU >= 0 && len(cpus) > 0 && !slices.Contains(cpus, one.CPU) {
				continue
			}
			i := slices.IndexFunc(list, func(n neighbour) bool { return n.comm == one.Comm })
			if i < 0 {
				i = len(list)
				list = append(list, neighbour{comm: one.Comm})
			}
			if !slices.Contains(list[i].pids, one.PID) {
				list[i].pids = append(list[i].pids, one.PID)
			}
			list[i].cores += positive(float64(one.CPUNs))
		}
	}
	for i := range list {
		list[i].cores /= width
	}
	slices.SortFunc(list, func(a, b neighbour) int {
		return cmp.Or(cmp.Compare(b.cores, a.cores), cmp.Compare(a.comm, b.comm))
	})
	return slices.DeleteFunc(list, func(n neighbour) bool { return n.cores < neighbourMatters })
}

// says names a neighbour.
func (n *neighbour) says() record.Statement {
	pid := 0
	if len(n.pids) == 1 {
		pid = n.pids[0]
	}
	return say("neighbour", with{"process": n.comm, "pid": pid, "processes": len(n.pids), "cores": n.cores})
}

// whoElse names the processes that used the most CPU on a host.
func whoElse(list []neighbour) []record.Statement {
	var who []record.Statement
	for i := range list[:min(len(list), neighboursSaid)] {
		who = append(who, list[i].says())
	}
	return who
}

// starvedThread returns the server thread that lost the most time to others: running or runnable
// nearly all the time, without a CPU for a good part of it, while none of its allowed cores is
// idle.
func (f *cpuFacts) starvedThread() *threadUse {
	if !f.server.subject.known || !f.server.host.known || !f.coresTaken() {
		return nil
	}
	var worst *threadUse
	for i := range f.server.subject.threads {
		t := &f.server.subject.threads[i]
		if t.queue.known && t.queue.value >= starvedDelay && t.run+t.queue.value >= threadWants &&
			(worst == nil || t.queue.value > worst.queue.value) {
			worst = t
		}
	}
	return worst
}

// othersTakeMore reports whether other processes use more of the server's cores than server and
// generator together, and more than is idle.
func (f *cpuFacts) othersTakeMore() bool {
	foreign := f.foreign()
	return foreign.known && foreign.value >= max(othersMin, f.generator.self.cores.value+f.server.subject.cores,
		f.server.host.over(f.server.cpus, idle))
}

// ruleNeighbours asks whether the server wanted CPU that other processes used.
func ruleNeighbours(f *facts) finding {
	out := finding{bottleneck: record.SharedCPU}
	foreign, n := f.cpu.foreign(), len(f.cpu.server.cpus)
	if !foreign.known || foreign.value < othersMin || f.cpu.fightForCores() && !f.cpu.othersTakeMore() {
		return out
	}
	used := say("neighbours.used", with{"used_cores": foreign.value, "cores": n})
	if f.cpu.othersTakeMore() && f.cpu.server.subject.cores > 0 {
		out.times, out.nearly = f.cpu.cpuRoom(math.Inf(1)), used
	}
	t := f.cpu.starvedThread()
	wants := f.cpu.serverFull() && f.cpu.server.subject.queue.known && f.cpu.server.subject.queue.value >= starvedThreads &&
		(foreign.value > f.cpu.server.subject.cores || !f.cpu.serverTakes())
	if t == nil && !wants || f.cpu.together && f.cpu.generator.self.cores.value > foreign.value {
		return out
	}
	if free, missing := f.generatorFree(); missing != nil || !free && !f.cpu.together {
		return out
	}
	out.pro = append(f.cpu.server.cpuEvidence(), record.NewEvidence("series.cpu", foreign.value, "cores", used))
	starved := say("neighbours.threads-starved", with{"server": f.cpu.server.subjectName(), "threads": f.cpu.server.subject.queue.value})
	if t != nil {
		starved = say("neighbours.thread-starved", with{"thread": t.comm, "server": f.cpu.server.subjectName(), "ran": t.run, "delayed": t.queue.value})
		out.pro = append(out.pro, record.NewEvidence("series.process.busiest.queue_ns", t.queue.value, "share", starved))
	}
	who := whoElse(f.cpu.server.neighbours)
	out.answer = matched
	out.because = just("neighbours.took", with{"starved": starved, "used_cores": foreign.value, "cores": n, "who": who})
	out.next = just("neighbours.next", nil)
	if len(who) > 0 {
		out.pro = append(out.pro, record.NewEvidence("series.neighbours", f.cpu.server.neighbours[0].cores, "cores",
			say("neighbours.server-host", with{"who": who})))
		out.next = just("neighbours.next.stop", with{"process": f.cpu.server.neighbours[0].comm})
	}
	return out
}
