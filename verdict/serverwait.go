package verdict

import (
	"fmt"

	"ceiling/internal/unit"
	"ceiling/record"
)

// ruleServerWait asks whether requests wait at the server for something that is
// not CPU: a lock, a pool, another server, or a server that stands still.
func ruleServerWait(f *facts) finding {
	out := finding{bottleneck: record.ServerBlocked, next: "see what the server waits for: " + f.waitTool() + ", its connections to others"}
	free, missing := f.generatorFree()
	if missing != nil {
		out.answer, out.missing = cannotTell, missing
		return out
	}
	if !free {
		return out
	}
	idle, missing := f.serverIdle()
	if missing != nil {
		out.pro, out.answer, out.missing = f.loneEvidence(), cannotTell, missing
		return out
	}
	if !idle {
		return out
	}
	out.pro = f.cpuEvidence()
	p := &f.places
	inTurn := f.waiting() == queued && !f.lone.lined
	switch {
	case !p.known || !p.both:
		f.waitUnseen(&out, inTurn)
	case f.queuesUnread():
		out.pro = append(out.pro, f.placeEvidence(serverQueue, inServer)...)
		f.waitUnread(&out, inTurn)
	default:
		out.pro = append(out.pro, f.placeEvidence(serverQueue, inServer)...)
		if p.share[serverQueue]+p.share[inServer] >= mostOf {
			f.waitInside(&out, inTurn)
		}
	}
	return out
}

// waitUnseen is where the requests wait for each other though nobody looked where.
func (f *facts) waitUnseen(out *finding, inTurn bool) {
	out.pro = append(out.pro, f.turnEvidence()...)
	if !inTurn || !f.lone.known || !f.onLoopback() {
		out.answer, out.missing = cannotTell, []string{f.places.missing()}
		return
	}
	out.answer = yes // on no path they could wait, nor at a generator that is free
	out.because = fmt.Sprintf("server blocked: the requests wait for each other in the server, which uses %.2f cores: %s", f.subject.cores,
		f.turns())
	out.caveats = append(out.caveats, "where the requests wait was not seen, but not on the loopback, nor at a generator that is free")
}

// waitUnread is what requests that lie unread before an idle server wait for.
func (f *facts) waitUnread(out *finding, inTurn bool) {
	switch {
	case (f.coresTaken() || f.kept()) && !f.wantsLittle():
		out.answer = cannotTell
		out.missing = []string{"whether the requests unread in the server's sockets wait for its CPU, which others fill, or for something else"}
	case f.halfBusy() && !inTurn:
		out.answer = cannotTell
		out.missing = []string{"whether the requests unread in the server's sockets wait for its CPU, of which it uses half in turns with the generator, or for something else"}
		out.next = f.separate()
	default:
		out.answer = yes
		out.because = fmt.Sprintf("server blocked: %s of the requests are unread in the server's sockets while it uses %.2f cores: their reader is blocked elsewhere", unit.Percent(f.places.share[serverQueue]), f.subject.cores)
		if inTurn && f.lone.known {
			out.because += "; " + f.turns()
		}
		out.pro = append(out.pro, f.loneEvidence()...)
		out.next = "see what the server's workers wait for, or give it more of them; " + out.next
	}
}

// waitInside is what requests inside an idle server wait for, where they do not
// each take their time.
func (f *facts) waitInside(out *finding, inTurn bool) {
	p := &f.places
	inside := fmt.Sprintf("%s of the requests are inside the server, which uses %.2f cores",
		unit.Percent(p.share[serverQueue]+p.share[inServer]), f.subject.cores)
	pool, other := f.poolBefore(), f.waitsFor()
	switch {
	case inTurn:
		out.answer = yes
		out.pro = append(out.pro, f.turnEvidence()...)
		out.because = fmt.Sprintf("server blocked: %s, and they wait for each other: %s", inside, f.turns())
	case pool != nil:
		out.answer = yes
		out.pro = append(out.pro, f.loneEvidence()...)
		out.because = fmt.Sprintf("server blocked: %s, and of %.0f only %d at a time have one of its connections to %s: a pool, all of which is in use", inside, f.underWay(), pool.high, f.called(pool))
	case f.waiting() == alone: // slots.go
	case other != nil:
		out.answer = yes
		out.pro = append(out.pro, record.NewEvidence("series.peers", other.used, "sockets", "on %.0f connections to %s the server waits for an answer",
			other.used, other.addr))
		out.because = fmt.Sprintf("server blocked: most of the requests are inside the server, which uses %.2f cores, and wait for %s",
			f.subject.cores, f.called(other))
		out.next = fmt.Sprintf("measure %s by itself; twice the connections (-c %d) show whether it is slow or queues", other.addr,
			2*f.run.Load.Connections)
	case f.waiting() == unclear && !f.fewSlots():
		out.answer = cannotTell
		out.pro = append(out.pro, f.loneEvidence()...)
		out.missing = []string{"whether the requests inside the server wait for each other (a lock, a pool) or each takes its time (too few slots): " + f.whyUnclear()}
		out.next = fmt.Sprintf("run with twice the connections (-c %d): a rate that doubles was limited by the slots, one that stays by the server", 2*f.run.Load.Connections)
	}
}

// ruleStandstill looks for a server that answered nobody for a good part of the
// time: no resource limits what stands still. It comes before the rules on CPU,
// whose means over the whole window such a run does not deserve.
func ruleStandstill(f *facts) finding {
	out := finding{bottleneck: record.ServerBlocked,
		next: "find what stopped it: a debugger, a signal, garbage collection, a global lock, swapping"}
	s := &f.stall
	if !s.known || s.share < stallBottleneck {
		return out
	}
	free, missing := f.generatorFree()
	if missing != nil {
		out.answer, out.missing = cannotTell, missing
		return out
	}
	out.pro = append(out.pro, record.NewEvidence("series.load.completed", s.share, "share",
		"no response for %s in total (%s) while requests were in flight", ns(s.ns), unit.Plural(s.count, "time", "times")))
	if !s.cores.known {
		out.answer, out.missing = cannotTell, []string{"the server's activity during the stall was not recorded"}
		return out
	}
	out.pro = append(out.pro, record.NewEvidence("series.process.cpu_ns", s.cores.value, "cores", "the server used %.2f cores during the stall",
		s.cores.value))
	if s.starved.known && s.starved.value >= starvedThreads {
		out.against = append(out.against, record.NewEvidence("series.process.queue_ns", s.starved.value, "threads",
			"%.2f threads of the server waited for a CPU during the stall", s.starved.value))
		return out
	}
	if s.hungry.known && s.hungry.value >= hungryThreads {
		out.against = append(out.against, record.NewEvidence("series.process.queue_ns", s.hungry.value, "threads",
			"%.2f threads of the generator waited for a CPU during the stall", s.hungry.value))
		return out
	}
	if capacity, _ := f.capacity(); !free || capacity.known && s.cores.value > idleMost*capacity.value {
		return out // it was at work: a collection of garbage, perhaps
	}
	out.answer = yes
	out.because = fmt.Sprintf("server blocked: the server stalled for %s of %.3g s (%s)", ns(s.ns), f.windowS(),
		unit.Plural(s.count, "time", "times"))
	return out
}

// fewSlots tells whether there are hardly more requests than CPUs to work on
// them, so that none has to wait long for another.
func (f *facts) fewSlots() bool {
	cores := max(len(f.serverCPUs), len(f.generatorCPUs))
	return !f.open && cores > 0 && f.slots <= fewPerCore*float64(cores)
}
