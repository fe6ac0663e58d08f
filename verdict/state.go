package verdict

import (
	"cmp"
	"math"

	"ceiling/record"
)

// This file answers what several rules ask: is the generator known to be free, how much CPU may
// the server use, is any of it idle.

// generatorFree reports whether the generator is known to have headroom, and what is missing if
// that is unknown.
func (f *facts) generatorFree() (free bool, missing []record.Statement) {
	if len(f.cpu.generator.agents) > 0 {
		free = true
		for _, v := range f.cpu.generator.agents {
			one, why := v.generatorFree()
			free, missing = free && one, append(missing, why...)
		}
		return free && missing == nil, missing
	}
	g := &f.cpu.generator.self
	if !g.busy.known {
		return false, []record.Statement{f.cpu.generator.cpuNotRecorded()}
	}
	return !g.full() && !f.cpu.generatorStarved() && !f.aloneNearFull(), nil
}

// generatorStarved reports whether processes other than the server keep the generator off its CPUs: it
// is runnable nearly all the time, spends much of it on the run queue, and no CPU is idle.
func (f *cpuFacts) generatorStarved() bool {
	g := &f.generator.self
	return g.wanting.known && g.wanting.value >= generatorNear && g.delay.known && g.delay.value >= starvedDelay &&
		f.generator.home.full(f.generator.cpus) && !f.fightForCores() && !f.serverFull()
}

// aloneNearFull reports whether a nearly full generator has nothing but itself to wait for: the
// server has CPU to spare and few requests are with it.
func (f *facts) aloneNearFull() bool {
	g, p := &f.cpu.generator.self, &f.places
	if !g.wanting.known || g.wanting.value < generatorNear || !p.known || !p.both || !f.cpu.server.subject.known || f.cpu.fightForCores() {
		return false
	}
	capacity, _ := f.cpu.server.capacity()
	return capacity.known && f.cpu.server.subject.cores <= (1-idleClearly)*capacity.value && f.cpu.server.subject.fullThreads() == 0 &&
		p.share[serverQueue]+p.share[inServer] < mostOf
}

// queuesUnread reports whether the requests in the server's receive queue are enough to count as
// a queue. Fewer than one on average is only wake-up latency.
func (f *facts) queuesUnread() bool {
	p := &f.places
	return p.known && p.both && p.share[serverQueue] >= waitQueue && (f.base.open || p.share[serverQueue]*f.base.slots >= 1)
}

// capacity returns the CPU that the server could use, in cores, and what bounds it. Unknown without
// the host's CPU rows.
func (f *serverSide) capacity() (cores figure, bound record.Statement) {
	if !f.host.known {
		return figure{}, record.Statement{}
	}
	n, had := float64(len(f.cpus)), f.host.had(f.cpus)
	if q := f.subject.quota.cores; q.known && q.value < had {
		return q, say("capacity.cgroup", with{"cores": q.value})
	}
	return some(had), say("capacity", with{"cores": n, "allowed": len(f.cpus) < len(f.host.cores), "stolen": f.host.stolenOf(f.cpus)})
}

// serverFull reports whether the server's allowed CPUs are all busy and the server wants them.
// Cores filled by others do not hold back a server that is rarely runnable: its requests wait for
// something else.
func (f *cpuFacts) serverFull() bool {
	if !f.coresTaken() {
		return false
	}
	return !f.server.subject.queue.known ||
		f.server.subject.cores+f.server.subject.queue.value >= serverDemandMin*f.server.host.had(f.server.cpus)
}

// coresTaken reports whether the server's allowed CPUs are full, no matter who fills them: almost
// no idle time, or little of it while the threads there (server, generator, others) want more CPU
// than exists. Two sides that wake each other through sockets leave up to a seventh of two cores
// idle in between, however much CPU they want.
func (f *cpuFacts) coresTaken() bool {
	if !f.server.host.known {
		return false
	}
	if f.server.host.full(f.server.cpus) {
		return true
	}
	had := f.server.host.had(f.server.cpus)
	return f.server.subject.queue.known && had > 0 && f.server.host.over(f.server.cpus, idle) <= coresIdleContested*had &&
		f.wanted()+f.foreign().value >= contested*had
}

// kept reports whether a server that does not fill its CPUs was kept off them for a good part of
// the remaining time: its threads were runnable while others ran.
func (f *cpuFacts) kept() bool {
	q, rest := f.server.subject.queue, f.server.host.had(f.server.cpus)-f.server.subject.cores
	return q.known && rest > 0 && q.value >= halfOf*rest && f.foreign().value >= foreignCores
}

// wantsLittle reports whether the server's threads together ran or were runnable for less than
// half of one core: its requests then wait for something else, however full the cores are.
func (f *serverSide) wantsLittle() bool {
	return f.subject.known && f.subject.queue.known && f.subject.cores+f.subject.queue.value <= wantsLittle
}

// wanted returns the CPU that the two sides used or waited for on the server's cores, in cores.
// It exceeds the number of cores when threads queue.
func (f *cpuFacts) wanted() float64 {
	sum := f.server.subject.cores + f.server.subject.queue.value
	if f.together {
		sum += f.generator.self.cores.value + f.generator.self.waiting
	}
	return sum
}

// generatorPart returns the generator's share of the CPU that both sides used on common cores; 0
// if they share none.
func (f *cpuFacts) generatorPart() figure {
	switch {
	case !f.server.subject.known || !f.generator.self.cores.known:
		return figure{}
	case !f.together:
		return some(0)
	}
	return some(f.generator.self.cores.value / math.Max(f.generator.self.cores.value+f.server.subject.cores, 1e-9))
}

// foreign returns the CPU that other processes used on the server's allowed cores, in cores. If
// the generator may also run elsewhere, only its share by number of CPUs is subtracted.
func (f *cpuFacts) foreign() figure {
	if !f.server.host.known || !f.server.subject.known {
		return figure{}
	}
	used := f.server.host.over(f.server.cpus, busy) - f.server.subject.cores
	if f.together {
		if !f.generator.self.cores.known {
			return figure{}
		}
		used -= f.generator.self.cores.value * float64(len(common(f.server.cpus, f.generator.cpus))) / float64(len(f.generator.cpus))
	}
	return some(math.Max(used, 0))
}

// others returns the CPU on the server's host, in cores, used by neither side nor by the servers
// it calls.
func (f *cpuFacts) others() figure {
	if !f.server.host.known || !f.server.subject.known {
		return figure{}
	}
	used := f.server.host.over(f.server.host.numbers(), busy) - f.server.subject.cores
	if f.near {
		if !f.generator.self.cores.known {
			return figure{}
		}
		used -= f.generator.self.cores.value
	}
	for i := range f.server.behind {
		used -= f.server.behind[i].cores
	}
	return some(math.Max(used, 0))
}

// serverIdle reports whether the server has CPU to spare: neither its cores nor any of its
// threads is full. missing names what was not measured.
func (f *cpuFacts) serverIdle() (idle bool, missing []record.Statement) {
	switch {
	case !f.server.subject.known:
		return false, []record.Statement{notWatched(f.base)}
	case !f.server.host.known:
		return false, just("missing.server-host-cpu", nil)
	}
	capacity, _ := f.server.capacity()
	for _, t := range f.server.subject.threads {
		if t.queue.known && t.run+t.queue.value >= threadWants && f.coresTaken() {
			return false, nil // it would run if others yielded the CPU
		}
	}
	throttled := f.server.subject.quota.throttled.known && f.server.subject.quota.throttled.value >= throttledShare
	return f.server.subject.cores <= idleMost*capacity.value && !f.serverFull() && f.server.subject.fullThreads() == 0 && !throttled, nil
}

// notWatched says why there is no data on the server's processes.
func notWatched(f *runFacts) record.Statement {
	why, host := "", ""
	for _, n := range f.run.NotMeasured {
		a := f.run.Agent(n.Host)
		if n.What == "host" && (a == nil || a.Observes) {
			host = n.Why // nothing of it was observed
		}
		if n.What != "subject" {
			continue
		}
		// With several agents, the one dedicated to observing knows best.
		if a != nil && a.Observes && !a.Loads {
			why = n.Why
			break
		}
		why = cmp.Or(why, n.Why)
	}
	why = cmp.Or(why, host)
	if why == "" && f.elapsedS < observedS {
		return say("missing.too-short", with{"elapsed_ns": f.elapsedS * 1e9})
	}
	return say("missing.server-processes", with{"why": why})
}

// subjectProcess returns the name shared by all of the server's processes; "" if they differ.
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

// subjectName returns how a sentence refers to the server.
func (f *serverSide) subjectName() record.Statement {
	return say("server", with{"process": f.subjectProcess(), "processes": len(f.subject.processes)})
}

// serverProcess returns the server with its process name, as the subject of a sentence.
func (f *serverSide) serverProcess() record.Statement {
	return say("server.process", with{"process": f.subjectProcess(), "processes": len(f.subject.processes)})
}

// cpuEvidence returns the server's CPU use as evidence.
func (f *serverSide) cpuEvidence() []record.Evidence {
	if !f.subject.known {
		return nil
	}
	_, bound := f.capacity()
	list := []record.Evidence{record.NewEvidence("series.process.cpu_ns", f.subject.cores, "cores",
		say("server.cpu", with{"server": f.serverProcess(), "cores": f.subject.cores, "bound": bound}))}
	if f.host.known {
		list = append(list, record.NewEvidence("series.cpu.idle", f.host.over(f.cpus, idle), "cores",
			say("server.cores-idle", with{"idle": f.host.over(f.cpus, idle), "cores": len(f.cpus)})))
	}
	return list
}

// placeEvidence returns where the requests were, as evidence.
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

// halfBusy reports whether a server that shares its CPUs with the generator uses so much of them
// that the two may only be taking turns.
func (f *cpuFacts) halfBusy() bool {
	capacity, _ := f.server.capacity()
	return f.together && capacity.known && f.server.subject.cores >= halfOf*capacity.value
}
