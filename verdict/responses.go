package verdict

import (
	"cmp"
	"math"
	"slices"
	"strconv"

	"ceiling/experiment/spec"
	"ceiling/record"
)

// This file finds responses that may not be what the user means to measure: redirects, answers
// without a body, and answers that change in the middle of the run.

// ofTheResponses adds what the responses were.
func (d *caveats) ofTheResponses(f *facts) {
	run := f.base.run
	if run.Spec.Kind != spec.Requests {
		return
	}
	d.ofTheRedirects(run)
	for _, e := range run.Errors {
		if e.Phase == record.PhaseFault && !e.BeforeWindow {
			d.add("caveat.fault", with{"fault": e.Cause, "responses": e.Count})
		}
	}
	for _, code := range []string{"204", "304"} {
		if n := run.Statuses[code]; n > 0 && n == run.Requests.Completed && !slices.ContainsFunc(run.Spec.Targets, writes) {
			d.add("caveat.no-content", with{"status": code, "conditional": code == "304"})
		}
	}
	if c := f.time.changed; c.known {
		d.add("caveat.responses-changed", with{"at_s": c.atS, "until_s": c.untilS, "from_bytes": c.from, "to_bytes": c.to})
	}
}

// writes reports whether a target's method is one whose answer needs no body.
func writes(t spec.Target) bool { return t.Method != "" && t.Method != "GET" }

func (d *caveats) ofTheRedirects(run *record.Run) {
	n, most, status := uint64(0), uint64(0), 0
	for _, code := range []int{301, 302, 303, 307, 308} {
		if count := run.Statuses[strconv.Itoa(code)]; count > 0 && run.Spec.Expect.Has(code) {
			if n += count; count > most {
				most, status = count, code
			}
		}
	}
	share := float64(n) / math.Max(float64(run.Requests.Completed), 1)
	if share < errorsMatter {
		return
	}
	to := ""
	if i := slices.IndexFunc(run.Redirects, func(r record.Redirect) bool { return r.Status == status }); i >= 0 {
		to = run.Redirects[i].To
	}
	d.add("caveat.redirects", with{"share": share, "all": n == run.Requests.Completed, "status": status, "to": to})
}

// changedFacts describe a change of the responses' size in the middle of the run, for the rest of
// it or for a stretch.
type changedFacts struct {
	known       bool
	atS, untilS float64 // untilS 0: for the rest
	from, to    float64 // bytes per response, with its head
}

// portion is so many responses in a row, by the load rows.
type portion struct {
	fromNs, toNs int64
	bytes        float64 // mean size
}

// changedOf looks for two sizes that lie apart, each in a row: sizes that vary do so all the time,
// and those that grow have none in between.
func changedOf(f *runFacts, rows []record.LoadRow) (c changedFacts) {
	list := portions(rows)
	sizes := make([]float64, len(list))
	for i := range list {
		sizes[i] = list[i].bytes
	}
	slices.Sort(sizes)
	low, high, apart := widestGap(sizes)
	if !apart {
		return c
	}
	other := func(p portion) bool { return (p.bytes >= high) != (list[0].bytes >= high) }
	at := slices.IndexFunc(list, other)
	end := at
	for end < len(list) && other(list[end]) {
		end++
	}
	if slices.ContainsFunc(list[end:], other) {
		return c // it goes to and fro
	}
	c.known, c.atS = true, math.Max(float64(list[at].fromNs)/1e9, 0)
	if end < len(list) {
		c.untilS = float64(list[end-1].toNs) / 1e9
	}
	below, above := sizes[:slices.Index(sizes, low)+1], sizes[slices.Index(sizes, high):]
	c.from, c.to = below[len(below)/2], above[len(above)/2]
	if list[0].bytes >= high {
		c.from, c.to = c.to, c.from
	}
	return c
}

// portions divides the rows into stretches of enough responses for a mean.
func portions(rows []record.LoadRow) (list []portion) {
	var p portion
	read, responses := 0.0, 0.0
	for i := range rows {
		r := &rows[i]
		if responses == 0 {
			p.fromNs = r.TNs - r.WidthNs
		}
		read, responses = read+float64(r.Read), responses+float64(r.Completed)
		if responses >= changedResponses {
			p.toNs, p.bytes = r.TNs, read/responses
			list, read, responses = append(list, p), 0, 0
		}
	}
	return list
}

// widestGap returns the neighbours among ascending sizes that lie farthest apart, with enough of
// them on both sides; false if they are not apart, or not by more than the others are.
func widestGap(sizes []float64) (low, high float64, apart bool) {
	at, ratio := -1, 0.0
	for i := changedPortions - 1; i+changedPortions < len(sizes); i++ {
		if r := sizes[i+1] / sizes[i]; sizes[i] > 0 && r > ratio {
			at, ratio = i, r
		}
	}
	if at < 0 || ratio < changedRatio {
		return 0, 0, false
	}
	// One portion may hold the change itself, and lies between the two.
	within := cmp.Or(math.Max(sizes[at-1]/sizes[0], sizes[len(sizes)-1]/sizes[at+2]), 1)
	return sizes[at], sizes[at+1], ratio*ratio >= within
}
