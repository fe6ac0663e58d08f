package report

import (
	"fmt"
	"io"
	"slices"
	"strconv"
	"strings"

	"ceiling/experiment/spec"
	"ceiling/internal/unit"
	"ceiling/record"
	"ceiling/show/layout"
	"ceiling/verdict/prose"
)

// Plan writes the result of a plan: figures first, the answer in words last, at the bottom of the
// terminal.
func Plan(w io.Writer, p *record.Plan, l Layout) error {
	out := &printer{w: w, Layout: l}
	if q := p.Experiment.Question; q != "" {
		out.text(0, q)
		out.line("")
	}
	if h := p.Experiment.Hypothesis; h != "" {
		out.text(0, "hypothesis: "+h)
		out.line("")
	}
	if p.CPUs != nil {
		out.text(0, prose.Text(p.CPUs.Says))
		out.line("")
	}
	if link := p.Experiment.LinkSays(); link != "" {
		out.text(0, "link: "+link)
		out.line("")
	}
	found := p.Answer()
	if _, compares := found.(*record.Comparison); len(p.Runs) == 0 && !compares {
		found = record.NoAnswer{} // nothing to tabulate
	}
	switch a := found.(type) {
	case *record.Sweep:
		sweep(out, a)
	case *record.Search:
		search(out, a)
	case *record.Proof:
		proof(out, a)
	case *record.Comparison:
		comparison(out, a)
	case *record.Factorial:
		factorial(out, a)
	}
	if next := NextCommand(p); next != "" && p.Ended != record.EndedInterrupted && p.Ended != record.EndedFailed {
		out.fact("next", next) // of the others the line below says it
	}
	switch p.Ended {
	case record.EndedComplete, record.EndedConverged:
	case "":
		out.fact("unfinished", fmt.Sprintf("after %s; %s", unit.Plural(len(p.Runs), "run", "runs"), prose.Text(p.Onward())))
	default:
		if why := prose.Text(p.Because); p.Search == nil || !strings.Contains(strings.ToLower(prose.Text(p.Search.Says)), strings.ToLower(why)) {
			out.fact(p.Ended, why) // the answer already states it
		}
	}
	return out.err
}

// Steps writes a plan's steps before it runs, and their total.
func Steps(w io.Writer, e *spec.Experiment, steps []record.Step, total string, l Layout) error {
	out := &printer{w: w, Layout: l}
	if len(steps) == 0 {
		out.text(0, "A search picks each step from the previous result, so no fixed plan can be printed: "+total+".")
		return out.err
	}
	t := layout.Table{Columns: []layout.Column{{Name: "run", Right: true}, {Name: "server", Least: 12, Drop: 1}, {Name: "requests", Least: 8, Drop: 2},
		{Name: "conns", Right: true}, {Name: "pipe", Right: true, Drop: 3}, {Name: "threads", Right: true, Drop: 5}, {Name: "rate", Right: true, Drop: 4},
		{Name: "what"}}}
	if len(e.Load.Threads) < 2 {
		t.Columns[5].Drop = layout.Hidden
	}
	for _, s := range steps {
		rate := "-"
		if !s.Rate.IsZero() {
			rate = s.Rate.String()
		}
		t.Rows = append(t.Rows, []string{strconv.Itoa(s.Number), e.Servers[s.Server].Label(), e.Requests[s.Mix].Label(),
			strconv.Itoa(s.Connections), strconv.Itoa(s.Pipelining), strconv.Itoa(s.Threads), rate,
			strings.Trim(e.CellLabel(s.Cell)+", "+s.Part(), ", ")})
	}
	out.table(&t)
	out.line("\n%s", total)
	if link := e.LinkSays(); link != "" {
		out.line("link: %s", link)
	}
	return out.err
}

// sweep writes a table per curve, or one per mix if the load does not vary. Caveats shared by all
// appear once, at the end.
func sweep(out *printer, s *record.Sweep) {
	var shared []record.Statement
	if len(s.Curves) > 1 {
		shared = sharedCaveats(s.Curves)
	}
	for at := 0; at < len(s.Curves); {
		if at > 0 {
			out.line("")
		}
		c := &s.Curves[at]
		if c.Over != "" {
			curve(out, c, shared)
			at++
			continue
		}
		end := at + 1
		for end < len(s.Curves) && s.Curves[end].Mix == c.Mix {
			end++
		}
		servers(out, s.Curves[at:end], shared)
		at = end
	}
	if len(shared) > 0 {
		out.line("")
		out.facts("caveats", prose.Texts(shared))
	}
}

// sharedCaveats returns the caveats that every curve has.
func sharedCaveats(curves []record.Curve) []record.Statement {
	var shared []record.Statement
	for _, d := range curves[0].Caveats {
		if !slices.ContainsFunc(curves, func(c record.Curve) bool { return !slices.ContainsFunc(c.Caveats, d.Same) }) {
			shared = append(shared, d)
		}
	}
	return shared
}

// servers writes a table of curves that differ only in the server.
func servers(out *printer, curves []record.Curve, shared []record.Statement) {
	title := curves[0].Mix
	if fixed := prose.Fixed(&curves[0]); fixed != "" {
		title += ", " + fixed
	}
	out.text(0, title)
	t := curveTable(out, layout.Column{Name: "server", Least: 12})
	for _, c := range curves {
		addPoint(t, c.Server, &c.Points[0])
	}
	out.table(t)
	for _, c := range curves {
		for _, d := range c.Caveats {
			if !slices.ContainsFunc(shared, d.Same) {
				out.fact("caveat", c.Server+": "+prose.Text(d))
			}
		}
	}
}

// curveTable has a row per point of a curve, with its rate as a bar. On a narrow screen, wide and
// less informative columns are dropped first.
func curveTable(p *printer, first layout.Column) *layout.Table {
	t := &layout.Table{Columns: []layout.Column{first, {Name: "req/s", Right: true}, {Name: "range", Drop: 2}, {Name: "p50", Right: true, Drop: 1},
		{Name: "p99", Right: true}, {Name: "mean", Right: true, Drop: 5}, {Name: "in flight", Right: true, Drop: 7}, {Name: "MB/s", Right: true, Drop: 6},
		{Name: "server", Right: true, Drop: 3}, {Name: "gen.", Right: true, Drop: 4}, {Name: "bottleneck", Least: 12}}}
	return t
}

func addPoint(t *layout.Table, name string, p *record.CurvePoint) {
	ceiling := string(p.Bottleneck)
	if !p.Outcome.Sound() {
		ceiling = string(p.Outcome) + ": " + ceiling
	}
	q := p.Held()
	t.Rows = append(t.Rows, []string{name, unit.FormatCount(int64(p.PerS.Mid + 0.5)), reach(&p.PerS, unit.FormatSI),
		q.Text(.5), q.Text(.99), q.MeanText(nil), unit.DigitsOr(p.InFlight.Mid, 3, "-"),
		unit.DigitsOr(p.ReadBytesPerS.Mid/1e6, 3, "-"),
		cpu(&p.ServerCPUNs), cpu(&p.GeneratorCPUNs), ceiling})
	t.Bars = append(t.Bars, p.PerS.Mid)
}

// curve writes a table whose last column is a bar chart.
func curve(out *printer, c *record.Curve, shared []record.Statement) {
	title := spec.Loaded(c.Server, c.Mix)
	if fixed := prose.Fixed(c); fixed != "" {
		title += ", " + fixed
	}
	out.text(0, title)
	t := curveTable(out, layout.Column{Name: map[string]string{"connections": "conns"}[c.Over], Right: true})
	if t.Columns[0].Name == "" {
		t.Columns[0].Name = c.Over
	}
	for _, p := range c.Points {
		addPoint(t, unit.FormatCount(int64(p.X)), &p)
	}
	out.table(t)
	out.line("")
	usl(out, c.USL)
	own := slices.DeleteFunc(slices.Clone(c.Caveats), func(d record.Statement) bool { return slices.ContainsFunc(shared, d.Same) })
	out.facts("caveats", prose.Texts(own))
	out.answer(prose.Text(c.Says))
}

// answer writes the answer last, where the reader looks first.
func (p *printer) answer(says string) {
	for i, line := range p.Wrap(says, p.Width()-column) {
		p.line("%s", p.Bold(fmt.Sprintf("%-*s%s", column, []string{"answer", ""}[min(i, 1)], line)))
	}
}

// facts writes several texts under one name.
func (p *printer) facts(name string, texts []string) {
	for i, text := range texts {
		p.fact([]string{name, ""}[min(i, 1)], text)
	}
}

// reach formats an estimate's interval: 12.1k to 12.5k; "" if it has no width.
func reach(e *record.Estimate, format func(float64) string) string {
	if e.Low == e.High {
		return ""
	}
	return format(e.Low) + "–" + format(e.High)
}

func cpu(e *record.Estimate) string {
	if !(e.Mid > 0) {
		return "-"
	}
	return unit.FormatNs(int64(e.Mid + 0.5))
}

func usl(out *printer, u *record.USL) {
	if u == nil || !u.Trusted && !out.Verbose {
		return
	}
	text := fmt.Sprintf("contention %s, coherency %s, R² %.3f", figure(&u.Sigma, 3), figure(&u.Kappa, 3), u.R2)
	switch {
	case u.Best != nil:
		text += fmt.Sprintf("; best concurrency %.0f (%s), there %s", u.Best.Mid, whole(u.Best), unit.FormatRate(u.PeakPerS.Mid))
	case u.BestAtLeast > 0:
		text += fmt.Sprintf("; no peak in the measured range (lower bound on best concurrency: %.0f)", u.BestAtLeast)
	}
	out.fact("scaling", text)
	if !u.Trusted {
		out.facts("fit not usable", prose.Texts(u.Warnings))
	}
}

// whole returns the interval of a count.
func whole(e *record.Estimate) string {
	return unit.Range(fmt.Sprintf("%.0f", e.Low), "–", fmt.Sprintf("%.0f", e.High))
}

func figure(e *record.Estimate, digits int) string {
	return unit.Digits(e.Mid, digits) + " (" + unit.Range(unit.Digits(e.Low, digits), "–", unit.Digits(e.High, digits)) + ")"
}

func search(out *printer, s *record.Search) {
	t := layout.Table{Columns: []layout.Column{{Name: "req/s", Right: true}, {Name: "runs", Right: true, Drop: 3}, {Name: "pass", Right: true},
		{Name: "fail", Right: true}, {Name: "invalid", Right: true, Drop: 4}, {Name: "p50", Right: true, Drop: 2}, {Name: "p99", Right: true},
		{Name: "bottleneck", Least: 12}}}
	rates, hidden := out.nearest(s)
	for _, r := range rates {
		t.Rows = append(t.Rows, []string{unit.FormatCount(int64(r.PerS + 0.5)), strconv.Itoa(r.Runs), strconv.Itoa(r.Pass),
			strconv.Itoa(r.Fail), strconv.Itoa(r.Invalid), triedP50(&r),
			triedP99(&r), bottleneck(triedOutcome(&r), r.Bottleneck)})
	}
	out.table(&t)
	out.line("")
	out.fact("SLO", s.SLO)
	out.caveats(s.Caveats, hidden, "rate")
	out.fact("highest rate", capacity(&s.Capacity))
	out.answer(prose.Text(s.Says))
}

// On a screen a plan's answer fits one screen; -v shows the rest.
const (
	ratesMost   = 9
	caveatsMost = 3
)

// nearest returns the rates around the highest that meets the SLO, and the number of the other
// rates.
func (p *printer) nearest(s *record.Search) (rates []record.TriedRate, others int) {
	if !p.Screen || p.Verbose || len(s.Rates) <= ratesMost {
		return s.Rates, 0
	}
	at := 0
	for i := range s.Rates {
		if s.Rates[i].PerS <= s.Capacity.Mid {
			at = i
		}
	}
	from := min(max(at-ratesMost/2, 0), len(s.Rates)-ratesMost)
	return s.Rates[from : from+ratesMost], len(s.Rates) - ratesMost
}

// caveats writes a plan's caveats: on a screen, the first ones and the number of those omitted,
// along with other omitted items.
func (p *printer) caveats(list []record.Statement, others int, of string) {
	shown := list
	if p.Screen && !p.Verbose && len(list) > caveatsMost+1 {
		shown = list[:caveatsMost]
	}
	p.facts("caveats", prose.Texts(shown))
	var more []string
	if n := len(list) - len(shown); n > 0 {
		more = append(more, unit.Plural(n, "more caveat", "more caveats"))
	}
	if others > 0 {
		more = append(more, unit.Plural(others, "more "+of, "more "+of+"s"))
	}
	if len(more) > 0 {
		p.fact("", strings.Join(more, " and ")+" with -v")
	}
}

// capacity formats a rate and its bracket, with the unit once.
func capacity(e *record.Estimate) string {
	text := unit.FormatRate(e.Mid)
	if e.Low != e.High {
		text += " (" + unit.Range(unit.FormatCount(int64(e.Low+0.5)), "–", unit.FormatCount(int64(e.High+0.5))) + ")"
	}
	return text
}

// triedOutcome returns the majority outcome of the runs at a rate.
func triedOutcome(r *record.TriedRate) record.Outcome {
	switch {
	case r.Fail > r.Pass:
		return record.Fail
	case r.Pass > 0:
		return record.Pass
	}
	return record.Invalid
}

// triedP50 uses the same runs as triedP99; it is omitted if they were stopped early, because it
// would mislead.
func triedP50(r *record.TriedRate) string {
	if triedOutcome(r) == record.Fail && r.Pass+r.StoppedEarly > 0 {
		return "-"
	}
	return times(&r.Response, .5)
}

// triedP99 uses the decisive runs: those that failed if the rate failed.
func triedP99(r *record.TriedRate) string {
	switch {
	case triedOutcome(r) != record.Fail || r.MissedP99Ns == 0:
		return times(&r.Response, .99)
	case r.MissedAtLeast:
		return "≥ " + unit.FormatNs(r.MissedP99Ns) + ", ended early"
	}
	return unit.FormatNs(r.MissedP99Ns)
}

// times formats a quantile, if there is one.
func times(l *record.Quantiles, q float64) string {
	if !l.Known() {
		return "-"
	}
	return l.Text(q)
}

func proof(out *printer, p *record.Proof) {
	t := layout.Table{Columns: []layout.Column{{Name: "resource"}, {Name: "left", Right: true}, {Name: "req/s", Right: true}, {Name: "elasticity", Right: true},
		{Name: "95% CI", Drop: 1}, {Name: "how", Drop: 2, Least: 10}}}
	t.Rows = append(t.Rows, []string{"-", "100%", unit.FormatCount(int64(p.PerS.Mid + 0.5)), "", "", ""})
	for _, r := range p.Resources {
		t.Rows = append(t.Rows, []string{r.Resource, fmt.Sprintf("%.0f%%", 100*r.Left), unit.FormatCount(int64(r.PerS.Mid + 0.5)),
			fmt.Sprintf("%.2f", r.Elasticity.Mid), fmt.Sprintf("%.2f–%.2f", r.Elasticity.Low, r.Elasticity.High), r.How})
	}
	t.Rows = append(t.Rows, []string{"sum", "", "", fmt.Sprintf("%.2f", p.Sum.Mid), fmt.Sprintf("%.2f–%.2f", p.Sum.Low, p.Sum.High), ""})
	out.table(&t)
	out.line("")
	for i, n := range p.NotTested {
		out.fact([]string{"not tested", ""}[min(i, 1)], n.Resource+": "+prose.Text(n.Why))
	}
	out.caveats(p.Caveats, 0, "")
	out.answer(prose.Text(p.Says))
}

// Comparison writes a comparison of existing results.
func Comparison(w io.Writer, c *record.Comparison, l Layout) error {
	out := &printer{w: w, Layout: l}
	comparison(out, c)
	return out.err
}

func comparison(out *printer, c *record.Comparison) {
	out.fact("A", c.A)
	out.fact("B", c.B)
	for i, d := range c.Differences {
		text := fmt.Sprintf("%s: %s in A, %s in B", d.What, d.A, d.B)
		if !d.Why.IsZero() {
			text += " (" + d.Weight + ": " + prose.Text(d.Why) + ")"
		} else {
			text += " (" + d.Weight + ")"
		}
		out.fact([]string{"differs", ""}[min(i, 1)], text)
	}
	if len(c.Changes) > 0 {
		out.line("")
		t := layout.Table{Columns: []layout.Column{{}, {Name: "A", Right: true}, {Name: "B", Right: true}, {Name: "change", Right: true},
			{Name: "interval", Drop: 1}, {Name: "noise A/A", Drop: 2}, {Name: "decision"}}}
		for _, m := range c.Changes {
			row := []string{metricName(m.Metric), amount(m.A, m.Unit), amount(m.B, m.Unit), "-", "-", "-", m.Decision}
			if m.Measured() {
				row[3], row[4] = unit.Change(m.Relative.Mid), unit.Change(m.Relative.Low)+" to "+unit.Change(m.Relative.High)
				row[5] = fmt.Sprintf("±%.1f%%", 100*m.Floor)
			}
			t.Rows = append(t.Rows, row)
		}
		out.table(&t)
	}
	out.line("")
	for i, g := range c.Gate {
		out.fact([]string{"asked", ""}[min(i, 1)], fmt.Sprintf("%s %s: %s", g.Condition, g.Result, prose.Text(g.Says)))
	}
	for i := range c.Profiles {
		profileDifference(out, &c.Profiles[i])
	}
	out.caveats(c.Caveats, 0, "")
	out.answer(prose.Text(c.Says))
}

// metricName is a metric's name, short enough for a table of 60 columns.
func metricName(metric string) string {
	if metric == "server_cpu" {
		return "CPU/req"
	}
	return metric
}

func amount(v float64, unitName string) string {
	switch {
	case !(v > 0):
		return "-"
	case unitName == "ns":
		return unit.FormatNs(int64(v + 0.5))
	}
	return unit.FormatCount(int64(v + 0.5))
}
