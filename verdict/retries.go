package verdict

import (
	"math"
	"slices"

	"ceiling/record"
)

// What a server makes of its requests to a service behind it, by its own count and the service's: retries multiply the
// load, most of all on a service that is full, and can keep it down after what brought it down is over.

const (
	// retriesSaid calls for each request are worth a word, retriesMatter a caveat.
	retriesSaid   = 1.02
	retriesMatter = 1.2
	// serviceFull of its capacity, by calls a second, leaves a service nothing.
	serviceFull = 0.9

	// An outage is looked at from one second before it; a service has half of the time after it to come back, and what
	// is left has to be a second for a word. Below half of the share that was answered before, it is not back.
	outageBeforeNs = 5e8
	outageAfterNs  = 1e9
	comeBack       = 0.5
)

// callFacts is what came of the calls over the window.
type callFacts struct {
	samples                   int
	requests, answered, calls float64
	failed                    float64
	waiting                   float64 // calls for a slot of the service, on average
	seconds                   float64
	capacityPerS              float64 // 0 not known
	outage                    serviceOutage
}

// serviceOutage is a time in which the service stood still, and what was answered before and long after it.
type serviceOutage struct {
	seen         bool // with enough of the run on either side of it
	fromS, toS   float64
	lateS        float64 // from when on it should have been back
	before, late float64 // shares of the requests that were answered
	calls        float64 // for each request, from then on
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

// part is a stretch of the status rows, summed up.
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

// outageOf finds the first time in which the service stood still.
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
		return o // it goes on
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

// metastable tells whether the service stayed down after its outage, under more calls than requests.
func (c *callFacts) metastable() bool {
	o := &c.outage
	return o.seen && o.late < comeBack*o.before && o.calls >= retriesMatter
}

// each is the calls for each request.
func (c *callFacts) each() float64 {
	if !(c.requests > 0) {
		return 0
	}
	return c.calls / c.requests
}

// full tells whether the service has no more to give.
func (c *callFacts) full() bool {
	return c.capacityPerS > 0 && c.seconds > 0 && c.calls/c.seconds >= serviceFull*c.capacityPerS
}

// values are those of the statements.
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

// explainRetries puts what the server's calls are into a finding, whatever it is: where they are the reason for it, first.
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
