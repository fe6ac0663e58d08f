package verdict

import (
	"cmp"
	"slices"

	"ceiling/record"
)

// observed returns the rows of one kind that belong to the window, in time order.
func observed[R record.ObservedRow](f *runFacts, rows []R) []R { return chosen(rows, f.run.InWindow) }

// ours is observed for the run's own hosts: those of the server and the generator.
func ours[R record.ObservedRow](f *cpuFacts, rows []R) []R {
	return slices.DeleteFunc(observed(f.base, rows), func(row R) bool { return !f.isOurs(row.Observed().Host) })
}

// setup returns the rows of one kind of the run's own hosts from before the window opened.
func setup[R record.ObservedRow](f *cpuFacts, rows []R) []R {
	return chosen(rows, func(h *record.ObservedHead) bool {
		return h.WidthNs >= 0 && h.TNs-h.WidthNs/2 < 0 && f.isOurs(h.Host)
	})
}

func (f *cpuFacts) isOurs(host string) bool {
	if f.server.subject.known && host == f.server.subject.host {
		return true
	}
	for _, a := range f.generator.agents {
		if a.cpu.generator.agent == host {
			return true
		}
	}
	return len(f.generator.agents) == 0 && host == f.generator.homeHost
}

// chosen returns the selected rows in time order. Rows of one moment (several processes or
// interfaces in one sample) keep their order; rows of several hosts are written as they arrive,
// and that order must not matter.
func chosen[R record.ObservedRow](rows []R, choose func(*record.ObservedHead) bool) []R {
	var list []R
	for _, row := range rows {
		if choose(row.Observed()) {
			list = append(list, row)
		}
	}
	slices.SortStableFunc(list, func(a, b R) int {
		x, y := a.Observed(), b.Observed()
		return cmp.Or(cmp.Compare(x.TNs, y.TNs), cmp.Compare(x.WidthNs, y.WidthNs), cmp.Compare(x.Host, y.Host))
	})
	return list
}
