package plan

import (
	"ceiling/internal/hist"
	"ceiling/record"
)

// responseTimes are those of the requests of some runs that ended, and how long the others had
// waited for a response.
type responseTimes struct {
	ended hist.Hist
	record.Unanswered
}

// add adds a run's; false if it has none, or none that can be read.
func (t *responseTimes) add(ended *hist.Hist, waiting *record.Waiting) bool {
	if ended == nil {
		return false
	}
	if waiting != nil { // of most runs none waits, and an empty histogram has 59 KB
		u, err := waiting.Times()
		if err != nil {
			return false
		}
		t.Waiting.Merge(&u.Waiting)
		t.TimedOut += u.TimedOut
	}
	t.ended.Merge(ended)
	return true
}

// timesOf returns those of all runs; false if one has none.
func timesOf(runs ...*record.Measured) (*responseTimes, bool) {
	all := new(responseTimes)
	for _, m := range runs {
		if !all.add(m.Histogram, m.Waiting) {
			return nil, false
		}
	}
	return all, true
}

// quantile returns the quantile q, and whether it is a lower bound.
func (t *responseTimes) quantile(q float64) (ns int64, bound bool) {
	return record.AtLeast(&t.ended, &t.Unanswered, q)
}

// mean does the same for the mean.
func (t *responseTimes) mean() (ns float64, bound bool) {
	q := record.QuantilesOf(&t.ended)
	return q.MeanWith(&record.Waited{Count: t.Waiting.Count(), MeanNs: t.Waiting.Mean(), TimedOut: t.TimedOut})
}

func (t *responseTimes) quantiles() record.Quantiles { return record.Bounded(&t.ended, &t.Unanswered) }

// over returns how many took, or had waited for, longer than a limit, and how many there are. Those
// that timed out are over any limit.
func (t *responseTimes) over(ns int64) (over, all uint64) {
	all = t.ended.Count() + t.Waiting.Count()
	return max(all-t.ended.CountAtMost(ns)-t.Waiting.CountAtMost(ns), t.TimedOut), all
}

// left returns the requests without a response, as a run has them.
func (t *responseTimes) left() *record.Waiting {
	return &record.Waiting{Response: record.WaitedOf(&t.Unanswered)}
}
