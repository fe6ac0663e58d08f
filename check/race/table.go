package race

import (
	"fmt"
	"io"
	"slices"
	"strings"
	"text/tabwriter"

	"ceiling/internal/stat"
	"ceiling/internal/unit"
	"ceiling/show/page"
)

// Write prints a race for a person, with tables at most 104 columns wide: one for each
// case, what was held equal, who took part, what is doubtful, and the targets.
func (r *Result) Write(w io.Writer) error {
	var b strings.Builder
	line := func(name, text string) { fmt.Fprintf(&b, "%-12s%s\n", name, text) }
	for i := range r.Cases {
		c := &r.Cases[i]
		fmt.Fprintf(&b, "%s: %s\n", c.Name, c.title())
		writeTable(&b, c.table())
		for _, text := range c.absent() {
			line("not raced", text)
		}
		b.WriteString("\n")
	}
	for _, f := range r.method() {
		line(f.name, f.text)
	}
	b.WriteString("\n")
	for _, f := range r.entrants() {
		line("contestant", f.name+": "+f.text)
	}
	for _, d := range r.Caveats {
		line("caveat", d)
	}
	if len(r.Verdicts) > 0 {
		b.WriteString("\n")
	}
	for _, v := range r.Verdicts {
		line("target", fmt.Sprintf("%s: %s, at most %s: %s", v.Figure, between(&v.Estimate), figure(v.Limit), v.Says))
	}
	_, err := io.WriteString(w, b.String())
	return err
}

// writeTable writes names at the left, as wide as the longest, and figures at the right.
func writeTable(b *strings.Builder, t page.Table) {
	lines := make([][]string, 1+len(t.Rows))
	for _, c := range t.Columns {
		lines[0] = append(lines[0], c.Name)
	}
	wide := len(lines[0][0])
	for i, row := range t.Rows {
		for _, c := range row {
			lines[1+i] = append(lines[1+i], c.Text)
		}
		wide = max(wide, len(row[0].Text))
	}
	w := tabwriter.NewWriter(b, 0, 0, 2, ' ', tabwriter.AlignRight)
	for _, cells := range lines {
		fmt.Fprintf(w, "%-*s\t%s\t\n", wide, cells[0], strings.Join(cells[1:], "\t"))
	}
	_ = w.Flush() // a Builder takes everything
}

// title says what the case is.
func (c *CaseResult) title() string {
	if c.PerS > 0 {
		return fmt.Sprintf("%s; open loop at %s req/s", c.About, unit.FormatSI(float64(c.PerS)))
	}
	return c.About
}

// absent are those who were not raced, and why.
func (c *CaseResult) absent() (list []string) {
	for i := range c.Rows {
		if row := &c.Rows[i]; row.NotRaced != "" {
			list = append(list, row.Name+": "+row.NotRaced)
		}
	}
	return list
}

// table is the figures of a case.
func (c *CaseResult) table() page.Table {
	names := []string{"CPU µs", "/nginx", "95%", "req/s", "open p99", "MB", "err"}
	if c.Idle {
		names = []string{"held", "bytes each", "req/s", "errors"}
	}
	if c.Outage != "" {
		names = []string{"requests", "failed", "wrong", "longest ms"}
	}
	t := page.Table{Caption: "Figures of " + c.Name, Columns: []page.Column{{Name: "contestant"}}}
	for _, name := range append(names, "config") {
		t.Columns = append(t.Columns, page.Column{Name: name, Figure: true})
	}
	for i := range c.Rows {
		row := &c.Rows[i]
		if texts := row.figures(c); texts != nil {
			t.Rows = append(t.Rows, page.Cells(slices.Concat([]string{row.Name}, texts, []string{row.Hash})...))
		}
	}
	return t
}

// figures are a row's cells; none for who was not raced.
func (row *Row) figures(c *CaseResult) []string {
	switch {
	case c.Idle && row.Idle != nil:
		d := row.Idle
		return []string{unit.FormatCount(int64(d.Held)) + " of " + unit.FormatCount(int64(d.Wanted)), fmt.Sprintf("%.0f", d.BytesPerConnection),
			unit.FormatCount(int64(d.PerS)), fmt.Sprint(d.Errors)}
	case c.Outage != "" && row.Outage != nil:
		o := row.Outage
		return []string{fmt.Sprint(o.Requests), fmt.Sprint(o.Failed), fmt.Sprint(o.Wrong), fmt.Sprintf("%.0f", float64(o.LongestNs)/1e6)}
	case row.NotRaced != "" || row.NsPerRequest == nil:
		return nil
	}
	ratio, interval, last := "", "", ""
	if row.OpenP99Ns != nil {
		last = unit.FormatNs(int64(row.OpenP99Ns.Value))
	}
	if row.Name == Nginx {
		ratio = "1"
	}
	if e := row.ToNginx; e != nil {
		ratio, interval = figure(e.Value), figure(e.Low)+"–"+figure(e.High)
	}
	perS := fmt.Sprintf("%.0f", row.PerS.Value) // without separators: the column would be too wide
	return []string{fmt.Sprintf("%.1f", row.NsPerRequest.Value/1e3), ratio, interval, perS, last,
		figure(row.Memory.Value / 1e6), fmt.Sprint(row.Errors)}
}

// between is a figure with its interval.
func between(e *stat.Estimate) string {
	return fmt.Sprintf("%s (%s to %s)", figure(e.Value), figure(e.Low), figure(e.High))
}

// figure is a number for the eye: three digits, and no exponent.
func figure(x float64) string {
	switch {
	case x >= 100:
		return fmt.Sprintf("%.0f", x)
	case x >= 10:
		return fmt.Sprintf("%.1f", x)
	}
	return fmt.Sprintf("%.2f", x)
}
