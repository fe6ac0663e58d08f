package page

import (
	"cmp"

	"ceiling/record"
)

// planPaths shows the path of a request at the plan's answer.
func planPaths(p *record.Plan) Section {
	s := Section{ID: "where", Title: "Where the time goes"}
	add := func(says string, of record.Bottleneck, in func(m *record.Measured) bool) {
		if path, ok := measuredPath(p, of, in); ok {
			path.Says = says
			s.Blocks = append(s.Blocks, path.On("", []Section{{}}))
		}
	}
	answerOf(p).paths(add)
	return s
}

// measuredPath returns the path of the requests of selected runs of a plan. Its bottleneck is the
// answer's; if that is "", the one that most of the runs have.
func measuredPath(p *record.Plan, of record.Bottleneck, in func(m *record.Measured) bool) (Path, bool) {
	var runs []*record.Run
	for i := range p.Runs {
		m := &p.Runs[i]
		if m.WarmupRun || m.Outcome == record.Invalid || m.StoppedEarly != "" || len(m.Stations) == 0 || !in(m) {
			continue
		}
		r := &record.Run{ElapsedS: m.ElapsedS, Verdict: record.Verdict{Stations: m.Stations, Bottleneck: cmp.Or(of, m.Bottleneck)}}
		r.Latency.Service, r.Requests.Completed = m.Service, m.Completed
		if m.ServerCPUNs > 0 {
			r.Verdict.Uses = []record.Use{{Station: record.PlaceInServer, What: record.UseOfCores, Used: m.ServerCPUNs * m.CompletedPerS / 1e9}}
		}
		runs = append(runs, r)
	}
	path, ok := PathOf(runs)
	path.Evidence = ""
	return path, ok
}
