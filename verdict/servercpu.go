package verdict

import (
	"fmt"
	"math"

	"ceiling/internal/unit"
	"ceiling/record"
)

// ruleServerCPU asks whether the server uses all the CPU it may: all cores it
// is allowed, all its cgroup grants, or as many as it limits itself to.
func ruleServerCPU(f *facts) finding {
	out := finding{bottleneck: record.ServerCPU, next: fmt.Sprintf("profile the server's CPU (%s), or give it more cores", f.cpuTool())}
	if !f.subject.known {
		out.answer, out.missing = cannotTell, []string{notWatched(f)}
		return out
	}
	out.pro = f.cpuEvidence()
	capacity, bound := f.capacity()
	if capacity.known && f.subject.cores > 0 {
		out.times, out.nearly = f.cpuRoom(capacity.value), fmt.Sprintf("%.2g %s busy", f.subject.cores, bound)
	}
	held, why := f.serverAtLimit(&out, capacity, bound)
	if !held {
		return out
	}
	free, missing := f.generatorFree()
	if missing != nil {
		out.answer, out.missing = cannotTell, missing
		return out
	}
	part := f.generatorPart()
	if !part.known {
		out.answer, out.missing = cannotTell, []string{"the CPU of the generator's process was not recorded"}
		return out
	}
	if f.fightForCores() {
		return out // both fill the cores: shared cpu
	}
	// A generator that waits for the CPU the server takes is not full by itself.
	if !free && !(f.together && f.serverFull() && part.value <= smallPart) {
		return out
	}
	out.answer = yes
	out.because = fmt.Sprintf("server CPU: %s, %s CPU/request", why, ns(f.subject.cores/math.Max(f.rate, 1e-9)*1e9))
	return out
}

// cpuRoom is how many times this rate the idle CPU would allow: of the server's
// cores, which the generator has to share where it runs on them too.
func (f *facts) cpuRoom(capacity float64) float64 {
	used := f.subject.cores
	if f.together {
		used += f.generator.cores.value
	}
	return math.Max(math.Min((used+f.host.over(f.serverCPUs, idle))/used, capacity/f.subject.cores), 1)
}

// serverAtLimit tells whether the server's CPU is used up, and says how.
func (f *facts) serverAtLimit(out *finding, capacity figure, bound string) (held bool, why string) {
	q := f.subject.quota
	if q.throttled.known {
		out.pro = append(out.pro, record.NewEvidence("series.throttle.throttled", q.throttled.value, "share",
			"its cgroup was throttled in %s of the periods", unit.Percent(q.throttled.value)))
		if q.throttled.value >= throttledShare {
			out.next = fmt.Sprintf("raise the cgroup's CPU quota, or profile the server's CPU (%s)", f.cpuTool())
			if q.cores.known {
				return true, fmt.Sprintf("%s used %.2f of the %.2g cores its cgroup allows and was throttled in %s of the periods", f.serverProcess(),
					f.subject.cores, q.cores.value, unit.Percent(q.throttled.value))
			}
			return true, fmt.Sprintf("%s was throttled by its cgroup's quota in %s of the periods", f.subjectName(), unit.Percent(q.throttled.value))
		}
	}
	switch {
	case !capacity.known:
		out.answer, out.missing = cannotTell, []string{"the CPU of the server's host was not recorded"}
		return false, ""
	case f.coresTaken() && !f.serverFull():
		wants := f.subject.cores + f.subject.queue.value
		out.against = append(out.against, record.NewEvidence("series.process.queue_ns", wants, "cores",
			"its threads used or waited for %.2f cores: it could not have filled them", wants))
		return false, ""
	case f.serverFull():
		if foreign := f.foreign(); foreign.known && foreign.value > f.subject.cores {
			out.answer = cannotTell
			out.missing = []string{fmt.Sprintf("how much CPU the server could have had: other processes used %.1f of its cores, more than the server", foreign.value)}
			return false, ""
		}
		return true, fmt.Sprintf("%s used %.1f %s", f.serverProcess(), f.subject.cores, bound)
	}
	if cores, flat := f.selfLimited(); flat {
		out.caveats = append(out.caveats, fmt.Sprintf("that the server limits itself to %s is inferred from its CPU use, which stays there",
			unit.Plural(cores, "core", "cores")))
		out.next = fmt.Sprintf("raise the server's own limit (%s), or profile its CPU (%s)", f.ownLimit(), f.cpuTool())
		return true, fmt.Sprintf("%s used %.2f cores, as if it were allowed %s", f.serverProcess(), f.subject.cores,
			unit.Plural(cores, "core", "cores"))
	}
	return false, ""
}

// selfLimited tells whether the server stays at a whole number of cores while
// others are idle and requests lie unread before it: GOMAXPROCS, or one event
// loop for each core it was told of.
func (f *facts) selfLimited() (cores int, flat bool) {
	p := &f.places
	k := math.Round(f.subject.cores)
	if k < 1 || f.subject.fullThreads() >= int(k) || k >= float64(len(f.serverCPUs)) || math.Abs(f.subject.cores-k) > selfLimitOff*k ||
		len(f.subject.samples) < placesFewest {
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
