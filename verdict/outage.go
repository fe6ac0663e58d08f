package verdict

import (
	"math"
	"slices"

	"ceiling/record"
)

// An outage is a part of the window with no open connection to the server and no response: the
// server had exited, or its port was closed. A closed loop sends nothing during an outage, so
// only the load rows show it.

// outageFacts are the outages of a run.
type outageFacts struct {
	share   float64 // of the window
	count   int
	ns      float64 // total
	longest float64 // ns
	fromNs  float64 // when the longest began
	lasts   bool    // the window ended within the last one
	// list has the bounds of each outage, to whole rows.
	list []record.Stall
}

// outagesOf looks for rows that end without an open connection and have no response. An outage
// hits the adjacent rows in part: each adds as much time as it lacks in responses.
func outagesOf(rows []record.LoadRow) outageFacts {
	var o outageFacts
	usual := usualRate(rows)
	if usual <= 0 {
		return o // never reachable: another rule's case
	}
	lacking := func(i int) float64 {
		if i < 0 || i >= len(rows) {
			return 0
		}
		return lackingNs(&rows[i], usual)
	}
	whole := 0.0
	for i := 0; i < len(rows); {
		whole += float64(rows[i].WidthNs)
		j, width := i, 0.0
		for j < len(rows) && rows[j].Connected == 0 && rows[j].Completed == 0 {
			width += float64(rows[j].WidthNs)
			j++
		}
		if j == i {
			i++
			continue
		}
		whole += width - float64(rows[i].WidthNs)
		before := 0.0
		if i > 0 && rows[i-1].Connected == 0 {
			before = lacking(i - 1)
		}
		width += before + lacking(j)
		o.count++
		o.list = append(o.list, record.Stall{FromNs: rows[i].TNs - rows[i].WidthNs, ToNs: rows[j-1].TNs, Outage: true})
		o.ns += width
		if width > o.longest {
			o.longest, o.fromNs = width, float64(rows[i].TNs-rows[i].WidthNs)-before
		}
		o.lasts = j == len(rows)
		i = j
	}
	if whole > 0 {
		o.share = math.Min(o.ns/whole, 1)
	}
	return o
}

// usualRate returns the median rate of the rows with responses, per ns.
func usualRate(rows []record.LoadRow) float64 {
	var rates []float64
	for i := range rows {
		if rows[i].Completed > 0 && rows[i].WidthNs > 0 {
			rates = append(rates, float64(rows[i].Completed)/float64(rows[i].WidthNs))
		}
	}
	if len(rates) == 0 {
		return 0
	}
	slices.Sort(rates)
	return rates[len(rates)/2]
}

// lackingNs returns how much of a row was without responses, in ns, by the usual rate.
func lackingNs(r *record.LoadRow, usual float64) float64 {
	width := float64(r.WidthNs)
	return width * math.Max(1-float64(r.Completed)/(usual*width), 0)
}

// says describes how long the server was gone, when, and which errors connecting to it met.
func (o *outageFacts) says(f *runFacts) record.Statement {
	return say("outage", with{"total_ns": o.ns, "times": o.count, "longest_ns": o.longest, "from_s": math.Max(o.fromNs, 0) / 1e9,
		"lasts": o.lasts, "kinds": kindsOf(connectKinds(f.run))})
}

// connectKinds returns the causes of failed connects in the window, without this host's.
func connectKinds(run *record.Run) []errorKind {
	var list []errorKind
	for _, e := range run.Errors {
		if e.OfConnecting() && !e.BeforeWindow && e.Count > 0 && originOf(run, e) != record.OfLocal {
			list = append(list, errorKind{name: e.Cause, count: e.Count})
		}
	}
	return list
}
