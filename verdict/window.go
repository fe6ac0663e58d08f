package verdict

import (
	"bytes"
	"cmp"
	"encoding/json"
	"slices"

	"ceiling/record"
)

// observed is the rows of one kind that belong to the window, in the order of
// time. Rows are picked by their middle, so that one which straddles an edge
// counts where most of it lies; gauges are points and count where they stand.
//
// The order is a function of the rows alone, so a record whose rows were
// written in another order is judged the same.
func observed[R record.ObservedRow](f *facts, series *record.Series) []R {
	if series == nil {
		return nil
	}
	end := f.endNs()
	return sorted(slices.DeleteFunc(record.Of[R](series), func(row R) bool {
		h := row.Observed()
		middle := h.TNs - h.WidthNs/2
		return h.WidthNs < 0 || middle < 0 || middle > end
	}))
}

// ours is observed for the run's own hosts: those of the server and of the
// generator.
func ours[R record.ObservedRow](f *facts, series *record.Series) []R {
	return slices.DeleteFunc(observed[R](f, series), func(row R) bool { return !f.isOurs(row.Observed().Host) })
}

// setup is the rows of one kind of the run's own hosts from before the window
// opened.
func setup[R record.ObservedRow](f *facts, series *record.Series) []R {
	if series == nil {
		return nil
	}
	return sorted(slices.DeleteFunc(record.Of[R](series), func(row R) bool {
		h := row.Observed()
		return h.WidthNs < 0 || h.TNs-h.WidthNs/2 >= 0 || !f.isOurs(h.Host)
	}))
}

func (f *facts) isOurs(host string) bool {
	if f.subject.known && host == f.subject.host {
		return true
	}
	for _, a := range f.agents {
		if a.agent == host {
			return true
		}
	}
	return len(f.agents) == 0 && host == f.homeHost
}

func sorted[R record.ObservedRow](rows []R) []R {
	slices.SortFunc(rows, func(a, b R) int {
		x, y := a.Observed(), b.Observed()
		if c := cmp.Or(cmp.Compare(x.TNs, y.TNs), cmp.Compare(x.WidthNs, y.WidthNs), cmp.Compare(x.Host, y.Host)); c != 0 {
			return c
		}
		// Rare: several interfaces or processes in one sample.
		return bytes.Compare(text(a), text(b))
	})
	return rows
}

// text is a row as it would be written. A row that cannot be written sorts
// first; nothing else depends on it.
func text(row any) []byte {
	line, err := json.Marshal(row)
	if err != nil {
		return nil
	}
	return line
}
