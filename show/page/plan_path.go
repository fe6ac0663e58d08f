package page

import (
	"cmp"
	"slices"

	"ceiling/internal/unit"
	"ceiling/record"
)

// planPaths shows the path of a request at the plan's answer: at the highest rate of a sweep, at
// the capacity of a search, undisturbed in a proof, and for both sides of a comparison.
func planPaths(p *record.Plan) Section {
	s := Section{ID: "where", Title: "Where the time goes"}
	add := func(says string, of record.Bottleneck, in func(m *record.Measured) bool) {
		if path, ok := measuredPath(p, of, in); ok {
			path.Says = says
			s.Blocks = append(s.Blocks, path.On("", []Section{{}}))
		}
	}
	switch {
	case p.Sweep != nil && len(p.Sweep.Curves) == 1 && p.Sweep.Curves[0].Over != "":
		c := &p.Sweep.Curves[0]
		if top := topOf(c); top != nil {
			add("The path of a request at "+count(top.X)+" "+overShort(c), c.Bottleneck, func(m *record.Measured) bool { return slices.Contains(top.RunIDs, m.Run) })
		}
	case p.Search != nil && p.Search.Capacity.Mid > 0:
		best := 0.0
		for i := range p.Search.Rates {
			if r := &p.Search.Rates[i]; r.Pass > r.Fail {
				best = max(best, r.PerS)
			}
		}
		add("The path of a request at "+unit.FormatRate(best), p.Search.Bottleneck,
			func(m *record.Measured) bool { return m.TargetPerS == best && m.Outcome == record.Pass })
	case p.Proof != nil:
		add("The path of a request, undisturbed", record.Bottleneck(p.Proof.Proved), func(m *record.Measured) bool { return m.Perturb == record.Perturbation{} })
	case p.Comparison != nil:
		a, b := sideNames(p.Comparison)
		for i, side := range []string{"A", "B"} {
			add([]string{a, b}[i]+": the path of a request", "", func(m *record.Measured) bool { return m.Side == side && !m.Noise })
		}
	}
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

// topOf returns the point of a curve with the highest rate; nil if all are invalid.
func topOf(c *record.Curve) *record.CurvePoint {
	var top *record.CurvePoint
	for i := range c.Points {
		at := &c.Points[i]
		if at.Outcome != record.Invalid && (top == nil || at.PerS.Mid > top.PerS.Mid) {
			top = at
		}
	}
	return top
}
