package plan

import (
	"ceiling/internal/hist"
	"ceiling/record"
)

// responseTimes are those of the requests of some runs that ended, and how long the others had
// waited for a response.
type responseTimes struct{ ended, waiting hist.Hist }

// add adds a run's; false if it has none, or none that can be read.
func (t *responseTimes) add(ended *hist.Hist, waiting *record.Waiting) bool {
	if ended == nil {
		return false
	}
	w, err := waiting.Times()
	if err != nil {
		return false
	}
	t.ended.Merge(ended)
	t.waiting.Merge(w)
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
	return record.AtLeast(&t.ended, &t.waiting, q)
}

// mean does the same for the mean.
func (t *responseTimes) mean() (ns float64, bound bool) {
	q := record.QuantilesOf(&t.ended)
	return q.MeanWith(&record.Waited{Count: t.waiting.Count(), MeanNs: t.waiting.Mean()})
}

func (t *responseTimes) quantiles() record.Quantiles { return record.Bounded(&t.ended, &t.waiting) }

// over returns how many took, or had waited for, longer than a limit, and how many there are.
func (t *responseTimes) over(ns int64) (over, all uint64) {
	all = t.ended.Count() + t.waiting.Count()
	return all - t.ended.CountAtMost(ns) - t.waiting.CountAtMost(ns), all
}

// left returns the requests without a response, as a run has them.
func (t *responseTimes) left() *record.Waiting {
	return &record.Waiting{Response: record.WaitedOf(&t.waiting)}
}
