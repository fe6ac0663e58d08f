package verdict

import (
	"fmt"
	"slices"

	"ceiling/internal/unit"
	"ceiling/record"
)

// ruleGenerator asks whether the generator is the bottleneck: a worker that is never
// without something to do sends no faster for a faster server.
func ruleGenerator(f *facts) finding {
	if len(f.agents) > 0 {
		return f.fullAgent()
	}
	g := &f.generator
	out := finding{bottleneck: record.LoadGenerator, next: generatorNext(f)}
	if !g.busy.known {
		out.answer = cannotTell
		out.missing = []string{f.cpuNotRecorded()}
		return out
	}
	out.pro = f.generatorEvidence()
	out.times, out.nearly = g.room()
	if !g.full() && !f.answersLie() && !f.crowdedOut() && !f.aloneNearFull() {
		return out
	}
	if f.fightForCores() {
		out.against = f.cpuEvidence() // it is short of CPU because the server has it
		return out
	}
	if part := f.generatorPart(); f.together && f.serverFull() && part.known && part.value <= smallPart && g.busy.value < GeneratorFull {
		out.against = f.cpuEvidence()
		return out
	}
	if p := &f.places; p.known && p.both && p.share[serverQueue] >= mostOf && p.share[generatorQueue] < starvedQueue/4 {
		out.against = append(out.against, f.placeEvidence(serverQueue, generatorQueue)...)
	}
	out.answer = yes
	out.because = fmt.Sprintf("%s is full: its busiest worker ran %s of the time; this number describes %[1]s, not the server", f.who(),
		unit.Percent(g.busy.value))
	switch {
	case g.full() && g.busy.value >= GeneratorFull:
	case g.full() || f.crowdedOut():
		out.next, out.pro = f.starvedNext(), append(out.pro, f.homeEvidence()...)
		out.because = fmt.Sprintf("%s is starved: its busiest worker ran %s of the time and waited for a CPU %s; this number describes %[1]s, not the server", f.who(), unit.Percent(g.busy.value), unit.Percent(g.delay.value))
	case f.aloneNearFull():
		out.because = fmt.Sprintf("%s is full: its busiest worker ran %s of the time or waited to, while the server has CPU to spare and few requests are with it; this number describes %[1]s, not the server", f.who(), unit.Percent(g.wanting.value))
	default:
		out.next = f.starvedNext()
		out.pro = append(append(out.pro, f.placeEvidence(generatorQueue)...), f.homeEvidence()...)
		out.because = fmt.Sprintf("%s is starved: a worker waited for a CPU %s of the time, and %s of the answers are unread in its own sockets; this number describes %[1]s, not the server", f.who(), unit.Percent(g.delay.value), unit.Percent(f.places.share[generatorQueue]))
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

// fullAgent asks each of several agents, the one nearest to its limit first.
// One that is full has held back what it loads, and so the whole number: it is
// named, with the others that are.
func (f *facts) fullAgent() finding {
	worst := f.worst()
	out := finding{bottleneck: record.LoadGenerator, next: generatorNext(worst)}
	rest := slices.DeleteFunc(slices.Clone(f.agents), func(v *facts) bool { return v == worst })
	for _, v := range append([]*facts{worst}, rest...) {
		one := ruleGenerator(v)
		switch one.answer {
		case cannotTell:
			out.missing = append(out.missing, one.missing...)
		case yes:
			if out.answer != yes {
				out.answer, out.because, out.next = yes, one.because, one.next
			}
			out.pro = append(append(out.pro, one.pro...), v.partEvidence(f))
		}
		out.against = append(out.against, one.against...)
		if one.times > 0 && (out.times == 0 || one.times < out.times) {
			out.times, out.nearly = one.times, v.who()+": "+one.nearly
		}
	}
	if out.answer != yes {
		out.pro = f.generatorEvidence()
		if len(out.missing) > 0 {
			out.answer = cannotTell
		}
	}
	return out
}

// partEvidence is what an agent made of the whole.
func (f *facts) partEvidence(whole *facts) record.Evidence {
	return record.NewEvidence(f.at("rate.completed_per_s"), f.rate, "1/s", "%s made %s of %s, with %.0f of %.0f slots", f.who(), unit.FormatRate(f.rate),
		unit.FormatRate(whole.rate), f.slots, whole.slots)
}

// generatorEvidence is how busy the generator is, of several agents the one
// nearest to its limit.
func (f *facts) generatorEvidence() []record.Evidence {
	if len(f.agents) > 0 {
		return f.worst().generatorEvidence()
	}
	g := &f.generator
	if !g.busy.known {
		return nil
	}
	list := []record.Evidence{record.NewEvidence(f.at(g.where), g.busy.value, "share", "%s's busiest worker ran %s of the time", f.who(),
		unit.Percent(g.busy.value))}
	if g.delay.known && g.delay.value >= delayWorthSaying {
		of := ""
		if f.agent != "" {
			of = " of " + f.who()
		}
		list = append(list, record.NewEvidence(f.at("generator.run_delay"), g.delay.value, "share", "a worker%s waited for a CPU %s of the time", of,
			unit.Percent(g.delay.value)))
	}
	if g.headroom.known {
		of := "this machine's generator"
		if f.agent != "" {
			of = f.who()
		}
		list = append(list, record.NewEvidence(f.at("generator.headroom"), g.headroom.value, "ratio", "calibration: %s can reach %.2g times this rate", of,
			g.headroom.value))
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
		return max(1/g.busy.value, 1), fmt.Sprintf("its busiest worker ran %s of the time", unit.Percent(g.busy.value))
	}
	return 0, ""
}

// starvedNext is what to do for a generator that is kept from its CPU.
func (f *facts) starvedNext() string {
	if f.agent != "" {
		return fmt.Sprintf("stop other processes on %s, or load from more agents, each on a machine of its own", f.agent)
	}
	if f.together {
		return f.separate() + "; or stop other processes there"
	}
	if len(f.atHomeToo) > 0 {
		return fmt.Sprintf("stop %s, or load from another machine", f.atHomeToo[0].comm)
	}
	return "stop other processes on the generator's CPUs, or load from another machine"
}

// homeEvidence is who else used the CPU of the generator's host.
func (f *facts) homeEvidence() []record.Evidence {
	who := whoElse(f.atHomeToo)
	if who == "" {
		return nil
	}
	return []record.Evidence{record.NewEvidence(f.at("series.neighbours"), f.atHomeToo[0].cores, "cores",
		"CPU of other processes on the generator's host, in cores: %s", who)}
}

func generatorNext(f *facts) string {
	cores := f.run.Environment.CoresAllowed
	if a := f.run.Agent(f.homeHost); a != nil {
		cores = a.Environment.CoresAllowed
	}
	threads := f.run.Load.Threads
	from := "from another machine, or from more of them"
	if f.agent != "" {
		from = fmt.Sprintf("from more agents (--agents), or with fewer connections on %s", f.agent)
	}
	switch {
	case cores > 1 && threads > 0 && threads < cores && f.agent != "":
		return fmt.Sprintf("give the agents more threads (-t %d), or load %s", min(2*threads, cores), from)
	case cores > 1 && threads > 0 && threads < cores:
		return fmt.Sprintf("give the generator more threads (-t %d), or load from another machine", min(2*threads, cores))
	case f.run.Load.Pipelining <= 1 && !f.open:
		return "load " + from + "; pipelining (-p) costs the generator less a request where the server understands it"
	}
	return "load " + from
}
