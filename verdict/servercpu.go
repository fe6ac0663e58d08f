package verdict

import (
	"math"

	"ceiling/record"
)

// ruleServerCPU asks whether the server uses all the CPU it may: all its allowed cores, its whole
// cgroup quota, or as many cores as it limits itself to.
func ruleServerCPU(f *facts) finding {
	out := finding{bottleneck: record.ServerCPU, next: just("server-cpu.next", with{"tool": f.cpuTool()})}
	if !f.subject.known {
		out.answer, out.missing = unknown, []record.Statement{notWatched(f.runFacts)}
		return out
	}
	out.pro = f.cpuEvidence()
	capacity, bound := f.capacity()
	if capacity.known && f.subject.cores > 0 {
		out.times, out.nearly = f.cpuRoom(capacity.value), say("server-cpu.nearly", with{"cores": f.subject.cores, "bound": bound})
		if out.times < capacity.value/f.subject.cores {
			out.nearly = say("server.cores-idle", with{"idle": f.host.over(f.serverCPUs, idle), "cores": len(f.serverCPUs)})
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
	part := f.generatorPart()
	if !part.known {
		out.answer, out.missing = unknown, just("missing.generator-process-cpu", nil)
		return out
	}
	if f.fightForCores() {
		return out // both fill the cores: shared cpu
	}
	// A generator that waits for CPU the server takes is not full by itself.
	if !free && !(f.together && f.serverFull() && part.value <= 1-serversPart) {
		return out
	}
	out.answer = matched
	out.because = just("server-cpu", with{"why": why, "cpu_ns": f.subject.cores / math.Max(f.rate, 1e-9) * 1e9})
	if f.together && f.coresTaken() && part.value >= partSaid {
		out.because = append(out.because, say("server-cpu.part", with{"generator": part.value, "times": 1 / (1 - part.value)}))
		out.next = append(out.next, f.separate())
	}
	return out
}

// cpuRoom returns how many times this rate the idle CPU would allow: on the server's cores, which
// it shares with a generator that runs there too.
func (f *cpuFacts) cpuRoom(capacity float64) float64 {
	used := f.subject.cores
	if f.together {
		used += f.generator.cores.value
	}
	return math.Max(math.Min((used+f.host.over(f.serverCPUs, idle))/used, capacity/f.subject.cores), 1)
}

// serverAtLimit reports whether the server's CPU is used up, and how.
func (f *facts) serverAtLimit(out *finding, capacity figure, bound record.Statement) (held bool, why record.Statement) {
	q := f.subject.quota
	if q.throttled.known {
		out.pro = append(out.pro, record.NewEvidence("series.throttle.throttled", q.throttled.value, "share",
			say("server-cpu.throttled", with{"share": q.throttled.value})))
		if q.throttled.value >= throttledShare {
			out.next = just("server-cpu.throttled.next", with{"tool": f.cpuTool()})
			if q.cores.known {
				return true, say("server-cpu.quota", with{"server": f.serverProcess(), "cores": f.subject.cores, "allowed": q.cores.value,
					"share": q.throttled.value})
			}
			return true, say("server-cpu.quota-unknown", with{"server": f.subjectName(), "share": q.throttled.value})
		}
	}
	switch {
	case !capacity.known:
		out.answer, out.missing = unknown, just("missing.server-host-cpu", nil)
		return false, why
	case f.coresTaken() && !f.serverFull():
		wants := f.subject.cores + f.subject.queue.value
		out.against = append(out.against, record.NewEvidence("series.process.queue_ns", wants, "cores",
			say("server-cpu.wants-less", with{"cores": wants})))
		return false, why
	case f.serverFull():
		if foreign := f.foreign(); foreign.known && foreign.value > f.subject.cores {
			out.answer = unknown
			out.missing = just("missing.server-share", with{"others": foreign.value})
			return false, why
		}
		if !f.serverTakes() {
			return false, why // others have the cores: neighbours.go
		}
		others := 0.0
		if foreign := f.foreign(); foreign.value >= othersMin {
			others = foreign.value
		}
		return true, say("server-cpu.used", with{"server": f.serverProcess(), "cores": f.subject.cores, "bound": bound, "others": others})
	}
	if cores, flat := f.selfLimited(); flat {
		out.caveats = append(out.caveats, say("server-cpu.own-limit-inferred", with{"cores": cores}))
		out.next = just("server-cpu.own-limit.next", with{"limit": f.ownLimit(), "tool": f.cpuTool()})
		return true, say("server-cpu.own-limit", with{"server": f.serverProcess(), "used_cores": f.subject.cores, "cores": cores})
	}
	return false, why
}

// serverTakes reports whether the two sides used most of the CPU that the server may use: full cores
// that others use do not make its CPU the limit.
func (f *cpuFacts) serverTakes() bool {
	capacity, _ := f.capacity()
	used := f.subject.cores
	if f.together {
		used += f.generator.cores.value
	}
	return capacity.known && used >= serverMost*capacity.value
}

// selfLimited reports whether the server stays at a whole number of cores while others are idle
// and requests sit unread: GOMAXPROCS, or one event loop per configured core.
func (f *facts) selfLimited() (cores int, flat bool) {
	p := &f.places
	k := math.Round(f.subject.cores)
	if k < 1 || f.subject.fullThreads() >= int(k) || k >= float64(len(f.serverCPUs)) || math.Abs(f.subject.cores-k) > selfLimitOff*k ||
		len(f.subject.samples) < minSamples {
		return 0, false
	}
	if !p.known || !p.both || p.share[serverQueue] < selfLimitQueue || p.share[serverQueue] < 2*p.share[generatorQueue] {
		return 0, false
	}
	near := 0
	for _, s := range f.subject.samples {
		if math.Abs(s-k) <= 3*selfLimitOff*k {
			near++
		}
	}
	return int(k), float64(near) >= 0.8*float64(len(f.subject.samples))
}
