package verdict

import (
	"math"
	"slices"

	"ceiling/record"
)

// What a server makes of its requests to a downstream service, by its own count and the
// service's: retries multiply the load, most of all on a saturated service, and can keep it down
// after the original cause is gone.

const (
	// retriesSaid calls per request are worth mentioning, retriesMatter a caveat.
	retriesSaid   = 1.02
	retriesMatter = 1.2
	// serviceFull of its capacity, in calls per second, leaves a service nothing.
	serviceFull = 0.9

	// The baseline of an outage starts one second before it. After it, a service has half of the
	// remaining time to come back, and what is left must be at least a second to count. Below
	// half of the earlier share of successful requests, the service is not back.
	outageBeforeNs = 5e8
	outageAfterNs  = 1e9
	comeBack       = 0.5
)

// callFacts summarises the calls over the window.
type callFacts struct {
	samples                   int
	requests, answered, calls float64
	failed                    float64
	waiting                   float64 // calls for a slot of the service, on average
	seconds                   float64
	capacityPerS              float64 // 0 if unknown
	outage                    serviceOutage
}

// serviceOutage is a period in which the service stalled, with the success rate before it and
// long after it.
type serviceOutage struct {
	seen         bool // with enough of the run before and after it
	fromS, toS   float64
	lateS        float64 // when it should have been back
	before, late float64 // shares of the requests that succeeded
	calls        float64 // per request, from then on
	perS         float64 // calls a second
}

func callsOf(f *runFacts, series *record.Series) callFacts {
	var c callFacts
	c.capacityPerS = f.run.Downstream.CapacityPerS()
	var rows []*record.StatusRow
	for _, r := range observed(f, series.Observed.Statuses) {
		if r.Calls == (record.CallStatus{}) && f.run.Downstream == nil {
			continue
		}
		rows = append(rows, r)
		c.samples++
		c.waiting += positive(float64(r.Calls.Waiting))
		c.seconds += positive(float64(r.WidthNs)) / 1e9
		c.requests += positive(float64(r.Calls.Requests))
		c.answered += positive(float64(r.Calls.Answered))
		c.calls += positive(float64(r.Calls.Calls))
		c.failed += positive(float64(r.Calls.Failed))
	}
	if c.samples > 0 {
		c.waiting /= float64(c.samples)
	}
	c.outage = outageOf(rows)
	return c
}

// part sums a stretch of status rows.
func part(rows []*record.StatusRow, fromNs, toNs int64) (answered, calls, perS float64, widthNs int64) {
	var requests, got, made float64
	for _, r := range rows {
		if r.TNs-r.WidthNs >= fromNs && r.TNs <= toNs {
			requests += positive(float64(r.Calls.Requests))
			got += positive(float64(r.Calls.Answered))
			made += positive(float64(r.Calls.Calls))
			widthNs += max(r.WidthNs, 0)
		}
	}
	if requests > 0 && widthNs > 0 {
		answered, calls, perS = math.Min(got/requests, 1), made/requests, made/(float64(widthNs)/1e9)
	}
	return answered, calls, perS, widthNs
}

// outageOf finds the first period in which the service stalled.
func outageOf(rows []*record.StatusRow) (o serviceOutage) {
	first := slices.IndexFunc(rows, func(r *record.StatusRow) bool { return r.Calls.Stalled })
	if first < 0 {
		return o
	}
	over := first
	for over < len(rows) && rows[over].Calls.Stalled {
		over++
	}
	if over == len(rows) {
		return o // it still lasts
	}
	from, to, end := rows[first].TNs-rows[first].WidthNs, rows[over].TNs, rows[len(rows)-1].TNs
	late := to + (end-to)/2
	var width, after int64
	o.before, _, _, width = part(rows, 0, from)
	o.late, o.calls, o.perS, after = part(rows, late, end)
	o.fromS, o.toS, o.lateS = float64(from)/1e9, float64(to)/1e9, float64(late)/1e9
	o.seen = width >= outageBeforeNs && after >= outageAfterNs && o.before >= comeBack
	return o
}

// metastable reports whether the service stayed down after its outage, with more calls than
// requests.
func (c *callFacts) metastable() bool {
	o := &c.outage
	return o.seen && o.late < comeBack*o.before && o.calls >= retriesMatter
}

// each returns the calls per request.
func (c *callFacts) each() float64 {
	if !(c.requests > 0) {
		return 0
	}
	return c.calls / c.requests
}

// full reports whether the service is at its capacity.
func (c *callFacts) full() bool {
	return c.capacityPerS > 0 && c.seconds > 0 && c.calls/c.seconds >= serviceFull*c.capacityPerS
}

// values returns the values for the statements.
func (c *callFacts) values() with {
	o := &c.outage
	v := with{"each": c.each(), "calls_per_s": 0.0, "capacity_per_s": c.capacityPerS, "answered": 0.0, "from_s": o.fromS, "to_s": o.toS,
		"late_s": o.lateS, "before": o.before, "late": o.late, "late_each": o.calls, "late_per_s": o.perS, "waiting": c.waiting}
	if c.seconds > 0 {
		v["calls_per_s"] = c.calls / c.seconds
	}
	if c.requests > 0 {
		v["answered"] = math.Min(c.answered/c.requests, 1)
	}
	return v
}

// explainRetries adds the server's calls to any finding; if they are its cause, they come first.
func explainRetries(f *serverSide, found *finding) {
	c := &f.calls
	if c.samples < sessionsFewest || !(c.requests > 0) {
		return
	}
	found.pro = append(found.pro, record.NewEvidence("series.status.calls.calls", c.each(), "calls", say("calls", c.values())))
	if c.outage.seen {
		found.pro = append(found.pro, record.NewEvidence("series.status.calls.answered", c.outage.late, "share", say("calls.outage", c.values())))
	}
	switch {
	case c.metastable():
		found.because = slices.Insert(found.because, 0, say("calls.metastable", c.values()))
		found.next = just("calls.metastable.next", c.values())
	case c.each() >= retriesMatter && c.full():
		found.because = slices.Insert(found.because, 0, say("calls.multiply", c.values()))
		found.next = just("calls.multiply.next", c.values())
	case c.each() >= retriesMatter:
		found.caveats = append(found.caveats, say("calls.multiply", c.values()))
	}
}
