package verdict

import (
	"fmt"
	"slices"

	"ceiling/internal/unit"
	"ceiling/record"
)

// ruleSharedCPU asks whether generator and server together fill the same
// cores: then the number belongs to both, and neither's share of it can be
// told from one run but by what each used.
func ruleSharedCPU(f *facts) finding {
	out := finding{bottleneck: record.SharedCPU}
	if !f.fightForCores() {
		return out
	}
	if foreign := f.foreign(); foreign.known && foreign.value >= f.generator.cores.value+f.subject.cores {
		out.answer = cannotTell
		out.missing = []string{fmt.Sprintf("which process would have had the CPU: other processes used %.1f of the server's cores, more than generator and server together", foreign.value)}
		return out
	}
	g, s := f.generator.cores.value, f.subject.cores
	n := len(f.serverCPUs)
	out.answer = yes
	out.pro = append(f.cpuEvidence(), record.NewEvidence("generator.user_ns", g, "cores", "generator used %.2f cores", g))
	out.pro = append(out.pro, f.generatorEvidence()...)
	if q := f.subject.queue; q.known {
		out.pro = append(out.pro, record.NewEvidence("series.process.queue_ns", q.value, "threads",
			"on average %.2f of the server's threads were runnable without a CPU", q.value))
	}
	out.pro = append(out.pro, f.placeEvidence(serverQueue, generatorQueue)...)
	who := "generator"
	if len(f.agents) > 0 {
		who = "agents"
	}
	out.because = fmt.Sprintf("%s and server saturate the same %s (server %s of their CPU time, %[1]s %[4]s); the result reflects both",
		who, unit.Plural(n, "core", "cores"), unit.Percent(s/(s+g)), unit.Percent(g/(s+g)))
	out.next = f.separate()
	return out
}

// fightForCores tells whether both need the cores that they share, with a good
// part of them each, and nothing is left.
func (f *facts) fightForCores() bool {
	part := f.generatorPart()
	return f.together && part.known && part.value > smallPart && part.value < 1-smallPart &&
		f.coresTaken() && f.wanted() >= bothWant*float64(len(f.serverCPUs)) && f.bothCores() && !f.oneThreadHolds()
}

// bothCores tells whether the CPUs that only the generator may use are full
// too: else it could move there.
func (f *facts) bothCores() bool {
	own := slices.DeleteFunc(slices.Clone(f.generatorCPUs), func(cpu int) bool { return slices.Contains(f.serverCPUs, cpu) })
	return len(own) == 0 || f.home.full(own)
}

// oneThreadHolds tells whether the server is nothing but full threads, fewer
// than the cores it may use, beside a generator that is not full: then the
// cores are full only because the generator has the rest of them.
func (f *facts) oneThreadHolds() bool {
	n := f.subject.fullThreads()
	return n > 0 && n < len(f.serverCPUs) && f.subject.cores <= float64(n)+besidesFull && !f.generatorFull()
}
