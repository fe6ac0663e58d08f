package load

// tick ends an interval: the tally goes to the coordinator and an empty one takes its place. The
// interval ends when it should have, whenever this runs: all that it counts was dated before, and
// what follows is dated later. So the intervals of all workers end at the same times and their
// widths add up; after a stall the next one is wider. If no tally is free the coordinator is
// behind, and the interval gets longer.
func (w *worker) tick() {
	end := min(w.tickNs, w.endNs)
	for w.tickNs <= w.now {
		w.tickNs += int64(w.shared.Interval)
	}
	select {
	case next := <-w.free:
		w.handOver(end, next)
	default:
	}
}

// cutAt ends the tally at a time that no interval may cross.
func (w *worker) cutAt(endNs int64) {
	if endNs > w.tally.StartNs {
		w.handOver(endNs, w.spare())
	}
}

// spare returns a free tally, or a new one if the coordinator is behind.
func (w *worker) spare() *Tally {
	select {
	case t := <-w.free:
		return t
	default:
		return newTally(len(w.shared.Mix))
	}
}

// handOver delivers the tally up to endNs, and continues with next.
func (w *worker) handOver(endNs int64, next *Tally) {
	w.fill(w.now) // date each request in the tally that counts it
	w.close(endNs)
	w.tune()
	w.handedOver += w.tally.Completed
	w.out <- delivery{worker: w.id, tally: w.tally}
	warm := w.tally.Warmup
	next.clear()
	next.StartNs, next.Warmup = endNs, warm
	w.tally = next
}

// close fills in what is known at the end of the tally. Its CPU share is over the time between two
// readings, which a late end does not lengthen.
func (w *worker) close(endNs int64) {
	t := w.tally
	w.countLag(0, 0)
	t.EndNs = max(endNs, t.StartNs)
	t.InFlight = uint64(w.inFlight)
	t.Connected = w.connected
	w.gathering.note(t)
	if w.phase >= starting && w.phase < draining {
		t.Behind = w.behindNow()
	}
	cpu, now := cpuUsed(&w.shared.Config), w.clock()
	t.CPUNs = cpu - w.cpuNs
	if past := now - w.cpuAtNs; past > 0 {
		t.Busy = busyFor(&w.shared.Config, t.CPUNs, past)
	}
	if w.feeder != nil {
		w.feeder.charge(t, now-w.cpuAtNs)
	}
	w.cpuNs, w.cpuAtNs = cpu, now
}

// behindNow estimates the backlog without a walk: the time since the next request was due, at this
// worker's rate.
func (w *worker) behindNow() uint64 {
	if !w.openLoop || w.nextDue > w.now {
		return 0
	}
	rate := perNs(w.shared.schedule.from)
	if w.phase >= measuring {
		rate = w.shared.schedule.perNsAt(w.nextDue - w.windowNs)
	}
	return uint64(float64(w.now-w.nextDue)*rate*w.shared.Share.Fraction()/float64(w.shared.Threads)) + 1
}
