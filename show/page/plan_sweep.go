package page

import (
	"cmp"
	"fmt"
	"math"
	"slices"
	"strings"

	"ceiling/experiment/spec"
	"ceiling/internal/unit"
	"ceiling/record"
	"ceiling/show/chart"
	"ceiling/show/layout"
	"ceiling/show/report"
	"ceiling/verdict/prose"
)

// curveName distinguishes the curve from the others of its sweep.
func curveName(c *record.Curve) string {
	name := redact(spec.Loaded(c.Server, c.Mix))
	if fixed := prose.Fixed(c); fixed != "" {
		name += ", " + fixed
	}
	return name
}

// linesMost limits the lines of a graph; further lines get another graph.
const linesMost = 2 * chart.Tones

// sweepSections shows the graphs and tables of a sweep: one graph for all curves of the same
// requests.
func sweepSections(p *record.Plan) []Section {
	s := Section{ID: "curves", Title: "Throughput over load"}
	groups := curveGroups(p.Sweep.Curves)
	if len(p.Sweep.Curves) > 0 && p.Sweep.Curves[0].Over == "" {
		s.Title = "Throughput"
	}
	for i, g := range groups {
		s.Blocks = append(s.Blocks, curveBlocks(p, g, groupTag(i, len(groups)))...)
	}
	return []Section{s, scalingSection(p.Sweep.Curves)}
}

// groupTag makes the anchors of several groups unique.
func groupTag(i, n int) string {
	if n == 1 {
		return ""
	}
	return fmt.Sprintf("-%d", i+1)
}

// curveGroup is a set of curves drawn together.
type curveGroup struct {
	name   string
	curves []record.Curve
}

// curveGroups groups the curves with the same requests. A single server's curves form one group:
// they differ in the requests.
func curveGroups(curves []record.Curve) []curveGroup {
	servers := map[string]bool{}
	for i := range curves {
		servers[curves[i].Server] = true
	}
	var groups []curveGroup
	index := map[string]int{}
	for _, c := range curves {
		key := ""
		if len(servers) > 1 {
			key = c.Mix
		}
		key += "\x00" + string(c.Over)
		at, there := index[key]
		if !there || len(groups[at].curves) == linesMost {
			at = len(groups)
			index[key] = at
			groups = append(groups, curveGroup{name: strings.SplitN(key, "\x00", 2)[0]})
		}
		groups[at].curves = append(groups[at].curves, c)
	}
	return groups
}

// curveBlocks shows one group of curves.
func curveBlocks(p *record.Plan, g curveGroup, tag string) []Block {
	table := curveTable(g)
	if g.curves[0].Over == "" {
		d, ok := CurveForest(g.name, g.curves)
		if !ok {
			return []Block{Paragraph{Text: "Nothing was measured."}, table}
		}
		d.ID += tag
		table.Fold = true
		d.Table = &table
		return []Block{d}
	}
	panels := loadPanels(p, g, tag)
	if len(panels.Drawings) == 0 {
		return []Block{table}
	}
	return []Block{panels, table}
}

func titled(text, name string) string {
	if name == "" {
		return text
	}
	return text + ": " + name
}

// CurveForest draws the rates of curves with a single point each.
func CurveForest(name string, curves []record.Curve) (Drawing, bool) {
	var rows []chart.Estimated
	for i := range curves {
		c := &curves[i]
		for j := range c.Points {
			at := &c.Points[j]
			tone, _ := toneOf(i)
			row := chart.Estimated{Name: curveName(c), Mid: at.PerS.Mid, Low: at.PerS.Low, High: at.PerS.High, Tone: tone,
				Value: unit.FormatRate(at.PerS.Mid)}
			if at.Outcome == record.Invalid {
				row.Value += ", invalid"
			}
			row.None = at.Runs == 0
			rows = append(rows, row)
		}
	}
	f, ok := chart.NewForest(titled("Requests per second", name), "req/s", chart.PerSecond, rows, nil, true)
	f.Says = rowsSay(rows)
	return forestOf("rates", f, "Median per load level with its interval. "+intervalNote(curves)), ok
}

func rowsSay(rows []chart.Estimated) string {
	var parts []string
	for _, r := range rows {
		parts = append(parts, r.Name+" "+r.Value)
	}
	return strings.Join(parts, "; ") + "."
}

// intervalNote explains the intervals of curves.
func intervalNote(curves []record.Curve) string {
	least, most, none := 1.0, 0.0, false
	for i := range curves {
		for j := range curves[i].Points {
			if c := curves[i].Points[j].PerS.Confidence; c > 0 {
				least, most = min(least, c), max(most, c)
			} else {
				none = true
			}
		}
	}
	if most == 0 {
		return "Too few runs for an interval: bars show min to max."
	}
	text := fmt.Sprintf("Bars are %.0f%% intervals", 100*least)
	if most > least {
		text = fmt.Sprintf("Bars are intervals of %.0f to %.0f%%, as the number of runs allows", 100*least, 100*most)
	}
	if none {
		text += ", or min to max where there are too few runs"
	}
	return text + "."
}

// CurveGraph draws throughput over load, with the knee, and the scalability law if the fit is
// usable.
func CurveGraph(name string, curves []record.Curve) (Drawing, bool) {
	var lines []chart.Measured
	fits, knees := 0, 0
	var spans []chart.Span
	for i := range curves {
		c := &curves[i]
		line := curveLine(c, i, func(p *record.CurvePoint) (float64, float64, float64) { return p.PerS.Mid, p.PerS.Low, p.PerS.High })
		line.Each = runRates(c)
		if c.USL != nil && c.USL.Trusted {
			line.Fit = fitted(c)
			fits++
		}
		if k := c.Knee; k != nil && k.Low > 0 && k.High > k.Low {
			spans = append(spans, chart.Span{From: k.Low, To: k.High, Tone: line.Tone})
			knees++
		}
		lines = append(lines, line)
	}
	if knees == 1 {
		spans[0].Name = "knee"
	}
	g, ok := chart.NewGraph(titled("Requests per second over "+curves[0].Over.Unit(), name), chart.Axis{Name: curves[0].Over.Unit()},
		chart.Axis{Name: "req/s", Unit: chart.PerSecond}, lines)
	if !ok {
		return Drawing{}, false
	}
	g.Spans, g.Says = spans, curvesSay(curves)
	note := "Dots: median per load level, small ones each run. Hollow: all runs invalid. " + intervalNote(curves)
	if knees > 0 {
		note += " Shaded band: the knee, where throughput stops growing."
	}
	if fits > 0 {
		note += " Dotted: the Universal Scalability Law fitted to the dots."
	}
	d := graphOf("curve", g, note)
	d.Tall = true
	return d, true
}

// runRates returns the rate of every run at loads with more than one.
func runRates(c *record.Curve) []chart.Place {
	var list []chart.Place
	for i := range c.Points {
		if at := &c.Points[i]; len(at.PerRun) > 1 && at.Outcome != record.Invalid {
			for _, v := range at.PerRun {
				list = append(list, chart.Place{X: at.X, Y: v})
			}
		}
	}
	return list
}

func curveLine(c *record.Curve, i int, value func(p *record.CurvePoint) (mid, low, high float64)) chart.Measured {
	line := chart.Measured{Name: curveName(c), Joined: true}
	line.Tone, line.Dashed = toneOf(i)
	for j := range c.Points {
		p := &c.Points[j]
		mid, low, high := value(p)
		if p.Runs == 0 || !(mid > 0) {
			continue
		}
		line.Places = append(line.Places, chart.Place{X: p.X, Y: mid, Low: min(low, mid), High: max(high, mid),
			Hollow: p.Outcome == record.Invalid})
	}
	return line
}

// fitPoints is the number of points of a fitted curve.
const fitPoints = 60

// fitted returns the scalability law between the lowest and the highest load: X(N) = λN / (1 +
// σ(N−1) + κN(N−1)).
func fitted(c *record.Curve) []chart.Place {
	low, high := math.Inf(1), math.Inf(-1)
	for i := range c.Points {
		low, high = min(low, c.Points[i].X), max(high, c.Points[i].X)
	}
	if !(low > 0) || !(high > low) {
		return nil
	}
	var list []chart.Place
	for i := range fitPoints + 1 {
		n := low * math.Pow(high/low, float64(i)/fitPoints)
		x := c.USL.Lambda.Mid * n / (1 + c.USL.Sigma.Mid*(n-1) + c.USL.Kappa.Mid*n*(n-1))
		if math.IsNaN(x) || math.IsInf(x, 0) || x < 0 {
			return nil
		}
		list = append(list, chart.Place{X: n, Y: x})
	}
	return list
}

func curvesSay(curves []record.Curve) string {
	var parts []string
	for i := range curves {
		parts = append(parts, curveName(&curves[i])+": "+prose.Text(curves[i].Says))
	}
	return strings.Join(parts, ". ") + "."
}

// LatencyGraph draws the median and the 99th percentile of the response time over load, with
// their SLO limits.
func LatencyGraph(name string, curves []record.Curve, slo spec.SLO) (Drawing, bool) {
	var lines []chart.Measured
	for i := range curves {
		for _, q := range []struct {
			name string
			of   func(*record.Quantiles) int64
		}{{"p99", func(q *record.Quantiles) int64 { return q.P99Ns }}, {"p50", func(q *record.Quantiles) int64 { return q.P50Ns }}} {
			line := curveLine(&curves[i], i, func(p *record.CurvePoint) (float64, float64, float64) {
				v := float64(q.of(&p.Response))
				return v, v, v
			})
			line.Name, line.Dashed = q.name, q.name == "p50"
			if len(curves) > 1 {
				line.Name = curveName(&curves[i]) + ", " + q.name
			}
			lines = append(lines, line)
		}
	}
	g, ok := chart.NewGraph(titled("Response time", name), chart.Axis{Name: curves[0].Over.Unit()},
		chart.Axis{Name: "response time", Unit: chart.Nanoseconds}, lines)
	if !ok {
		return Drawing{}, false
	}
	g.Says = "The same as in the table."
	for _, t := range slo {
		if t.Metric == spec.MetricResponse && t.Quantile == .99 && t.Limit >= g.Y.Min && t.Limit <= g.Y.Max {
			g.Limits = append(g.Limits, chart.Limit{Name: "SLO", At: t.Limit})
		}
	}
	return graphOf("latency", g, "All runs of a load level merged. Hollow: all runs invalid."), true
}

// curveTable has a row for every point of every curve.
func curveTable(g curveGroup) Table {
	of, load := layout.Column{Name: "of"}, layout.Column{Name: cmp.Or(string(g.curves[0].Over), "load"), Right: true}
	if len(g.curves) == 1 { // the caption names it
		t := report.PointTable(load)
		addPoints(t, &g.curves[0])
		return tableOf("Every load: "+curveName(&g.curves[0]), t)
	}
	t := report.PointTable(of, load)
	for i := range g.curves {
		addPoints(t, &g.curves[i], curveName(&g.curves[i]))
	}
	return tableOf(titled("Every load", g.name), t)
}

func addPoints(t *layout.Table, c *record.Curve, name ...string) {
	for i := range c.Points {
		p := &c.Points[i]
		x := count(p.X)
		if c.Over == "" {
			x = fmt.Sprintf("%d × %d", p.Connections, p.Pipelining)
		}
		report.AddPoint(t, p, append(slices.Clone(name), x)...)
	}
}

// scalingSection shows the law fitted to each curve, and how far to trust it.
func scalingSection(curves []record.Curve) Section {
	s := Section{ID: "scaling", Title: "Scaling"}
	t := Table{Caption: "Universal Scalability Law: X(N) = λN / (1 + σ(N−1) + κN(N−1))",
		Columns: []Column{{Name: "of"}, {Name: "λ, of one", Figure: true}, {Name: "σ, contention", Figure: true},
			{Name: "κ, coherency", Figure: true}, {Name: "best N", Figure: true}, {Name: "R²", Figure: true}, {Name: "trust"}}}
	var distrust []Block
	for i := range curves {
		c := &curves[i]
		u := c.USL
		if u == nil {
			continue
		}
		best := "does not bend"
		switch {
		case u.Best != nil:
			best = estimated(u.Best, count)
		case u.BestAtLeast > 0:
			best = "not below " + count(u.BestAtLeast)
		}
		trust := "yes"
		if !u.Trusted {
			trust = "no"
			says := "Fit not usable: "
			if len(curves) > 1 {
				says = curveName(c) + " has no usable fit: "
			}
			distrust = append(distrust, Paragraph{Text: says + prose.Sentence(u.Warnings) + "."})
		}
		three := func(v float64) string { return unit.Digits(v, 3) }
		t.Rows = append(t.Rows, []Cell{{Text: curveName(c)}, {Text: estimated(&u.Lambda, count)}, {Text: around(&u.Sigma, three)},
			{Text: around(&u.Kappa, three)},
			{Text: best}, {Text: fmt.Sprintf("%.3f", u.R2)}, {Text: trust}})
	}
	if len(t.Rows) > 0 {
		s.Blocks = append([]Block{t}, distrust...)
	}
	return s
}

// around formats an estimate that may be 0 or negative, with its interval.
func around(e *record.Estimate, format func(float64) string) string {
	return fmt.Sprintf("%s (%s to %s)", format(e.Mid), format(e.Low), format(e.High))
}
