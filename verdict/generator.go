package verdict

import (
	"fmt"

	"ceiling/record"
)

// ruleGenerator asks whether the generator is the wall: a worker that is never
// without something to do sends no faster for a faster server.
func ruleGenerator(f *facts) finding {
	g := &f.generator
	out := finding{ceiling: Generator, next: generatorNext(f)}
	if !g.busy.known {
		out.answer = cannotTell
		out.missing = []string{"the generator's CPU was not recorded"}
		return out
	}
	out.pro = g.evidence()
	out.times, out.nearly = g.room()
	if !g.full() && !f.answersLie() && !f.crowdedOut() && !f.aloneNearFull() {
		return out
	}
	if f.fightForCores() {
		out.against = f.cpuEvidence() // it is short of CPU because the server has it
		return out
	}
	if part := f.generatorPart(); f.together && f.serverFull() && part.known && part.value <= smallPart && g.busy.value < generatorFull {
		out.against = f.cpuEvidence()
		return out
	}
	if p := &f.places; p.known && p.both && p.share[serverQueue] >= mostOf && p.share[generatorQueue] < starvedQueue/4 {
		out.against = append(out.against, f.placeEvidence(serverQueue, generatorQueue)...)
	}
	out.answer = yes
	out.because = fmt.Sprintf("the generator is full: its busiest worker ran %s of the time; this number describes the generator, not the server", percent(g.busy.value))
	switch {
	case g.full() && g.busy.value >= generatorFull:
	case g.full() || f.crowdedOut():
		out.next = starvedNext
		out.because = fmt.Sprintf("the generator is starved: its busiest worker ran %s of the time and waited for a CPU %s; this number describes the generator, not the server", percent(g.busy.value), percent(g.delay.value))
	case f.aloneNearFull():
		out.because = fmt.Sprintf("the generator is full: its busiest worker ran %s of the time or waited to, while the server has CPU to spare and few requests are with it; this number describes the generator, not the server", percent(g.wanting.value))
	default:
		out.next = starvedNext
		out.pro = append(out.pro, f.placeEvidence(generatorQueue)...)
		out.because = fmt.Sprintf("the generator is starved: a worker waited for a CPU %s of the time, and %s of the answers lie unread in its own sockets; this number describes the generator, not the server", percent(g.delay.value), percent(f.places.share[generatorQueue]))
	}
	return out
}

// answersLie tells whether the answers lie with a generator that cannot take
// them, because it is not given a CPU: it is the queue, though never quite full.
func (f *facts) answersLie() bool {
	g, p := &f.generator, &f.places
	return g.delay.known && g.delay.value >= starvedDelay && p.known &&
		p.share[generatorQueue] >= starvedQueue && p.share[generatorQueue] >= 2*p.share[serverQueue]
}

func (g *generatorFacts) evidence() []record.Evidence {
	if !g.busy.known {
		return nil
	}
	list := []record.Evidence{evidence(g.where, g.busy.value, "share", "the generator's busiest worker ran %s of the time", percent(g.busy.value))}
	if g.delay.known && g.delay.value >= delayWorthSaying {
		list = append(list, evidence("generator.run_delay", g.delay.value, "share", "a worker waited for a CPU %s of the time", percent(g.delay.value)))
	}
	if g.headroom.known {
		list = append(list, evidence("generator.headroom", g.headroom.value, "ratio", "by calibration this machine's generator can do %.2g times this rate", g.headroom.value))
	}
	return list
}

// room is how many times this rate the generator could make: as calibrated,
// else by the time its busiest worker was idle.
func (g *generatorFacts) room() (times float64, nearly string) {
	switch {
	case g.headroom.known:
		return max(g.headroom.value, 1), "by calibration"
	case g.busy.known:
		return max(1/g.busy.value, 1), fmt.Sprintf("its busiest worker ran %s of the time", percent(g.busy.value))
	}
	return 0, ""
}

// starvedNext is what to do for a generator that is kept from its CPU.
const starvedNext = "give the generator CPUs of its own (--pin-generator), stop what else runs there, or load from another machine"

func generatorNext(f *facts) string {
	cores := f.run.Environment.CoresAllowed
	threads := f.run.Load.Threads
	switch {
	case cores > 1 && threads > 0 && threads < cores:
		return fmt.Sprintf("give the generator more threads (-t %d), or load from another machine", min(2*threads, cores))
	case f.run.Load.Pipelining <= 1 && !f.open:
		return "load from another machine, or from more of them; pipelining (-p) costs the generator less a request where the server understands it"
	}
	return "load from another machine, or from more of them"
}
