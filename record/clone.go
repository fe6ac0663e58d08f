package record

import "slices"

// Clone copies a row, because an observer reuses its row for the next sample.
func Clone(row ObservedRow) ObservedRow {
	switch r := row.(type) {
	case *CPURow:
		c := *r
		c.Cores, c.Came, c.Went = slices.Clone(r.Cores), slices.Clone(r.Came), slices.Clone(r.Went)
		return &c
	case *SubjectRow:
		c := *r
		c.Listeners = slices.Clone(r.Listeners)
		return &c
	case *ProcessRow:
		c := *r
		c.Busiest, c.Waits = slices.Clone(r.Busiest), slices.Clone(r.Waits)
		return &c
	case *ListenerRow:
		c := *r
		c.Listeners, c.Connections = slices.Clone(r.Listeners), slices.Clone(r.Connections)
		for i := range c.Listeners {
			c.Listeners[i].PIDs = slices.Clone(c.Listeners[i].PIDs)
		}
		return &c
	case *NeighboursRow:
		return &NeighboursRow{ObservedHead: r.ObservedHead, Neighbours: slices.Clone(r.Neighbours), MoreNs: r.MoreNs}
	case *PeersRow:
		c := *r
		c.Peers = slices.Clone(r.Peers)
		return &c
	case *SoftnetRow:
		c := *r
		c.CPUs = slices.Clone(r.CPUs)
		return &c
	case *TimesRow:
		return r.clone()
	case *SocketsRow:
		return copied(r)
	case *TCPInfoRow:
		return copied(r)
	case *TCPRow:
		return copied(r)
	case *NetDevRow:
		return copied(r)
	case *PSIRow:
		return copied(r)
	case *DiskRow:
		return r.clone()
	case *TitlesRow:
		return r.clone()
	case *ThrottleRow:
		return copied(r)
	case *FreqRow:
		return copied(r)
	case *SoftirqRow:
		return r.clone()
	case *IRQRow:
		return r.clone()
	case *NICRow:
		return r.clone()
	case *StatusRow:
		return copied(r)
	case *DatabaseRow:
		c := *r
		c.Waits, c.Locks = slices.Clone(r.Waits), slices.Clone(r.Locks)
		return &c
	case *ObserverRow:
		c := *r
		c.Sources = slices.Clone(r.Sources)
		return &c
	}
	return nil
}

func (r *TimesRow) clone() *TimesRow {
	c := *r
	c.Places = slices.Clone(r.Places)
	for i := range c.Places {
		c.Places[i].Hist = slices.Clone(c.Places[i].Hist)
	}
	return &c
}

func (r *IRQRow) clone() *IRQRow {
	c := *r
	c.Lines = slices.Clone(r.Lines)
	for i := range c.Lines {
		c.Lines[i].CPUs = slices.Clone(c.Lines[i].CPUs)
	}
	return &c
}

func (r *SoftirqRow) clone() *SoftirqRow {
	c := *r
	c.CPUs = slices.Clone(r.CPUs)
	return &c
}

func (r *NICRow) clone() *NICRow {
	c := *r
	c.Counters = slices.Clone(r.Counters)
	return &c
}

func (r *DiskRow) clone() *DiskRow {
	c := *r
	c.PIDs = slices.Clone(r.PIDs)
	return &c
}

func (r *TitlesRow) clone() *TitlesRow {
	c := *r
	c.Commands = slices.Clone(r.Commands)
	return &c
}

// copied copies a row without lists.
func copied[T any](r *T) *T {
	c := *r
	return &c
}
