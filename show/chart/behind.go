package chart

import (
	"math"

	"ceiling/record"
)

// Behind plots what the server depends on over time: the wait states of its database sessions,
// its connection pool, and its calls to another service. It omits what the run did not observe.
func Behind(run *Run, most int) []Plot {
	var plots []Plot
	add := func(p Plot, name, unit string, rows []row, lines []Line) {
		p.Groups = []Group{timed(run, thin(run.Label, rows, lines, most))}
		if _, high, ok := bounds(p.Groups); ok {
			p.axes(fromZero(name, unit, high))
			plots = append(plots, p)
		}
	}
	add(Plot{Title: "Sessions of the database, by what they wait for", Says: "Active sessions of the database: all, and those that wait for a lock or for the log."},
		"sessions", Plain, observed(run.observed().Databases, func(*record.DatabaseRow) bool { return true }, sessionsOf),
		[]Line{{Name: "on a CPU, or runnable", Tone: 2}, {Name: "wait for a lock", Tone: 1}, {Name: "wait for the log", Tone: 0},
			{Name: "active", Tone: 7, Dashed: true}})
	ofPool := func(r *record.StatusRow) bool { return r.Pool.Size > 0 }
	add(Plot{Title: "The server's pool of connections to its database", Says: "Connections in use, and requests that wait for one."}, "connections", Plain,
		observed(run.observed().Statuses, ofPool, func(r *record.StatusRow, s float64) []float64 {
			return []float64{float64(r.Pool.InUse), float64(r.Pool.WaitedNs) / 1e9 / s, float64(r.Pool.Size)}
		}), []Line{{Name: "in use", Tone: 0}, {Name: "requests that wait for one", Tone: 1}, {Name: "size", Tone: 7, Dashed: true}})
	ofCalls := func(*record.StatusRow) bool { return run.Downstream != nil }
	add(Plot{Title: "Calls of the service behind the server", Says: "Requests that were answered, and the calls that the server made for them, per second."}, "requests and calls/s", PerSecond,
		observed(run.observed().Statuses, ofCalls, func(r *record.StatusRow, s float64) []float64 {
			stalled := math.NaN()
			if r.Calls.Stalled {
				stalled = 0
			}
			return []float64{float64(r.Calls.Answered) / s, float64(r.Calls.Calls) / s, run.Downstream.CapacityPerS(), stalled}
		}), []Line{{Name: "requests answered", Tone: 0}, {Name: "calls", Tone: 1}, {Name: "capacity", Tone: 7, Dashed: true},
			{Name: "service stalled", Tone: 4}})
	return plots
}

// sessionsOf returns a row's sessions: on a CPU, waiting for locks, waiting for the log, and
// total.
func sessionsOf(r *record.DatabaseRow, _ float64) []float64 {
	v := []float64{0, 0, 0, float64(r.Active)}
	for _, w := range r.Waits {
		switch {
		case w.Type == record.OnCPU:
			v[0] += float64(w.Sessions)
		case w.Type == "Lock":
			v[1] += float64(w.Sessions)
		case w.OfLog():
			v[2] += float64(w.Sessions)
		}
	}
	return v
}
