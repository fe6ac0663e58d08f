package verdict

import (
	"cmp"
	"math"

	"ceiling/record"
)

// This file is what several rules ask: is the generator known to be free, how
// much CPU may the server use, is any of it idle.

// generatorFree tells whether the generator is known to have headroom, and
// what is missing where it is not known.
func (f *facts) generatorFree() (free bool, missing []record.Statement) {
	if len(f.agents) > 0 {
		free = true
		for _, v := range f.agents {
			one, why := v.generatorFree()
			free, missing = free && one, append(missing, why...)
		}
		return free && missing == nil, missing
	}
	g := &f.generator
	if !g.busy.known {
		return false, []record.Statement{f.cpuNotRecorded()}
	}
	return !g.full() && !f.crowdedOut() && !f.aloneNearFull(), nil
}

// crowdedOut tells whether the generator is kept from its CPUs by others than
// the server: it wants to run nearly all the time, waits for a good part of it,
// and nothing is idle.
func (f *cpuFacts) crowdedOut() bool {
	g := &f.generator
	return g.wanting.known && g.wanting.value >= generatorNear && g.delay.known && g.delay.value >= starvedDelay &&
		f.home.full(f.generatorCPUs) && !f.fightForCores() && !f.serverFull()
}

// aloneNearFull tells whether a generator that is nearly full has nobody else to
// wait for: the server has CPU to spare and few requests are with it.
func (f *facts) aloneNearFull() bool {
	g, p := &f.generator, &f.places
	if !g.wanting.known || g.wanting.value < generatorNear || !p.known || !p.both || !f.subject.known || f.fightForCores() {
		return false
	}
	capacity, _ := f.capacity()
	return capacity.known && f.subject.cores <= (1-idleClearly)*capacity.value && f.subject.fullThreads() == 0 &&
		p.share[serverQueue]+p.share[inServer] < mostOf
}

// queuesUnread tells whether enough requests lie unread before the server to be
// a queue. Less than one of them on average is the time of a wake-up.
func (f *facts) queuesUnread() bool {
	p := &f.places
	return p.known && p.both && p.share[serverQueue] >= waitQueue && (f.open || p.share[serverQueue]*f.slots >= 1)
}

// capacity is the CPU that the server may use, in cores, and what bounds it. Not
// known without the host's CPU rows.
func (f *serverSide) capacity() (cores figure, bound record.Statement) {
	if !f.host.known {
		return figure{}, record.Statement{}
	}
	n := float64(len(f.serverCPUs))
	if q := f.subject.quota.cores; q.known && q.value < n {
		return q, say("capacity.cgroup", with{"cores": q.value})
	}
	return some(n), say("capacity", with{"cores": n, "allowed": len(f.serverCPUs) < len(f.host.cores)})
}

// serverFull tells whether the CPUs that the server may use are all taken and
// the server wants them. Cores that others fill do not hold back a server that
// is runnable for a small part of the time only: its requests wait for
// something else.
func (f *cpuFacts) serverFull() bool {
	n := float64(len(f.serverCPUs))
	if !f.coresTaken() {
		return false
	}
	return !f.subject.queue.known || f.subject.cores+f.subject.queue.value >= serverWants*n
}

// coresTaken tells whether the CPUs that the server may use are full, by
// whomever: next to no idle time, or little of it while the threads of the two
// sides, and the others that ran there, want more CPU than there is. Two sides that wake each other through
// sockets leave up to a seventh of two cores idle in the moments between,
// however much they want.
func (f *cpuFacts) coresTaken() bool {
	if !f.host.known {
		return false
	}
	if f.host.full(f.serverCPUs) {
		return true
	}
	n := float64(len(f.serverCPUs))
	return f.subject.queue.known && n > 0 && f.host.over(f.serverCPUs, idle) <= coresIdleContested*n &&
		f.wanted()+f.foreign().value >= contested*n
}

// kept tells whether a server that does not fill its CPUs was kept from them for
// a good part of the rest of the time: its threads were runnable, and others ran.
func (f *cpuFacts) kept() bool {
	q, rest := f.subject.queue, float64(len(f.serverCPUs))-f.subject.cores
	return q.known && rest > 0 && q.value >= halfOf*rest && f.foreign().value >= foreignCores
}

// wantsLittle tells that the server's threads together used or waited for CPU
// less than half of the time of one: requests before it wait for something else,
// however full the cores are.
func (f *serverSide) wantsLittle() bool {
	return f.subject.known && f.subject.queue.known && f.subject.cores+f.subject.queue.value <= wantsLittle
}

// wanted is the CPU that the two sides used or waited for on the server's
// cores, in cores: more than there are when somebody has to wait.
func (f *cpuFacts) wanted() float64 {
	sum := f.subject.cores + f.subject.queue.value
	if f.together {
		sum += f.generator.cores.value + f.generator.waiting
	}
	return sum
}

// generatorPart is the generator's share of the CPU that the two of them used
// on common cores; 0 where they share none.
func (f *cpuFacts) generatorPart() figure {
	switch {
	case !f.subject.known || !f.generator.cores.known:
		return figure{}
	case !f.together:
		return some(0)
	}
	return some(f.generator.cores.value / math.Max(f.generator.cores.value+f.subject.cores, 1e-9))
}

// foreign is the CPU that others used on the cores that the server may use, in
// cores. Of a generator that may also run elsewhere its part by number of CPUs
// is taken off.
func (f *cpuFacts) foreign() figure {
	if !f.host.known || !f.subject.known {
		return figure{}
	}
	used := f.host.over(f.serverCPUs, busy) - f.subject.cores
	if f.together {
		if !f.generator.cores.known {
			return figure{}
		}
		used -= f.generator.cores.value * float64(len(common(f.serverCPUs, f.generatorCPUs))) / float64(len(f.generatorCPUs))
	}
	return some(math.Max(used, 0))
}

// others is the CPU that neither side used on the server's host, nor the servers that
// it asks, in cores.
func (f *cpuFacts) others() figure {
	if !f.host.known || !f.subject.known {
		return figure{}
	}
	used := f.host.over(f.host.numbers(), busy) - f.subject.cores
	if f.near {
		if !f.generator.cores.known {
			return figure{}
		}
		used -= f.generator.cores.value
	}
	for i := range f.behind {
		used -= f.behind[i].cores
	}
	return some(math.Max(used, 0))
}

// serverIdle tells whether the server has CPU to spare: neither its cores nor
// any of its threads is full. Missing is what was not measured.
func (f *cpuFacts) serverIdle() (idle bool, missing []record.Statement) {
	switch {
	case !f.subject.known:
		return false, []record.Statement{notWatched(f.runFacts)}
	case !f.host.known:
		return false, just("missing.server-host-cpu", nil)
	}
	capacity, _ := f.capacity()
	for _, t := range f.subject.threads {
		if t.queue.known && t.run+t.queue.value >= threadWants && f.coresTaken() {
			return false, nil // it would run if others let it
		}
	}
	throttled := f.subject.quota.throttled.known && f.subject.quota.throttled.value >= throttledShare
	return f.subject.cores <= idleMost*capacity.value && !f.serverFull() && f.subject.fullThreads() == 0 && !throttled, nil
}

// notWatched says why there is nothing of the server's processes.
func notWatched(f *runFacts) record.Statement {
	why := ""
	for _, n := range f.run.NotMeasured {
		if n.What != "subject" {
			continue
		}
		// Of several agents the one that is there to watch knows best.
		if a := f.run.Agent(n.Host); a != nil && a.Observes && !a.Loads {
			why = n.Why
			break
		}
		why = cmp.Or(why, n.Why)
	}
	return say("missing.server-processes", with{"why": why})
}

// subjectProcess is the name that all of the server's processes have; "" where they differ.
func (f *serverSide) subjectProcess() string {
	name := ""
	for _, p := range f.subject.processes {
		if name != "" && p.comm != name {
			return ""
		}
		name = p.comm
	}
	return name
}

// subjectName is what the server is called in a sentence.
func (f *serverSide) subjectName() record.Statement {
	return say("server", with{"process": f.subjectProcess(), "processes": len(f.subject.processes)})
}

// serverProcess is the server with its name, as the subject of a sentence.
func (f *serverSide) serverProcess() record.Statement {
	return say("server.process", with{"process": f.subjectProcess(), "processes": len(f.subject.processes)})
}

// cpuEvidence is the server's CPU as a fact.
func (f *serverSide) cpuEvidence() []record.Evidence {
	if !f.subject.known {
		return nil
	}
	_, bound := f.capacity()
	list := []record.Evidence{record.NewEvidence("series.process.cpu_ns", f.subject.cores, "cores",
		say("server.cpu", with{"server": f.serverProcess(), "cores": f.subject.cores, "bound": bound}))}
	if f.host.known {
		list = append(list, record.NewEvidence("series.cpu.idle", f.host.over(f.serverCPUs, idle), "cores",
			say("server.cores-idle", with{"idle": f.host.over(f.serverCPUs, idle), "cores": len(f.serverCPUs)})))
	}
	return list
}

// placeEvidence is where the requests were, as facts.
func (f *facts) placeEvidence(at ...int) []record.Evidence {
	if !f.places.known {
		return nil
	}
	where := [stations]string{"generator.batch_mean_ns", "series.sockets.client.unacked", "series.sockets.server.unread", "series.sockets",
		"series.sockets.server.unacked", "series.sockets.client.unread"}
	codes := [stations]string{"generator", "way-in", "server-queue", "server", "way-back", "generator-queue"}
	var list []record.Evidence
	for _, s := range at {
		list = append(list, record.NewEvidence(where[s], f.places.share[s], "share",
			say("place."+codes[s], with{"share": f.places.share[s]})))
	}
	return list
}

// halfBusy tells whether a server that shares its CPUs with the generator uses
// so much of them that the two may only be taking turns.
func (f *cpuFacts) halfBusy() bool {
	capacity, _ := f.capacity()
	return f.together && capacity.known && f.subject.cores >= halfOf*capacity.value
}
