package verdict

import (
	"math"

	"ceiling/record"
)

// ruleServerCPU asks whether the server uses all the CPU it may: all its allowed cores, its whole
// cgroup quota, or as many cores as it limits itself to.
func ruleServerCPU(f *facts) finding {
	out := finding{bottleneck: record.ServerCPU, next: just("server-cpu.next", with{"tool": f.cpu.server.cpuTool()})}
	if !f.cpu.server.subject.known {
		out.answer, out.missing = unknown, []record.Statement{notWatched(f.base)}
		return out
	}
	out.pro = f.cpu.server.cpuEvidence()
	capacity, bound := f.cpu.server.capacity()
	if capacity.known && f.cpu.server.subject.cores > 0 {
		out.times, out.nearly = f.cpu.cpuRoom(capacity.value), say("server-cpu.nearly", with{"cores": f.cpu.server.subject.cores, "bound": bound})
		if out.times < capacity.value/f.cpu.server.subject.cores {
			out.nearly = say("server.cores-idle", with{"idle": f.cpu.server.host.over(f.cpu.server.cpus, idle), "cores": len(f.cpu.server.cpus)})
			if f.cpu.othersTakeMore() {
				out.times = 0 // they are what limits: ruleNeighbours
			}
		}
	}
	held, why := f.serverAtLimit(&out, capacity, bound)
	if !held {
		return out
	}
	free, missing := f.generatorFree()
	if missing != nil {
		out.answer, out.missing = unknown, missing
		return out
	}
	part := f.cpu.generatorPart()
	if !part.known {
		out.answer, out.missing = unknown, just("missing.generator-process-cpu", nil)
		return out
	}
	if f.cpu.fightForCores() {
		return out // both fill the cores: shared cpu
	}
	// A generator that waits for CPU the server takes is not full by itself.
	if !free && !(f.cpu.together && f.cpu.serverFull() && part.value <= 1-serversPart) {
		return out
	}
	out.answer = matched
	out.because = just("server-cpu", with{"why": why, "cpu_ns": f.cpu.server.subject.cores / math.Max(f.base.rate, 1e-9) * 1e9})
	if f.cpu.together && f.cpu.coresTaken() && part.value >= partSaid {
		out.because = append(out.because, say("server-cpu.part", with{"generator": part.value, "times": 1 / (1 - part.value)}))
		out.next = append(out.next, f.cpu.separate())
	}
	return out
}

// cpuRoom returns how many times this rate the idle CPU would allow: on the server's cores, which
// it shares with a generator that runs there too.
func (f *cpuFacts) cpuRoom(capacity float64) float64 {
	used := f.server.subject.cores
	if f.together {
		used += f.generator.self.cores.value
	}
	return math.Max(math.Min((used+f.server.host.over(f.server.cpus, idle))/used, capacity/f.server.subject.cores), 1)
}

// serverAtLimit reports whether the server's CPU is used up, and how.
func (f *facts) serverAtLimit(out *finding, capacity figure, bound record.Statement) (held bool, why record.Statement) {
	q := f.cpu.server.subject.quota
	if q.throttled.known {
		out.pro = append(out.pro, record.NewEvidence("series.throttle.throttled", q.throttled.value, "share",
			say("server-cpu.throttled", with{"share": q.throttled.value})))
		if q.throttled.value >= throttledShare {
			out.next = just("server-cpu.throttled.next", with{"tool": f.cpu.server.cpuTool()})
			if q.cores.known {
				return true, say("server-cpu.quota", with{"server": f.cpu.server.serverProcess(), "cores": f.cpu.server.subject.cores, "allowed": q.cores.value,
					"share": q.throttled.value})
			}
			return true, say("server-cpu.quota-unknown", with{"server": f.cpu.server.subjectName(), "share": q.throttled.value})
		}
	}
	switch {
	case !capacity.known:
		out.answer, out.missing = unknown, just("missing.server-host-cpu", nil)
		return false, why
	case f.cpu.coresTaken() && !f.cpu.serverFull():
		wants := f.cpu.server.subject.cores + f.cpu.server.subject.queue.value
		out.against = append(out.against, record.NewEvidence("series.process.queue_ns", wants, "cores",
			say("server-cpu.wants-less", with{"cores": wants})))
		return false, why
	case f.cpu.serverFull():
		if foreign := f.cpu.foreign(); foreign.known && foreign.value > f.cpu.server.subject.cores {
			out.answer = unknown
			out.missing = just("missing.server-share", with{"others": foreign.value})
			return false, why
		}
		if !f.cpu.serverTakes() {
			return false, why // others have the cores: neighbours.go
		}
		others := 0.0
		if foreign := f.cpu.foreign(); foreign.value >= othersMin {
			others = foreign.value
		}
		return true, say("server-cpu.used", with{"server": f.cpu.server.serverProcess(), "cores": f.cpu.server.subject.cores, "bound": bound, "others": others})
	}
	if cores, flat := f.selfLimited(); flat {
		out.caveats = append(out.caveats, say("server-cpu.own-limit-inferred", with{"cores": cores}))
		out.next = just("server-cpu.own-limit.next", with{"limit": f.cpu.server.ownLimit(), "tool": f.cpu.server.cpuTool()})
		return true, say("server-cpu.own-limit", with{"server": f.cpu.server.serverProcess(), "used_cores": f.cpu.server.subject.cores, "cores": cores})
	}
	return false, why
}

// serverTakes reports whether the two sides used most of the CPU that the server may use: full cores
// that others use do not make its CPU the limit.
func (f *cpuFacts) serverTakes() bool {
	capacity, _ := f.server.capacity()
	used := f.server.subject.cores
	if f.together {
		used += f.generator.self.cores.value
	}
	return capacity.known && used >= serverMost*capacity.value
}

// selfLimited reports whether the server stays at a whole number of cores while others are idle
// and requests sit unread: GOMAXPROCS, or one event loop per configured core.
func (f *facts) selfLimited() (cores int, flat bool) {
	p := &f.places
	server := &f.cpu.server.subject
	k := math.Round(server.cores)
	if k < 1 || server.fullThreads() >= int(k) || k >= float64(len(f.cpu.server.cpus)) || math.Abs(server.cores-k) > selfLimitOff*k ||
		len(server.samples) < minSamples {
		return 0, false
	}
	if !p.known || !p.both || p.share[serverQueue] < selfLimitQueue || p.share[serverQueue] < 2*p.share[generatorQueue] {
		return 0, false
	}
	near := 0
	for _, s := range f.cpu.server.subject.samples {
		if math.Abs(s-k) <= 3*selfLimitOff*k {
			near++
		}
	}
	return int(k), float64(near) >= 0.8*float64(len(f.cpu.server.subject.samples))
}
