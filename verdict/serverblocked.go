package verdict

import (
	"slices"

	"ceiling/record"
)

// ruleServerBlocked asks whether requests wait at the server for something other than CPU: a lock, a
// pool, another server, or a stall.
func ruleServerBlocked(f *facts) finding {
	out := finding{bottleneck: record.ServerBlocked, next: just("blocked.next", with{"tool": f.cpu.server.waitTool(), "alone": f.cpu.server.peers.none()})}
	free, missing := f.generatorFree()
	if missing != nil {
		out.answer, out.missing = unknown, missing
		return out
	}
	if !free {
		return out
	}
	idle, missing := f.cpu.serverIdle()
	if missing != nil {
		out.pro, out.answer, out.missing = f.loneEvidence(), unknown, missing
		return out
	}
	if !idle {
		return out
	}
	out.pro = f.cpu.server.cpuEvidence()
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

// waitUnseen handles requests that wait for each other when nothing observed where.
func (f *facts) waitUnseen(out *finding, inTurn bool) {
	out.pro = append(out.pro, f.turnEvidence()...)
	if !inTurn || !f.lone.known || !f.path.onLoopback() {
		out.answer, out.missing = unknown, []record.Statement{f.places.missing()}
		return
	}
	out.answer = matched // loopback has no path to wait on, and the generator is free
	out.because = just("blocked.turns-unseen", with{"cores": f.cpu.server.subject.cores, "turns": f.turns()})
	out.caveats = append(out.caveats, say("blocked.not-seen", nil))
}

// waitUnread explains why requests sit in an idle server's receive queue.
func (f *facts) waitUnread(out *finding, inTurn bool) {
	switch {
	case (f.cpu.coresTaken() || f.cpu.kept()) && !f.cpu.server.wantsLittle():
		out.answer = unknown
		out.missing = just("missing.unread-cpu", with{"half": false})
	case f.cpu.halfBusy() && !inTurn:
		out.answer = unknown
		out.missing = just("missing.unread-cpu", with{"half": true})
		out.next = []record.Statement{f.cpu.separate()}
	case f.cpu.server.acceptsSlowly():
		u := &f.cpu.server.unaccepted
		out.answer = matched
		out.because = just("blocked.accept-loop", with{"waiting": u.mean, "of": u.of, "cores": f.cpu.server.subject.cores,
			"per_s": float64(f.base.run.Load.Reconnects) / f.base.elapsedS})
		out.next = just("blocked.accept-loop.next", nil)
	default:
		out.answer = matched
		out.because = just("blocked.unread", with{"share": f.places.share[serverQueue], "cores": f.cpu.server.subject.cores})
		if inTurn && f.lone.known {
			out.because = append(out.because, f.turns())
		}
		out.pro = append(out.pro, f.loneEvidence()...)
		out.next = slices.Insert(out.next, 0, say("blocked.unread.next", nil))
	}
}

// waitInside explains what requests inside an idle server wait for, unless each simply takes its
// time.
func (f *facts) waitInside(out *finding, inTurn bool) {
	p := &f.places
	inside := say("blocked.inside", with{"share": p.share[serverQueue] + p.share[inServer], "cores": f.cpu.server.subject.cores})
	pool, other := f.poolBefore(), f.waitsFor()
	switch {
	case inTurn:
		out.answer = matched
		out.pro = append(out.pro, f.turnEvidence()...)
		out.because = just("blocked.turns", with{"inside": inside, "turns": f.turns()})
		if limit := f.base.rateLimit(); limit > 0 && f.lone.known {
			out.next = just("blocked.limit.next", with{"per_s": limit})
		}
	case pool != nil:
		out.answer = matched
		out.pro = append(out.pro, f.loneEvidence()...)
		out.because = just("blocked.pool", with{"inside": inside, "requests": f.underWay(), "connections": pool.high,
			"to": f.cpu.server.called(pool)})
	case f.waiting() == alone: // concurrency.go
	case other != nil:
		out.answer = matched
		out.pro = append(out.pro, record.NewEvidence("series.peers", other.used, "sockets",
			say("peers.awaited", with{"connections": other.used, "to": other.addr})))
		out.because = just("blocked.peer", with{"cores": f.cpu.server.subject.cores, "to": f.cpu.server.called(other)})
		out.next = just("blocked.peer.next", with{"to": other.addr, "connections": 2 * f.base.run.Load.Connections})
	case f.waiting() == unclear && !f.cpu.fewSlots():
		out.answer = unknown
		out.pro = append(out.pro, f.loneEvidence()...)
		out.missing = just("missing.turns", with{"why": f.whyUnclear()})
		out.next = just("missing.turns.next", f.base.more())
	}
}

// ruleStandstill looks for a server that answered no requests for a good part of the time: no
// resource limits a server that stalls. It runs before the CPU rules, because means over the
// whole window are meaningless for such a run.
func ruleStandstill(f *facts) finding {
	out := finding{bottleneck: record.ServerBlocked,
		next: just("standstill.next", nil)}
	s := &f.time.stall
	if !s.known || s.share < stallBottleneck {
		return out
	}
	free, missing := f.generatorFree()
	if missing != nil {
		out.answer, out.missing = unknown, missing
		return out
	}
	out.pro = append(out.pro, record.NewEvidence("series.load.completed", s.share, "share",
		say("standstill.gaps", with{"total_ns": s.ns, "times": s.count})))
	if !s.cores.known {
		out.answer, out.missing = unknown, just("missing.stall", nil)
		return out
	}
	out.pro = append(out.pro, record.NewEvidence("series.process.cpu_ns", s.cores.value, "cores",
		say("standstill.cores", with{"cores": s.cores.value})))
	if s.starved.known && s.starved.value >= starvedThreads {
		out.against = append(out.against, record.NewEvidence("series.process.queue_ns", s.starved.value, "threads",
			say("standstill.server-starved", with{"threads": s.starved.value})))
		return out
	}
	if s.hungry.known && s.hungry.value >= hungryThreads {
		out.against = append(out.against, record.NewEvidence("series.process.queue_ns", s.hungry.value, "threads",
			say("standstill.generator-starved", with{"threads": s.hungry.value})))
		return out
	}
	if capacity, _ := f.cpu.server.capacity(); !free || capacity.known && s.cores.value > idleMost*capacity.value {
		return out // it was working, perhaps collecting garbage
	}
	out.answer = matched
	out.because = just("standstill", with{"total_ns": s.ns, "window_s": f.base.run.WindowS(), "times": s.count})
	return out
}

// fewSlots reports whether there are hardly more requests than CPUs to work on them, so that none
// waits long for another.
func (f *cpuFacts) fewSlots() bool {
	cores := max(len(f.server.cpus), len(f.generator.cpus))
	return !f.base.open && cores > 0 && f.base.slots <= fewPerCore*float64(cores)
}
