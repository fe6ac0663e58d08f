package load

// take accepts what a worker delivers and turns it into rows: a row is closed
// at a time that every worker has reached, so that it never lacks one of them.
func (r *coordinator) take(d delivery) {
	if d.report != nil {
		d.report.Completed = r.result.Workers[d.worker].Completed
		r.result.Workers[d.worker] = *d.report
		r.result.Engine, r.result.EngineWhy, r.result.EngineFeatures = d.report.engine, d.report.why, d.report.features
	}
	if d.tally != nil {
		r.pending[d.worker] = append(r.pending[d.worker], d.tally)
		r.condense(d.worker)
	}
	for r.closeRow() {
	}
}

// condense keeps a worker that is ahead of another from running out of tallies:
// then it could deliver nothing, and if the other waits to be caught up with, no
// row would ever end. Two neighbours become one, and the row a wider one.
func (r *coordinator) condense(id int) {
	p := r.pending[id]
	if len(p) < spareTallies-1 {
		return
	}
	k := 0
	if p[0].Warmup != p[1].Warmup {
		k = 1 // of three neighbours two belong together
	}
	p[k].extend(p[k+1])
	r.giveBack(id, p[k+1])
	r.pending[id] = append(p[:k+1], p[k+2:]...)
}

func (r *coordinator) giveBack(id int, t *Tally) {
	select {
	case r.free[id] <- t:
	default: // one more than there should be, or the worker has ended
	}
}

// closeRow merges one row if there is one.
func (r *coordinator) closeRow() bool {
	at, ok := r.boundary()
	if !ok {
		return false
	}
	r.row.clear()
	begun := false
	for id := range r.pending {
		part := r.part(id, at)
		if part == nil {
			continue
		}
		if !begun {
			r.row.StartNs, r.row.EndNs, r.row.Warmup, begun = part.StartNs, part.EndNs, part.Warmup, true
		}
		r.row.StartNs, r.row.EndNs = min(r.row.StartNs, part.StartNs), max(r.row.EndNs, part.EndNs)
		r.addPart(id, part)
		r.giveBack(id, part)
	}
	if begun && r.row.EndNs > r.row.StartNs && r.startNs.Load() > 0 {
		late := r.row.EndNs-r.row.StartNs > int64(r.Interval)*3/2
		r.row.StartNs -= r.openNs()
		r.row.EndNs -= r.openNs()
		r.observer.Interval(r.row, late)
	}
	return begun
}

// openNs is when the window opens on the run's clock, once that is known.
func (r *coordinator) openNs() int64 { return r.startNs.Load() + int64(r.Warmup) }

// part takes what a worker did up to at: one tally, or nil.
func (r *coordinator) part(id int, at int64) *Tally {
	p := r.pending[id]
	n := 0
	for n < len(p) && p[n].EndNs <= at {
		n++
	}
	if n == 0 {
		return nil
	}
	first := p[0]
	for _, t := range p[1:n] {
		first.extend(t)
		r.giveBack(id, t)
	}
	r.pending[id] = p[:copy(p, p[n:])]
	return first
}

func (r *coordinator) addPart(id int, t *Tally) {
	r.row.add(t)
	if t.Warmup {
		for f, n := range t.Faults {
			r.result.Setup[f] += n
		}
		return
	}
	total := &r.result.Total
	total.count(t)
	total.CPUNs, total.Busy = max(total.CPUNs, t.CPUNs), max(total.Busy, t.Busy)
	r.result.Workers[id].Completed += t.Completed
}

// boundary is the earliest time at which a row can be closed: every worker has
// delivered up to it and none across it. Workers end their tallies at the same
// times, so it is the end of the widest of the oldest, or of one that lies
// across that. No tally lies across the window's opening, so no row does.
func (r *coordinator) boundary() (int64, bool) {
	at := int64(0)
	for id, p := range r.pending {
		if len(p) > 0 {
			at = max(at, p[0].EndNs)
		} else if !r.ended[id] {
			return 0, false
		}
	}
	for moved := true; moved; {
		moved = false
		for id, p := range r.pending {
			k := 0
			for k < len(p) && p[k].EndNs < at {
				k++
			}
			switch {
			case k == len(p) && !r.ended[id]:
				return 0, false
			case k < len(p) && p[k].EndNs > at && p[k].StartNs < at:
				at, moved = p[k].EndNs, true
			}
		}
	}
	return at, at > 0
}
