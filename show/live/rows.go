package live

import (
	"math"
	"slices"

	"ceiling/record"
)

// keepNs is how long rows are kept for forming a verdict. Forming one over 20 s takes 5 ms of
// CPU, over a minute 15 ms (2 cores, 105 rows a second), which would disturb the measurement.
const keepNs = 20e9

// firstNs is how much of the beginning is kept in addition: the first responses show whether
// requests queue (verdict: crowdFacts).
const firstNs = 2e9

// rowsMost limits the rows of either kind: 20 s of a host that writes 1500 a second, fifteen
// times the usual.
const rowsMost = 30000

// rows are the rows of one run that a verdict is formed from. Rows are immutable, so a copy of
// the lists can be read while others are added.
type rows struct {
	load     []record.LoadRow
	agents   []record.LoadRow // rows of all agents, if there are several
	observed record.ObservedRows
	kept     int   // number of rows kept
	prunedNs int64 // pruned up to this time
	// before does not expire: the start of the load, and the processes found.
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

// addAgent adds a row of one of several agents.
func (r *rows) addAgent(row *record.LoadRow) {
	r.agents = append(r.agents, *row)
	if r.agents[0].TNs < r.latestNs-2*keepNs || len(r.agents) > 2*rowsMost {
		r.agents = pruned(r.agents, func(l *record.LoadRow) bool { return l.TNs > r.latestNs-keepNs })
	}
}

// addObserved adds a row, whose ownership passes to rows.
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

// prune keeps the rows of the last keepNs, and at most rowsMost.
func (r *rows) prune() {
	for ns := int64(keepNs); ns > slackNs; ns /= 2 {
		r.observed.Window(r.latestNs-ns, math.MaxInt64, 0)
		if r.kept = r.observed.Len(); r.kept <= rowsMost {
			break
		}
	}
	r.prunedNs = r.latestNs - keepNs
}

// pruned returns a new list of the rows to keep: the latest, at most rowsMost.
func pruned[T any](list []T, keep func(*T) bool) []T {
	from := slices.IndexFunc(list, func(row T) bool { return keep(&row) })
	if from < 0 {
		from = len(list)
	}
	return slices.Clone(list[max(from, len(list)-rowsMost):])
}

// since returns the rows that end after a time.
func since[R record.ObservedRow](rows []R, ns int64) []R {
	var list []R
	for i := len(rows) - 1; i >= 0 && rows[i].Observed().TNs > ns-slackNs; i-- {
		if rows[i].Observed().TNs > ns {
			list = append(list, rows[i])
		}
	}
	return list
}

// slackNs is how far out of order rows may be.
const slackNs = 1e9
