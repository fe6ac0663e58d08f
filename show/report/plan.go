package report

import (
	"fmt"
	"io"
	"math"
	"slices"
	"strings"
	"text/tabwriter"
	"time"
	"unicode/utf8"

	"ceiling/experiment/spec"
	"ceiling/internal/unit"
	"ceiling/record"
)

// Plan writes the answer of a plan: the figures first, the answer in words last,
// as a terminal shows the end of a text.
func Plan(w io.Writer, p *record.Plan) error {
	out := &printer{w: w}
	if q := p.Experiment.Question; q != "" {
		out.line("%s\n", q)
	}
	if h := p.Experiment.Hypothesis; h != "" {
		out.line("hypothesis: %s\n", strings.Join(strings.Fields(h), " "))
	}
	if p.CPUs != nil {
		out.line("%s\n", p.CPUs.Says)
	}
	switch {
	case p.Sweep != nil:
		sweep(out, p.Sweep)
	case p.Search != nil:
		search(out, p.Search)
	case p.Proof != nil:
		proof(out, p.Proof)
	case p.Comparison != nil:
		comparison(out, p.Comparison)
	case p.Factorial != nil:
		factorial(out, p.Factorial)
	}
	switch p.Ended {
	case record.EndedComplete, record.EndedConverged:
	case "":
		out.fact("unfinished", fmt.Sprintf("after %s; %s", unit.Plural(len(p.Runs), "run", "runs"), p.Onward()))
	default:
		out.fact(p.Ended, p.Because)
	}
	return out.err
}

// Steps writes a plan before it is done.
func Steps(w io.Writer, e *spec.Experiment, steps []record.Step, takes time.Duration) error {
	out := &printer{w: w}
	if len(steps) == 0 {
		out.line("A search picks each step from the previous result, so there is no fixed plan to print.")
		return out.err
	}
	t := tabwriter.NewWriter(w, 0, 0, 2, ' ', 0)
	fmt.Fprintln(t, "RUN\tSERVER\tREQUESTS\tCONNECTIONS\tPIPELINING\tRATE\tWHAT")
	for _, s := range steps {
		rate := "-"
		if !s.Rate.IsZero() {
			rate = s.Rate.String()
		}
		fmt.Fprintf(t, "%d\t%s\t%s\t%d\t%d\t%s\t%s\n", s.Number, e.Servers[s.Server].Label(), e.Requests[s.Mix].Label(),
			s.Connections, s.Pipelining, rate, strings.Trim(e.CellLabel(s.Cell)+", "+s.Part(), ", "))
	}
	if err := t.Flush(); err != nil {
		return err
	}
	out.line("\n%s of %s, about %s including warm-ups and pauses", unit.Plural(len(steps), "run", "runs"),
		unit.FormatDuration(time.Duration(e.Load.Duration)), unit.FormatDuration(takes.Round(time.Second)))
	return out.err
}

// Step is one finished run of a plan in a line.
func Step(m *record.Measured, doing string) string {
	text := fmt.Sprintf("%3d %11s  p99 %-7s  %-7s %-22s  %s", m.Number, unit.FormatRate(m.CompletedPerS),
		unit.FormatNs(m.Response.P99Ns), m.Outcome, m.Bottleneck, doing)
	if m.StoppedEarly != "" {
		text += " (ended early: " + m.StoppedEarly + ")"
	}
	return text
}

// barWidth is that of the largest bar of a chart, in columns.
const barWidth = 12

// sweep writes a table for each curve, or one for each mix where the load does
// not differ. What is doubted of all is said once, at the end.
func sweep(out *printer, s *record.Sweep) {
	shared := sharedCaveats(s.Curves)
	for at := 0; at < len(s.Curves); {
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
	out.facts("caveats", shared)
}

// sharedCaveats are those that every curve has.
func sharedCaveats(curves []record.Curve) []string {
	var shared []string
	for _, d := range curves[0].Caveats {
		if !slices.ContainsFunc(curves, func(c record.Curve) bool { return !slices.Contains(c.Caveats, d) }) {
			shared = append(shared, d)
		}
	}
	return shared
}

// servers is a table of what differs in the server alone.
func servers(out *printer, curves []record.Curve, shared []string) {
	width, most := len("server"), 0.0
	for _, c := range curves {
		width, most = max(width, utf8.RuneCountInString(c.Server)), max(most, c.Points[0].PerS.Mid)
	}
	title := curves[0].Mix
	if curves[0].Fixed != "" {
		title += ", " + curves[0].Fixed
	}
	out.line("%s", title)
	out.line("%-*s %s", width, "server", pointHead)
	for _, c := range curves {
		out.line("%-*s %s", width, c.Server, pointLine(&c.Points[0], most))
	}
	for _, c := range curves {
		for _, d := range c.Caveats {
			if !slices.Contains(shared, d) {
				out.fact("caveat", c.Server+": "+d)
			}
		}
	}
	out.line("")
}

// pointHead and pointLine are the columns of a point.
const pointHead = "      req/s                       p50      p99     mean   server      gen.  bottleneck"

func pointLine(p *record.CurvePoint, most float64) string {
	ceiling := string(p.Bottleneck)
	if !p.Outcome.Sound() {
		ceiling = string(p.Outcome) + ": " + ceiling
	}
	return fmt.Sprintf("%11s %-16s %8s %8s %8s %8s %9s  %-22s %s", unit.FormatCount(int64(p.PerS.Mid+0.5)), reach(&p.PerS, unit.FormatSI),
		unit.FormatNs(p.Response.P50Ns), unit.FormatNs(p.Response.P99Ns), unit.FormatNs(int64(p.Response.MeanNs+0.5)), cpu(&p.ServerCPUNs),
		cpu(&p.GeneratorCPUNs), ceiling, bar(p.PerS.Mid, most))
}

// curve is a table whose last column is the chart.
func curve(out *printer, c *record.Curve, shared []string) {
	title := spec.Loaded(c.Server, c.Mix)
	if c.Fixed != "" {
		title += ", " + c.Fixed
	}
	out.line("%s", title)
	out.line("%11s %s", c.Over, pointHead)
	most := 0.0
	for _, p := range c.Points {
		most = max(most, p.PerS.Mid)
	}
	for _, p := range c.Points {
		out.line("%11s %s", unit.FormatCount(int64(p.X)), pointLine(&p, most))
	}
	out.line("")
	out.fact("answer", c.Says)
	usl(out, c.USL)
	out.facts("caveats", slices.DeleteFunc(slices.Clone(c.Caveats), func(d string) bool { return slices.Contains(shared, d) }))
	out.line("")
}

// facts writes several texts under one name.
func (p *printer) facts(name string, texts []string) {
	for i, text := range texts {
		p.fact([]string{name, ""}[min(i, 1)], text)
	}
}

// reach is an estimate's interval: 12.1k to 12.5k; nothing where it has no width.
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

// bar draws eighths of a column.
func bar(value, most float64) string {
	if !(most > 0) || !(value > 0) {
		return ""
	}
	eighths := int(math.Round(8 * barWidth * value / most))
	text := strings.Repeat("█", eighths/8)
	if rest := eighths % 8; rest > 0 {
		text += string([]rune("▏▎▍▌▋▊▉")[rest-1])
	}
	return text
}

func usl(out *printer, u *record.USL) {
	if u == nil {
		return
	}
	text := fmt.Sprintf("contention %s, coherency %s, R² %.3f", figure(&u.Sigma, 3), figure(&u.Kappa, 3), u.R2)
	switch {
	case u.Best != nil:
		text += fmt.Sprintf("; best concurrency %.0f (%.0f–%.0f), there %s", u.Best.Mid, u.Best.Low, u.Best.High, unit.FormatRate(u.PeakPerS.Mid))
	case u.BestAtLeast > 0:
		text += fmt.Sprintf("; no peak in the measured range (lower bound on best concurrency: %.0f)", u.BestAtLeast)
	}
	out.fact("scaling", text)
	if !u.Trusted {
		out.facts("fit not usable", u.Warnings)
	}
}

func figure(e *record.Estimate, digits int) string {
	return fmt.Sprintf("%.*g (%.*g–%.*g)", digits, e.Mid, digits, e.Low, digits, e.High)
}

func search(out *printer, s *record.Search) {
	out.line("%11s %6s %6s %6s %6s %9s %9s  %s", "rate", "runs", "pass", "fail", "invalid", "p50", "p99", "bottleneck")
	for _, r := range s.Rates {
		out.line("%11s %6d %6d %6d %6d %9s %9s  %s", unit.FormatRate(r.PerS), r.Runs, r.Pass, r.Fail, r.Invalid,
			times(r.Response.Count, r.Response.P50Ns), times(r.Response.Count, r.Response.P99Ns), r.Bottleneck)
	}
	out.line("")
	out.fact("SLO", s.SLO)
	out.fact("highest rate", fmt.Sprintf("%s (%s)", unit.FormatRate(s.Capacity.Mid), reach(&s.Capacity, unit.FormatRate)))
	out.fact("answer", s.Says)
	out.facts("caveats", s.Caveats)
}

// times is a quantile of a count that may be nothing.
func times(count uint64, ns int64) string {
	if count == 0 {
		return "-"
	}
	return unit.FormatNs(ns)
}

func proof(out *printer, p *record.Proof) {
	out.line("%-12s %8s %12s %12s   %-24s %s", "resource", "left", "req/s", "elasticity", "95% CI", "how")
	out.line("%-12s %8s %12s", "-", "100%", unit.FormatCount(int64(p.PerS.Mid+0.5)))
	for _, r := range p.Resources {
		out.line("%-12s %6.0f%% %12s %12.2f   %-24s %s", r.Resource, 100*r.Left, unit.FormatCount(int64(r.PerS.Mid+0.5)),
			r.Elasticity.Mid, fmt.Sprintf("%.2f–%.2f", r.Elasticity.Low, r.Elasticity.High), r.How)
	}
	out.line("%-12s %8s %12s %12.2f   %.2f–%.2f", "sum", "", "", p.Sum.Mid, p.Sum.Low, p.Sum.High)
	out.line("")
	out.fact("answer", p.Says)
	if p.Passive == "" {
		out.fact("verdict", "the runs' own verdicts do not agree on a bottleneck")
	} else {
		out.fact("verdict", fmt.Sprintf("the runs' own verdict is %s: %s", p.Passive, p.Agrees))
	}
	for i, n := range p.NotTested {
		out.fact([]string{"not tested", ""}[min(i, 1)], n.What+": "+n.Why)
	}
	out.facts("caveats", p.Caveats)
}

// Comparison writes one of results that were there before.
func Comparison(w io.Writer, c *record.Comparison) error {
	out := &printer{w: w}
	comparison(out, c)
	return out.err
}

func comparison(out *printer, c *record.Comparison) {
	out.fact("A", c.A)
	out.fact("B", c.B)
	for i, d := range c.Differences {
		text := fmt.Sprintf("%s: %s in A, %s in B", d.What, d.A, d.B)
		if d.Why != "" {
			text += " (" + d.Weight + ": " + d.Why + ")"
		} else {
			text += " (" + d.Weight + ")"
		}
		out.fact([]string{"differs", ""}[min(i, 1)], text)
	}
	if len(c.Changes) > 0 {
		out.line("\n%-12s %12s %12s %10s   %-22s %-10s %s", "", "A", "B", "change", "interval", "noise A/A", "")
	}
	for _, m := range c.Changes {
		out.line("%-12s %12s %12s %10s   %-22s %-10s  %s", m.Metric, amount(m.A, m.Unit), amount(m.B, m.Unit), signed(m.Relative.Mid),
			signed(m.Relative.Low)+" … "+signed(m.Relative.High), fmt.Sprintf("±%.1f%%", 100*m.Floor), m.Says)
	}
	out.line("")
	if c.Incomparable != "" {
		out.fact("answer", "they cannot be compared: "+c.Incomparable)
	} else {
		out.fact("answer", c.Says)
	}
	for i, g := range c.Gate {
		out.fact([]string{"asked", ""}[min(i, 1)], fmt.Sprintf("%s %s: %s", g.Condition, g.Result, g.Says))
	}
	out.facts("caveats", c.Caveats)
	for i := range c.Profiles {
		profileDifference(out, &c.Profiles[i])
	}
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

func signed(share float64) string { return fmt.Sprintf("%+.1f%%", 100*share) }
