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
	shared := SharedCaveats(s.Curves)
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

// SharedCaveats returns the caveats that every one of several curves has.
func SharedCaveats(curves []record.Curve) (shared []record.Statement) {
	if len(curves) < 2 {
		return nil
	}
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
	t := PointTable(layout.Column{Name: "server", Least: 12})
	for _, c := range curves {
		AddPoint(t, &c.Points[0], c.Server)
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

// curve writes a table whose last column is a bar chart.
func curve(out *printer, c *record.Curve, shared []record.Statement) {
	title := spec.Loaded(c.Server, c.Mix)
	if fixed := prose.Fixed(c); fixed != "" {
		title += ", " + fixed
	}
	out.text(0, title)
	t := PointTable(layout.Column{Name: strings.Replace(string(c.Over), "connections", "conns", 1), Right: true})
	for i := range c.Points {
		AddPoint(t, &c.Points[i], amount(c.Points[i].X, ""))
	}
	out.table(t)
	out.line("")
	usl(out, c.USL)
	own := slices.DeleteFunc(slices.Clone(c.Caveats), func(d record.Statement) bool { return slices.ContainsFunc(shared, d.Same) })
	out.facts("caveats", prose.Texts(own))
	out.answer(prose.Text(c.Says))
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
	rates, hidden := out.nearest(s)
	out.table(SearchTable(rates))
	out.line("")
	out.fact("SLO", s.SLO)
	out.caveats(s.Caveats, hidden, "rate")
	if s.Capacity.Mid > 0 {
		out.fact("highest rate", capacity(&s.Capacity))
	}
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

func proof(out *printer, p *record.Proof) {
	out.table(ProofTable(p))
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
		out.table(ChangeTable(c))
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

// factorial writes the cells, every effect, and the conclusion.
func factorial(out *printer, f *record.Factorial) {
	out.table(CellTable(f))
	out.line("")
	for _, metric := range EffectMetrics(f) {
		out.table(EffectTable(f, metric))
		out.line("")
	}
	for i, s := range f.Answer {
		out.fact([]string{"answer", ""}[min(i, 1)], prose.Text(s))
	}
	out.facts("caveats", prose.Texts(f.Caveats))
}
