package verdict

import (
	"slices"

	"ceiling/record"
)

// ruleSharedCPU asks whether generator and server together saturate the same cores: then the
// result reflects both, and one run shows only how much CPU each used.
func ruleSharedCPU(f *facts) finding {
	out := finding{bottleneck: record.SharedCPU}
	if !f.cpu.fightForCores() {
		return out
	}
	if foreign := f.cpu.foreign(); foreign.known && foreign.value >= f.cpu.generator.self.cores.value+f.cpu.server.subject.cores {
		out.answer = unknown
		out.missing = just("missing.cpu-owner", with{"others": foreign.value})
		return out
	}
	g, s := f.cpu.generator.self.cores.value, f.cpu.server.subject.cores
	n := len(f.cpu.server.cpus)
	out.answer = matched
	out.pro = append(f.cpu.server.cpuEvidence(), record.NewEvidence("generator.user_ns", g, "cores", say("generator.cores", with{"cores": g})))
	out.pro = append(out.pro, f.generatorEvidence()...)
	if q := f.cpu.server.subject.queue; q.known {
		out.pro = append(out.pro, record.NewEvidence("series.process.queue_ns", q.value, "threads",
			say("server.runnable", with{"threads": q.value})))
	}
	out.pro = append(out.pro, f.placeEvidence(serverQueue, generatorQueue)...)
	out.because = just("shared-cpu", with{"agents": len(f.cpu.generator.agents), "cores": n, "server": s / (s + g), "generator": g / (s + g)})
	out.next = []record.Statement{f.cpu.separate()}
	return out
}

// fightForCores reports whether both sides need the cores they share, each uses a good part of
// them, and nothing is left.
func (f *cpuFacts) fightForCores() bool {
	part := f.generatorPart()
	return f.together && part.known && part.value > 1-serversPart && part.value < 1-smallPart &&
		f.coresTaken() && f.wanted() >= jointDemandMin*f.server.host.had(f.server.cpus) && f.bothCores() && !f.oneThreadHolds()
}

// bothCores reports whether the CPUs that only the generator may use are full too; otherwise it
// could move there.
func (f *cpuFacts) bothCores() bool {
	own := slices.DeleteFunc(slices.Clone(f.generator.cpus), func(cpu int) bool { return slices.Contains(f.server.cpus, cpu) })
	return len(own) == 0 || f.generator.home.full(own)
}

// oneThreadHolds reports whether the server consists of full threads, fewer than its allowed
// cores, while the generator is not full: then the cores are full only because the generator runs
// on the rest.
func (f *cpuFacts) oneThreadHolds() bool {
	n := f.server.subject.fullThreads()
	return n > 0 && n < len(f.server.cpus) && f.server.subject.cores <= float64(n)+besidesFull && !f.generator.full()
}
