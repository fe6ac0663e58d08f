package proxy

const (
	wheelSlots = 512
	// tickNs is the width of a slot and the error of a deadline: 64 ms, in a
	// round of 33 s.
	tickNs = 64 << 20
)

// wheel finds the connections whose deadline has passed. A connection has at most one valid
// entry. Extending a deadline only stores it: when its slot comes up, the entry moves on. So a
// request costs the wheel nothing.
type wheel struct {
	slots [wheelSlots][]timed
	at    int64 // tick up to which it was turned
}

type timed struct{ index, generation uint32 }

func (w *wheel) set(c *conn) {
	tick := min(c.deadline/tickNs+1, w.at+wheelSlots-1)
	tick = max(tick, w.at+1)
	if c.checkAt != 0 && c.checkAt <= tick {
		return
	}
	c.checkAt = tick
	slot := &w.slots[tick%wheelSlots]
	*slot = append(*slot, timed{c.index, c.generation})
}

// turn calls expired for everything due by now.
func (w *wheel) turn(l *loop, now int64) {
	for end := now / tickNs; w.at < end; {
		w.at++
		slot := &w.slots[w.at%wheelSlots]
		list := *slot
		*slot = list[:0] // entries added now go to other slots
		for _, t := range list {
			c := l.connAt(t.index, t.generation)
			if c == nil || c.checkAt != w.at {
				continue
			}
			c.checkAt = 0
			switch {
			case c.deadline == 0:
			case c.deadline <= now:
				c.deadline = 0
				c.owner.expired()
			default:
				w.set(c)
			}
		}
	}
}
