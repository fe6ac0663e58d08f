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
	observed []record.ObservedRow
	// before is what does not age: the beginning of the load, and which
	// processes were found.
	firstLoad []record.LoadRow
	before    []record.ObservedRow
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
		r.load = prune(r.load, func(l *record.LoadRow) bool { return l.TNs > r.latestNs-keepNs })
	}
}

// addAgent keeps a row of one of several agents.
func (r *rows) addAgent(row *record.LoadRow) {
	r.agents = append(r.agents, *row)
	if r.agents[0].TNs < r.latestNs-2*keepNs || len(r.agents) > 2*rowsMost {
		r.agents = prune(r.agents, func(l *record.LoadRow) bool { return l.TNs > r.latestNs-keepNs })
	}
}

// addObserved keeps a row, which has to be the caller's no longer.
func (r *rows) addObserved(row record.ObservedRow) {
	head := row.Observed()
	r.latestNs = max(r.latestNs, head.TNs)
	if _, found := row.(*record.SubjectRow); found || head.TNs < 0 {
		if len(r.before) < rowsMost {
			r.before = append(r.before, row)
		}
		return
	}
	r.observed = append(r.observed, row)
	if r.observed[0].Observed().TNs < r.latestNs-2*keepNs || len(r.observed) > 2*rowsMost {
		r.observed = prune(r.observed, func(o *record.ObservedRow) bool { return (*o).Observed().TNs > r.latestNs-keepNs })
	}
}

// prune makes a new list of the rows to keep, at most rowsMost, the latest.
func prune[T any](list []T, keep func(*T) bool) []T {
	from := slices.IndexFunc(list, func(row T) bool { return keep(&row) })
	if from < 0 {
		from = len(list)
	}
	return slices.Clone(list[max(from, len(list)-rowsMost):])
}

// since are the observed rows of one kind that end after a time.
func since[R record.ObservedRow](r *rows, ns int64) []R {
	var list []R
	for i := len(r.observed) - 1; i >= 0; i-- {
		if r.observed[i].Observed().TNs <= ns-slackNs {
			break
		}
		if row, ok := r.observed[i].(R); ok && row.Observed().TNs > ns {
			list = append(list, row)
		}
	}
	return list
}

// slackNs is how far the rows of different kinds may be out of order.
const slackNs = 1e9
