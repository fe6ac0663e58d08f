package race

import (
	"fmt"
	"io"
	"strings"
	"text/tabwriter"

	"ceiling/internal/stat"
	"ceiling/internal/unit"
)

// Write prints a race for a person, at most 100 columns wide: a table for each
// case, what was held equal, who took part, what is doubtful, and the targets.
func (r *Result) Write(w io.Writer) error {
	var b strings.Builder
	for i := range r.Cases {
		r.writeCase(&b, &r.Cases[i])
	}
	for _, f := range r.method() {
		wrapped(&b, fmt.Sprintf("%-12s", f.name), f.text)
	}
	r.writeEntrants(&b)
	for _, d := range r.Caveats {
		wrapped(&b, "caveat      ", d)
	}
	if len(r.Verdicts) > 0 {
		b.WriteString("\n")
	}
	for _, v := range r.Verdicts {
		wrapped(&b, "target      ", fmt.Sprintf("%s: %s, at most %s: %s", v.Figure, between(v.Value, v.Low, v.High), figure(v.Limit), v.Says))
	}
	_, err := io.WriteString(w, b.String())
	return err
}

func (r *Result) writeCase(b *strings.Builder, c *CaseResult) {
	fmt.Fprintf(b, "%s: %s\n", c.Name, c.title())
	t := tabwriter.NewWriter(b, 0, 0, 2, ' ', tabwriter.AlignRight)
	switch {
	case c.Idle:
		fmt.Fprintf(t, "%s\theld\tbytes each\trequests/s\terrors\tconfig\t\n", named(""))
	case c.Outage != "":
		fmt.Fprintf(t, "%s\t%s\tconfig\t\n", named(""), strings.Join(outageColumns(), "\t"))
	default:
		fmt.Fprintf(t, "%s\tCPU µs\t/nginx\t\treq/s\tp99\t%s\tcalls\tMB\terr\tconfig\t\n", named(""), c.lastColumn())
	}
	var absent []string
	for i := range c.Rows {
		row := &c.Rows[i]
		if row.NotRaced != "" {
			absent = append(absent, row.Name+": "+row.NotRaced)
		}
		switch {
		case c.Idle && row.Idle != nil:
			d := row.Idle
			fmt.Fprintf(t, "%s\t%s\t%.0f\t%s\t%d\t%s\t\n", named(row.Name), d.held(), d.BytesPerConnection, unit.FormatCount(int64(d.PerS)), d.Errors,
				row.Hash)
		case c.Outage != "" && row.Outage != nil:
			fmt.Fprintf(t, "%s\t%s\t%s\t\n", named(row.Name), strings.Join(row.Outage.says(), "\t"), row.Hash)
		case row.NotRaced == "" && row.NsPerRequest != nil:
			writeRow(t, c, row)
		}
	}
	_ = t.Flush() // a Builder takes everything
	for i := range c.Rows {
		if times := c.Rows[i].Times; c.GoWrk && times != nil {
			wrapped(b, "times       ", fmt.Sprintf("%s: fastest %s, average %s, slowest %s", c.Rows[i].Name, unit.FormatNs(times.FastestNs),
				unit.FormatNs(int64(times.AverageNs+.5)), unit.FormatNs(times.SlowestNs)))
		}
	}
	for _, line := range absent {
		wrapped(b, "not raced   ", line)
	}
	b.WriteString("\n")
}

// title says what the case is.
func (c *CaseResult) title() string {
	if c.PerS > 0 {
		return fmt.Sprintf("%s; open loop at %s req/s", c.About, unit.FormatSI(float64(c.PerS)))
	}
	return c.About
}

// lastColumn is the latency at one rate for all, or what go-wrk would print where the
// load is like go-wrk's.
func (c *CaseResult) lastColumn() string {
	if c.GoWrk {
		return "go-wrk/s"
	}
	return "open p99"
}

func (c *CaseResult) last(row *Row) string {
	if c.GoWrk {
		return rate(row.GoWrkPerS)
	}
	return unit.FormatNs(int64(row.OpenP99Ns.Value))
}

func writeRow(t io.Writer, c *CaseResult, row *Row) {
	calls, ratio, interval := "?", "", ""
	if row.SyscallsPerRequest != nil {
		calls = figure(*row.SyscallsPerRequest)
	}
	if c.GoWrk {
		calls = ""
	}
	if row.Name == Nginx {
		ratio = "1"
	}
	if e := row.ToNginx; e != nil {
		ratio, interval = figure(e.Value), figure(e.Low)+"–"+figure(e.High)
	}
	fmt.Fprintf(t, "%s\t%.1f\t%s\t%s\t%s\t%s\t%s\t%s\t%s\t%d\t%s\t\n", named(row.Name), row.NsPerRequest.Value/1e3, ratio, interval,
		rate(row.PerS),
		unit.FormatNs(int64(row.P99Ns.Value)), c.last(row), calls, figure(row.Memory.Value/1e6), row.Errors, row.Hash)
}

// named is a name as wide as the longest, so that it stands at the left of a table
// whose columns stand at the right.
func named(name string) string { return fmt.Sprintf("%-*s", len(Prefork), name) }

// rate has no separators: a column of them would be too wide for 100 columns.
func rate(e *stat.Estimate) string { return fmt.Sprintf("%.0f", e.Value) }

// between is a figure with its interval.
func between(value, low, high float64) string {
	return fmt.Sprintf("%s (%s to %s)", figure(value), figure(low), figure(high))
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

// held is how many connections were open at the end.
func (d *Idle) held() string {
	return unit.FormatCount(int64(d.Held)) + " of " + unit.FormatCount(int64(d.Wanted))
}

func (r *Result) writeEntrants(b *strings.Builder) {
	b.WriteString("\n")
	for _, e := range r.Entrants {
		wrapped(b, "contestant  ", e.Name+": "+e.says())
	}
}

// columns is how wide a line may be.
const columns = 100

// wrapped writes a paragraph behind a name, and indents what follows as far.
func wrapped(b *strings.Builder, name, text string) {
	indent := strings.Repeat(" ", len(name))
	width := len(name)
	b.WriteString(name)
	for i, word := range strings.Fields(text) {
		n := len([]rune(word))
		if i > 0 && width+1+n > columns {
			b.WriteString("\n" + indent)
			width = len(name)
		} else if i > 0 {
			b.WriteString(" ")
			width++
		}
		b.WriteString(word)
		width += n
	}
	b.WriteString("\n")
}
