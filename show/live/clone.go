package live

import (
	"slices"

	"ceiling/record"
)

// clone makes a row one's own: the observers use theirs again for the next
// sample. A kind that no snapshot or verdict reads has none.
func clone(row record.ObservedRow) record.ObservedRow {
	switch r := row.(type) {
	case *record.CPURow:
		c := *r
		c.Cores, c.Came, c.Went = slices.Clone(r.Cores), slices.Clone(r.Came), slices.Clone(r.Went)
		return &c
	case *record.SubjectRow:
		c := *r
		c.Listeners = slices.Clone(r.Listeners)
		return &c
	case *record.ProcessRow:
		c := *r
		c.Busiest, c.Waits = slices.Clone(r.Busiest), slices.Clone(r.Waits)
		return &c
	case *record.ListenerRow:
		c := *r
		c.Listeners, c.Connections = slices.Clone(r.Listeners), slices.Clone(r.Connections)
		for i := range c.Listeners {
			c.Listeners[i].PIDs = slices.Clone(c.Listeners[i].PIDs)
		}
		return &c
	case *record.NeighboursRow:
		return &record.NeighboursRow{ObservedHead: r.ObservedHead, Neighbours: slices.Clone(r.Neighbours), MoreNs: r.MoreNs}
	case *record.PeersRow:
		c := *r
		c.Peers = slices.Clone(r.Peers)
		return &c
	case *record.SoftnetRow:
		c := *r
		c.CPUs = slices.Clone(r.CPUs)
		return &c
	case *record.TimesRow:
		c := *r
		c.Places = slices.Clone(r.Places)
		for i := range c.Places {
			c.Places[i].Hist = slices.Clone(c.Places[i].Hist)
		}
		return &c
	case *record.SocketsRow:
		return copied(r)
	case *record.TCPInfoRow:
		return copied(r)
	case *record.TCPRow:
		return copied(r)
	case *record.NetDevRow:
		return copied(r)
	case *record.PSIRow:
		return copied(r)
	case *record.ThrottleRow:
		return copied(r)
	case *record.FreqRow:
		return copied(r)
	case *record.SoftirqRow:
		c := *r
		c.CPUs = slices.Clone(r.CPUs)
		return &c
	case *record.IRQRow:
		c := *r
		c.Lines = slices.Clone(r.Lines)
		for i := range c.Lines {
			c.Lines[i].CPUs = slices.Clone(c.Lines[i].CPUs)
		}
		return &c
	case *record.ObserverRow:
		c := *r
		c.Sources = slices.Clone(r.Sources)
		return &c
	}
	return nil
}

// copied is a row without lists.
func copied[T any](r *T) *T {
	c := *r
	return &c
}
