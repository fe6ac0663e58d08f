package page

import (
	"fmt"
	"slices"

	"ceiling/internal/unit"
	"ceiling/record"
	"ceiling/show/chart"
	"ceiling/show/path"
)

// pathsMost limits the curves of a group that show where the time goes: each needs a panel.
const pathsMost = 3

// loadPanels stacks the graphs of a group of curves on one x axis: rate, response time, and where
// the time goes, which explains the shape of the rate.
func loadPanels(p *record.Plan, g curveGroup, tag string) Panels {
	var list Panels
	add := func(d Drawing, ok bool) {
		if ok {
			list.Drawings = append(list.Drawings, d)
		}
	}
	add(CurveGraph(g.name, g.curves))
	if len(list.Drawings) == 0 {
		return list
	}
	add(LatencyGraph(g.name, g.curves, p.Experiment.SLO))
	axis := loadAxis(g.curves)
	for i := range g.curves[:min(len(g.curves), pathsMost)] {
		d, ok := PathGraph(p, &g.curves[i], axis, len(g.curves) > 1)
		d.ID += fmt.Sprintf("-%d", i+1)
		add(d, ok)
	}
	for i := range list.Drawings {
		list.Drawings[i].ID += tag
		list.Drawings[i].Graph.X = axis
	}
	if len(g.curves) == 1 {
		list.Loads = panelLoads(p, &g.curves[0], axis)
	}
	return list
}

// loadAxis returns an axis over every load of the curves.
func loadAxis(curves []record.Curve) chart.Axis {
	var at []float64
	for i := range curves {
		for j := range curves[i].Points {
			at = append(at, curves[i].Points[j].X)
		}
	}
	return chart.PlacesAxis(curves[0].Over.Unit(), "", at)
}

// panelLoads returns the panels' values for each load.
func panelLoads(p *record.Plan, c *record.Curve, axis chart.Axis) []PanelLoad {
	var list []PanelLoad
	for i := range c.Points {
		at := &c.Points[i]
		l := PanelLoad{At: 100 * axis.At(at.X)}
		l.Says = fmt.Sprintf("%s: %s req/s · p50 %s · p99 %s · %s", c.Over.Count(at.X), count(at.PerS.Mid),
			quantileCell(at.Held(), .5), quantileCell(at.Held(), .99), at.Bottleneck)
		if n := slices.IndexFunc(p.Runs, func(m record.Measured) bool { return m.Run != "" && slices.Contains(at.RunIDs, m.Run) }); n >= 0 {
			l.Run = fmt.Sprintf("run-%d", n)
		}
		list = append(list, l)
	}
	return list
}

// PathGraph draws where a request's time goes at each load: the mean of the runs, weighted by
// their mean service times.
func PathGraph(p *record.Plan, c *record.Curve, axis chart.Axis, named bool) (Drawing, bool) {
	var stacks []chart.Stack
	names := map[string]bool{}
	for i := range c.Points {
		shares := pathOf(p, c.Points[i].RunIDs)
		if shares == nil {
			continue
		}
		s := chart.Stack{X: c.Points[i].X}
		for _, name := range record.PlaceNames() {
			if share := shares[name]; share > 0 {
				s.Parts = append(s.Parts, chart.StackPart{Share: share, Class: stationTone(name)})
				names[name] = true
			}
		}
		stacks = append(stacks, s)
	}
	if len(stacks) == 0 {
		return Drawing{}, false
	}
	title := "Where the time goes"
	if named {
		title += ": " + curveName(c)
	}
	g := chart.NewStacks(title, axis, stacks)
	g.Says = pathSays(c, p)
	d := graphOf("path", g, "Share of a request's time at each place on its path, from the client (bottom) and back to it (top).")
	for _, name := range record.PlaceNames() {
		if names[name] {
			d.Areas = append(d.Areas, Swatch{path.LongName(name), stationTone(name)})
		}
	}
	return d, true
}

// pathOf returns the share of each place over some runs; nil if no run has it.
func pathOf(p *record.Plan, runs []string) map[string]float64 {
	shares, whole := map[string]float64{}, 0.0
	for i := range p.Runs {
		m := &p.Runs[i]
		if len(m.Stations) == 0 || !slices.Contains(runs, m.Run) {
			continue
		}
		weight := max(m.Service.MeanNs, 1)
		for _, st := range m.Stations {
			shares[st.Name] += weight * st.Share
			whole += weight * st.Share
		}
	}
	if !(whole > 0) {
		return nil
	}
	for name := range shares {
		shares[name] /= whole
	}
	return shares
}

// pathSays describes the largest share at the first and the last load.
func pathSays(c *record.Curve, p *record.Plan) string {
	text := ""
	for _, at := range []*record.CurvePoint{&c.Points[0], &c.Points[len(c.Points)-1]} {
		name, most := "", 0.0
		for _, st := range record.PlaceNames() {
			if v := pathOf(p, at.RunIDs)[st]; v > most {
				name, most = st, v
			}
		}
		if name != "" {
			text += fmt.Sprintf("At %s %s of the time is at: %s. ", c.Over.Count(at.X), unit.Percent(most), path.LongName(name))
		}
	}
	return text
}
