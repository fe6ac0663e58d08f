package verdict

import (
	"fmt"
	"math"
	"strings"

	"ceiling/internal/unit"
	"ceiling/record"
)

// This file is what several rules ask: is the generator known to be free, how
// much CPU may the server use, is any of it idle.

// generatorFree tells whether the generator is known to have headroom, and
// what is missing where it is not known.
func (f *facts) generatorFree() (free bool, missing []string) {
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
		return false, []string{f.cpuNotRecorded()}
	}
	return !g.full() && !f.crowdedOut() && !f.aloneNearFull(), nil
}

// crowdedOut tells whether the generator is kept from its CPUs by others than
// the server: it wants to run nearly all the time, waits for a good part of it,
// and nothing is idle.
func (f *facts) crowdedOut() bool {
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

// capacity is the CPU that the server may use, in cores, and in words what
// bounds it. Not known without the host's CPU rows.
func (f *facts) capacity() (cores figure, bound string) {
	if !f.host.known {
		return figure{}, ""
	}
	n := float64(len(f.serverCPUs))
	bound = fmt.Sprintf("of %s", unit.Plural(len(f.serverCPUs), "core", "cores"))
	if len(f.serverCPUs) < len(f.host.cores) {
		bound = fmt.Sprintf("of %s allowed", unit.Plural(len(f.serverCPUs), "core", "cores"))
	}
	if q := f.subject.quota.cores; q.known && q.value < n {
		return q, fmt.Sprintf("of %.2g cores allowed by its cgroup", q.value)
	}
	return some(n), bound
}

// serverFull tells whether the CPUs that the server may use are all taken and
// the server wants them. Cores that others fill do not hold back a server that
// is runnable for a small part of the time only: its requests wait for
// something else.
func (f *facts) serverFull() bool {
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
func (f *facts) coresTaken() bool {
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
func (f *facts) kept() bool {
	q, rest := f.subject.queue, float64(len(f.serverCPUs))-f.subject.cores
	return q.known && rest > 0 && q.value >= halfOf*rest && f.foreign().value >= foreignCores
}

// wantsLittle tells that the server's threads together used or waited for CPU
// less than half of the time of one: requests before it wait for something else,
// however full the cores are.
func (f *facts) wantsLittle() bool {
	return f.subject.known && f.subject.queue.known && f.subject.cores+f.subject.queue.value <= wantsLittle
}

// wanted is the CPU that the two sides used or waited for on the server's
// cores, in cores: more than there are when somebody has to wait.
func (f *facts) wanted() float64 {
	sum := f.subject.cores + f.subject.queue.value
	if f.together {
		sum += f.generator.cores.value + f.generator.waiting
	}
	return sum
}

// generatorPart is the generator's share of the CPU that the two of them used
// on common cores; 0 where they share none.
func (f *facts) generatorPart() figure {
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
func (f *facts) foreign() figure {
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
func (f *facts) others() figure {
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
func (f *facts) serverIdle() (idle bool, missing []string) {
	switch {
	case !f.subject.known:
		return false, []string{notWatched(f)}
	case !f.host.known:
		return false, []string{"the CPU of the server's host was not recorded"}
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
func notWatched(f *facts) string {
	why := ""
	for _, n := range f.run.NotMeasured {
		if n.What != "subject" {
			continue
		}
		// Of several agents the one that is there to watch knows best.
		if a := f.run.Agent(n.Host); a != nil && a.Observes && !a.Loads {
			return "the server's processes were not watched: " + n.Why
		}
		why = join(why, n.Why)
	}
	if why != "" {
		return "the server's processes were not watched: " + why
	}
	return "the server's processes were not watched"
}

// subjectName is what the server is called in a sentence.
func (f *facts) subjectName() string {
	name := ""
	for _, p := range f.subject.processes {
		if name == "" || p.comm == name {
			name = p.comm
		} else {
			name = "the server"
			break
		}
	}
	if name == "" {
		name = "the server"
	}
	if n := len(f.subject.processes); n > 1 {
		return fmt.Sprintf("%s (%d processes)", name, n)
	}
	return name
}

// serverProcess is the server with its name, as the subject of a sentence.
func (f *facts) serverProcess() string {
	name := f.subjectName()
	if name == "the server" || len(f.subject.processes) > 1 {
		return "server " + strings.TrimPrefix(name, "the server ")
	}
	return "server process " + name
}

// cpuEvidence is the server's CPU as a fact.
func (f *facts) cpuEvidence() []record.Evidence {
	if !f.subject.known {
		return nil
	}
	_, bound := f.capacity()
	list := []record.Evidence{record.NewEvidence("series.process.cpu_ns", f.subject.cores, "cores", "%s used %.2f %s", f.serverProcess(),
		f.subject.cores, join(bound, "cores"))}
	if f.host.known {
		n := len(f.serverCPUs)
		list = append(list, record.NewEvidence("series.cpu.idle", f.host.over(f.serverCPUs, idle), "cores",
			"%.2f of the server's %s idle", f.host.over(f.serverCPUs, idle), unit.Plural(n, "core", "cores")))
	}
	return list
}

// join answers a, or b where a is empty.
func join(a, b string) string {
	if a == "" {
		return b
	}
	return a
}

// placeEvidence is where the requests were, as facts.
func (f *facts) placeEvidence(at ...int) []record.Evidence {
	if !f.places.known {
		return nil
	}
	where := [stations]string{"generator.batch_mean_ns", "series.sockets.client.unacked", "series.sockets.server.unread", "series.sockets",
		"series.sockets.server.unacked", "series.sockets.client.unread"}
	words := [stations]string{"with the generator", "on the way to the server", "unread in the server's sockets", "inside the server",
		"on the way back", "unread in the generator's sockets"}
	var list []record.Evidence
	for _, s := range at {
		list = append(list, record.NewEvidence(where[s], f.places.share[s], "share", "%s of the requests were %s", unit.Percent(f.places.share[s]),
			words[s]))
	}
	return list
}

// halfBusy tells whether a server that shares its CPUs with the generator uses
// so much of them that the two may only be taking turns.
func (f *facts) halfBusy() bool {
	capacity, _ := f.capacity()
	return f.together && capacity.known && f.subject.cores >= halfOf*capacity.value
}
