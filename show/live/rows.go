package live

import (
	"slices"

	"ceiling/record"
)

// keepNs is how far back the rows are kept from which a verdict is formed. To
// form one over 20 s takes 5 ms of CPU, over a minute 15 ms (2 cores, 105 rows a
// second): that would be felt by what is measured.
const keepNs = 20e9

// firstNs is how much of the beginning is kept besides: whether requests queue
// shows in the first answers (verdict: crowdFacts).
const firstNs = 2e9

// rowsMost bounds the rows of either kind: 20 s of a host that writes 1500 a
// second, fifteen times the usual.
const rowsMost = 30000

// rows are those of one run that a verdict is formed from. A row that is in
// here is never changed, so a copy of the lists may be read while others are
// added.
type rows struct {
	load     []record.LoadRow
	agents   []record.LoadRow // of several, each its own
	observed record.ObservedRows
	kept     int   // of these
	prunedNs int64 // up to when they were pruned
	// before is what does not age: the beginning of the load, and which
	// processes were found.
	firstLoad []record.LoadRow
	before    record.ObservedRows
	befores   int
	lost      []record.NotMeasured
	latestNs  int64
}

func (r *rows) addLoad(row *record.LoadRow) {
	r.latestNs = max(r.latestNs, row.TNs)
	if row.TNs < firstNs && len(r.firstLoad) < rowsMost {
		r.firstLoad = append(r.firstLoad, *row)
	}
	r.load = append(r.load, *row)
	if r.load[0].TNs < r.latestNs-2*keepNs || len(r.load) > 2*rowsMost {
		r.load = pruned(r.load, func(l *record.LoadRow) bool { return l.TNs > r.latestNs-keepNs })
	}
}

// addAgent keeps a row of one of several agents.
func (r *rows) addAgent(row *record.LoadRow) {
	r.agents = append(r.agents, *row)
	if r.agents[0].TNs < r.latestNs-2*keepNs || len(r.agents) > 2*rowsMost {
		r.agents = pruned(r.agents, func(l *record.LoadRow) bool { return l.TNs > r.latestNs-keepNs })
	}
}

// addObserved keeps a row, which has to be the caller's no longer.
func (r *rows) addObserved(row record.ObservedRow) {
	head := row.Observed()
	r.latestNs = max(r.latestNs, head.TNs)
	if head.Kind == record.KindSubject || head.TNs < 0 {
		if r.befores < rowsMost {
			r.befores++
			r.before.Add(row)
		}
		return
	}
	r.observed.Add(row)
	if r.kept++; r.kept > 2*rowsMost || head.TNs > r.prunedNs+2*keepNs {
		r.prune()
	}
}

// prune leaves the rows of keepNs, and of less where they are more than rowsMost.
func (r *rows) prune() {
	for ns := int64(keepNs); ns > slackNs; ns /= 2 {
		r.observed.Retain(func(o record.ObservedRow) bool { return o.Observed().TNs > r.latestNs-ns })
		if r.kept = r.observed.Len(); r.kept <= rowsMost {
			break
		}
	}
	r.prunedNs = r.latestNs - keepNs
}

// pruned is a new list of the rows to keep, at most rowsMost, the latest.
func pruned[T any](list []T, keep func(*T) bool) []T {
	from := slices.IndexFunc(list, func(row T) bool { return keep(&row) })
	if from < 0 {
		from = len(list)
	}
	return slices.Clone(list[max(from, len(list)-rowsMost):])
}

// since are the rows that end after a time.
func since[R record.ObservedRow](rows []R, ns int64) []R {
	var list []R
	for i := len(rows) - 1; i >= 0 && rows[i].Observed().TNs > ns-slackNs; i-- {
		if rows[i].Observed().TNs > ns {
			list = append(list, rows[i])
		}
	}
	return list
}

// slackNs is how far rows may be out of order.
const slackNs = 1e9
