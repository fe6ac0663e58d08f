package plan

import (
	"math"

	"ceiling/internal/hist"
	"ceiling/record"
)

// responseTimes are those of the requests of some runs that ended, and how long the others had
// waited for a response. A histogram has 59 KB: none is made that is not needed.
type responseTimes struct {
	runs    int
	ended   *hist.Hist         // of the first run, until another comes
	waiting *record.Unanswered // nil: none waits, as in most runs
}

// add adds a run's; false if it has none, or none that can be read.
func (t *responseTimes) add(ended *hist.Hist, waiting *record.Waiting) bool {
	if ended == nil {
		return false
	}
	if waiting != nil {
		u, err := waiting.Times()
		if err != nil {
			return false
		}
		t.waiting = t.unanswered()
		t.waiting.Waiting.Merge(&u.Waiting)
		t.waiting.TimedOut += u.TimedOut
	}
	switch t.runs++; t.runs {
	case 1:
		t.ended = ended
	case 2:
		both := *t.ended
		t.ended = &both
		fallthrough
	default:
		t.ended.Merge(ended)
	}
	return true
}

func (t *responseTimes) unanswered() *record.Unanswered {
	if t.waiting == nil {
		return new(record.Unanswered)
	}
	return t.waiting
}

// answered returns the times of the requests that ended.
func (t *responseTimes) answered() *hist.Hist {
	if t.ended == nil {
		return new(hist.Hist)
	}
	return t.ended
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

// sent returns how many requests there are.
func (t *responseTimes) sent() uint64 {
	_, all := t.over(0)
	return all
}

// quantile returns the quantile q, and whether it is a lower bound.
func (t *responseTimes) quantile(q float64) (ns int64, bound bool) {
	if t.waiting == nil {
		return t.answered().Quantile(q), false
	}
	return record.AtLeast(t.answered(), t.waiting, q)
}

// mean does the same for the mean.
func (t *responseTimes) mean() (ns float64, bound bool) {
	q, u := record.QuantilesOf(t.answered()), t.unanswered()
	return q.MeanWith(&record.Waited{Count: u.Waiting.Count(), MeanNs: u.Waiting.Mean(), TimedOut: u.TimedOut})
}

func (t *responseTimes) quantiles() record.Quantiles {
	return record.Bounded(t.answered(), t.unanswered())
}

// over returns how many took, or had waited for, longer than a limit, and how many there are. Those
// that timed out are over any limit.
func (t *responseTimes) over(ns int64) (over, all uint64) {
	ended, u := t.answered(), t.unanswered()
	all = ended.Count() + u.Waiting.Count()
	return max(all-ended.CountAtMost(ns)-u.Waiting.CountAtMost(ns), u.TimedOut), all
}

// left returns the requests without a response, as a run has them.
func (t *responseTimes) left() *record.Waiting {
	return &record.Waiting{Response: record.WaitedOf(t.unanswered())}
}

// AtLeast returns a lower bound of a quantile of a run's response times, in nanoseconds, had the
// run continued to expected requests in total: it holds even if every remaining request had been
// faster than those measured before the run was stopped. It returns 0 if too little was measured.
func AtLeast(q float64, measured *hist.Hist, expected float64) int64 {
	n := float64(measured.Count())
	// At most that many may be slower than the quantile, whose rank is ceil(q·n).
	above := math.Max(expected, n) * (1 - q)
	if above >= n {
		return 0
	}
	return measured.Quantile((n - math.Floor(above)) / n)
}
