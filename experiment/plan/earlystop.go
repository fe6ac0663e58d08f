package plan

import (
	"fmt"
	"math"
	"time"

	"ceiling/experiment/spec"
	"ceiling/internal/hist"
	"ceiling/internal/unit"
	"ceiling/record"
)

// EarlyStop watches a running step of an open loop and stops it as soon as it cannot meet its SLO
// anymore. It has no threshold to set. There are two ways to fail:
//
//   - certainly: so many requests have been answered too late already, or have
//     failed, or are due and unanswered for longer than the limit, that the term
//     would fail even if every remaining request were answered at once;
//   - almost certainly: the backlog grows (earlystop_trend.go).
//
// An EarlyStop serves one step and one goroutine.
type EarlyStop struct {
	slo    spec.SLO
	perS   float64
	length time.Duration
	// total is the maximum number of requests of the step.
	total float64
	// chance is the largest deviation of the number of due requests from perS × time.
	chance func(expected float64) float64

	lost  []loss
	trend backlog
	// carried is the maximum number of requests in flight when the window opened: they were due
	// before it, so their latencies are outside the window.
	carried      uint64
	carriedKnown bool
	ended        float64
	bad          float64
	sum          float64 // of the response times, nanoseconds
	why          string
}

// loss counts the requests over the limit of one response time term.
type loss struct {
	term spec.Term
	over float64
}

// NewEarlyStop watches a step of the given length at perS requests per second, with arrivals
// spec.Constant or spec.Poisson. It ignores terms of the service time and of the rate. A step
// without rate or length is never stopped.
func NewEarlyStop(slo spec.SLO, perS float64, length time.Duration, arrivals string) *EarlyStop {
	d := &EarlyStop{slo: slo, perS: perS, length: length, chance: func(float64) float64 { return 1 }}
	if arrivals == spec.Poisson {
		// Five deviations, plus five for small numbers: less than one step in a million exceeds
		// it.
		d.chance = func(expected float64) float64 { return 5*math.Sqrt(math.Max(expected, 0)) + 5 }
	}
	expected := perS * length.Seconds()
	d.total = expected + d.chance(expected)
	for _, t := range slo {
		if t.Metric == spec.MetricResponse && t.Quantile != spec.Mean {
			d.lost = append(d.lost, loss{term: t})
		}
	}
	d.trend = newBacklog(slo, perS, length)
	return d
}

// Add adds one interval of the step, with its response times (nil if unknown). Pass the warm-up's
// intervals too: they determine the requests in flight at the start of the window. It returns why
// the step must fail, "" if it need not; once set, the reason stays the same.
func (d *EarlyStop) Add(row *record.LoadRow, response *hist.Hist) (why string) {
	if d.why != "" || row == nil || !(d.perS > 0) || math.IsInf(d.perS, 0) || d.length <= 0 {
		return d.why
	}
	if row.Warmup {
		d.carried, d.carriedKnown = row.InFlight, true
		return ""
	}
	if !d.carriedKnown {
		d.carried, d.carriedKnown = row.InFlight, true
	}
	d.ended += float64(row.Completed) + float64(row.Failed)
	d.bad += float64(row.Bad) + float64(row.Failed)
	for i := range d.lost {
		if l := &d.lost[i]; response != nil {
			l.over += float64(response.Count() - response.CountAtMost(int64(l.term.Limit)))
		}
	}
	if response != nil {
		d.sum += response.Mean() * float64(response.Count())
	}
	if d.why = d.certain(row); d.why == "" {
		d.why = d.trend.add(row)
	}
	return d.why
}

// overdue is a lower bound of the window's requests due and unanswered for longer than limit, in
// nanoseconds: it subtracts the most that can have become due since.
func (d *EarlyStop) overdue(row *record.LoadRow, limit float64) float64 {
	since := d.perS * math.Min(limit, math.Max(float64(row.TNs), 0)) / 1e9
	behind := float64(row.Backlog)
	if behind > 0 {
		behind = math.Max(0, behind-d.chance(behind)) // the engine computes it at the mean rate
	}
	return math.Max(0, float64(row.InFlight)+behind-float64(d.carried)-since-d.chance(since))
}

// certain checks the terms that the rest of the step cannot repair.
func (d *EarlyStop) certain(row *record.LoadRow) string {
	for i := range d.lost {
		l := &d.lost[i]
		late := l.over + d.overdue(row, l.term.Limit)
		// The quantile has rank ceil(q·n), so that many may be above it.
		if allowed := d.total - math.Ceil(l.term.Quantile*d.total*(1-1e-12)); late > math.Max(allowed, 0) {
			return fmt.Sprintf("%s cannot be met: at %s, %s already > %s (budget %s of %s)",
				l.term, at(row), unit.Plural(int(math.Min(late, 1e18)), "request is", "requests are"), unit.FormatNs(int64(l.term.Limit)),
				countOf(allowed), countOf(d.total))
		}
	}
	for _, t := range d.slo {
		switch {
		case t.Metric == spec.MetricErrors && d.bad > t.Limit*d.total:
			return fmt.Sprintf("%s cannot be met: at %s, %s already failed (budget %s of %s)",
				t, at(row), unit.Plural(int(math.Min(d.bad, 1e18)), "request has", "requests have"), countOf(math.Floor(t.Limit*d.total)),
				countOf(d.total))
		case t.Metric == spec.MetricResponse && t.Quantile == spec.Mean && d.sum > t.Limit*d.total:
			return fmt.Sprintf("%s cannot be met: at %s, the response times already add up to more than the budget of all %s requests",
				t, at(row), countOf(d.total))
		}
	}
	return ""
}

// at is how far into the step an interval ends.
func at(row *record.LoadRow) string { return unit.FormatNs(row.TNs) }

func countOf(n float64) string { return unit.FormatCount(int64(math.Min(math.Max(n, 0), 1e18))) }
