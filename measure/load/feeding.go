package load

import "errors"

// transmit sends what transmitNow does, with requests from the source.
func (m *feeder) transmit(w *worker, i uint32, c *conn) {
	for c.waiting > 0 && c.state == open && !c.sending {
		n := c.room(w.shared.NewConnections, int(c.waiting))
		if n <= 0 {
			return
		}
		if c.resend > 0 {
			n = min(n, int(c.resend))
		} else if m.taken[i] == 0 {
			if n = min(n, len(m.made)); n == 0 {
				m.starve(i, w.now)
				return
			}
			if n = m.take(w, i, c.next, n); m.taken[i] > 0 {
				redate(w, i, c, m.taken[i])
			}
		} else {
			n = 1
		}
		if m.taken[i] > w.now {
			if !m.listed[i] {
				m.listed[i] = true
				m.late = append(m.late, i)
			}
			return
		}
		m.taken[i] = 0
		b := m.bytesOf(w.shared.script, i, c.next, n)
		c.next = w.shared.script.step(c.next, n)
		w.send(i, c, b)
		w.stamp(i, c, int32(n))
	}
}

// take moves up to n ready requests into the slots of a connection: those up to one that is delayed, or
// that one alone.
func (m *feeder) take(w *worker, i, at uint32, n int) (took int) {
	for ; took < n; took++ {
		r := m.made[0]
		if m.composing.Thinks && w.openLoop {
			r.Delay = 0
		}
		if r.Delay > 0 && took > 0 {
			return took
		}
		*m.place(i, at) = r
		at = w.shared.script.step(at, 1)
		m.made = m.made[1:]
		if r.Delay > 0 {
			m.taken[i] = w.now + int64(r.Delay)
			m.sums.DelayedNs += int64(r.Delay)
			return 1
		}
	}
	return took
}

// redate makes the first waiting request of a connection due at a time: its delay is no part of its
// response time.
func redate(w *worker, i uint32, c *conn, dueNs int64) {
	if w.openLoop {
		return // its schedule says when it is due
	}
	w.cut(i, c, 1)
	q := w.queue(i)
	at := c.head + c.entries
	for left := c.waiting; left > 0; {
		at--
		left -= q[wrap(at, len(q))].n
	}
	q[wrap(at, len(q))].due = dueNs
}

// order asks the source for what is missing, if it has room for an order.
func (m *feeder) order(w *worker) {
	if w.phase == draining {
		return
	}
	want := m.composing.Ahead
	for _, i := range m.hungry {
		want += int(w.conns[i].waiting - w.conns[i].resend)
	}
	n := max(want-m.ordered-len(m.made), 0)
	if n == 0 && len(m.seen) == 0 || m.composing.Ahead > 0 && n < m.composing.Ahead/2 {
		return
	}
	select {
	case m.orders <- composeOrder{m.seen, n}:
		m.ordered += n
		m.seen = nil
	default:
	}
}

// supplied takes what the source has made, and sends it.
func (m *feeder) supplied(w *worker) error {
	for {
		select {
		case b := <-m.batches:
			if b.err != nil {
				return b.err
			}
			m.ordered -= b.n
			m.sums.Requests += uint64(len(b.list))
			m.made = append(m.made, b.list...)
			continue
		default:
		}
		break
	}
	if len(m.made) == 0 {
		return nil
	}
	m.sated(w.now)
	waiting := m.hungry
	m.hungry = nil
	for _, i := range waiting {
		m.listed[i] = false
		w.transmitNow(i, &w.conns[i])
	}
	return nil
}

// turn sends what was delayed until now, and keeps the source busy.
// over: the source has ended the load.
func (m *feeder) turn(w *worker) (over bool, err error) {
	due := m.late
	m.late = nil
	for _, i := range due {
		m.listed[i] = false
		w.transmitNow(i, &w.conns[i])
	}
	err = m.supplied(w)
	m.order(w)
	if errors.Is(err, ErrStopped) {
		w.lastNs = max(w.now, w.windowNs)
		return true, nil
	}
	return false, err
}
