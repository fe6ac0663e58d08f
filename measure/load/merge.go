package load

import "math"

// rowMerger merges the tallies of several parts (the workers of an engine, or the agents of a run)
// into rows. It closes a row at a time that every part has reached, so that no row lacks a part.
type rowMerger struct {
	keep    int        // most tallies of one part that may wait for another
	pending [][]*Tally // by part: delivered, not yet part of a row
	ended   []bool     // parts that deliver nothing more
	row     *Tally
	taken   func(id int, t *Tally) // called with each part's share of a row
	free    func(id int, t *Tally) // called to return each tally
	closed  func(row *Tally)       // called with each row
}

// newRowMerger returns a rowMerger of so many parts.
func newRowMerger(parts, keep, targets int) *rowMerger {
	return &rowMerger{keep: keep, pending: make([][]*Tally, parts), ended: make([]bool, parts), row: newTally(targets)}
}

// add adds a part's tally, if not nil, and closes every row that it can.
func (c *rowMerger) add(id int, t *Tally) {
	if t != nil {
		c.pending[id] = append(c.pending[id], t)
		c.coalesce(id)
	}
	for c.closeRow() {
	}
}

// end marks that a part delivers nothing more.
func (c *rowMerger) end(id int, t *Tally) {
	c.ended[id] = true
	c.add(id, t)
}

// coalesce bounds the pending tallies of a part that is ahead of another. A worker has only a few:
// without a free one it could deliver nothing, and no row would end while the merger waits for the
// other to catch up. It merges the two oldest neighbours, which makes a wider row: merging any two
// could make the wide tallies of several parts overlap in a chain that no row ends.
func (c *rowMerger) coalesce(id int) {
	p := c.pending[id]
	if len(p) <= c.keep {
		return
	}
	k := 0
	if p[0].Warmup != p[1].Warmup {
		k = 1 // of three neighbours two belong together
	}
	p[k].extend(p[k+1])
	c.free(id, p[k+1])
	c.pending[id] = append(p[:k+1], p[k+2:]...)
}

// closeRow merges one row, if there is one.
func (c *rowMerger) closeRow() bool {
	at, ok := c.boundary()
	if !ok {
		return false
	}
	c.row.clear()
	begun := false
	for id := range c.pending {
		part := c.part(id, at)
		if part == nil {
			continue
		}
		if !begun {
			c.row.StartNs, c.row.EndNs, c.row.Warmup, begun = part.StartNs, part.EndNs, part.Warmup, true
		}
		c.row.StartNs, c.row.EndNs = min(c.row.StartNs, part.StartNs), max(c.row.EndNs, part.EndNs)
		c.row.add(part)
		c.taken(id, part)
		c.free(id, part)
	}
	if begun && c.row.EndNs > c.row.StartNs {
		c.closed(c.row)
	}
	return begun
}

// part returns what a part did up to at: one tally, or nil.
func (c *rowMerger) part(id int, at int64) *Tally {
	p := c.pending[id]
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
		c.free(id, t)
	}
	c.pending[id] = p[:copy(p, p[n:])]
	return first
}

// boundary returns the earliest time at which a row can be closed: every part has delivered up to
// it and none across it. Parts end their tallies at the same times, so it is the end of the widest
// of the oldest tallies, or of one that crosses that. No tally crosses the window's opening, so no
// row does.
func (c *rowMerger) boundary() (at int64, ok bool) {
	at = math.MinInt64
	for id, p := range c.pending {
		if len(p) > 0 {
			at, ok = max(at, p[0].EndNs), true
		} else if !c.ended[id] {
			return 0, false
		}
	}
	for moved := true; moved; {
		moved = false
		for id, p := range c.pending {
			k := 0
			for k < len(p) && p[k].EndNs < at {
				k++
			}
			switch {
			case k == len(p) && !c.ended[id]:
				return 0, false
			case k < len(p) && p[k].EndNs > at && p[k].StartNs < at:
				at, moved = p[k].EndNs, true
			}
		}
	}
	return at, ok
}

// isLate reports whether a row is wider than it should be.
func isLate(row *Tally, intervalNs int64) bool { return row.EndNs-row.StartNs > intervalNs*3/2 }
