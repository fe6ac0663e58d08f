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
	r.writeEqual(&b)
	r.writeEntrants(&b)
	for _, d := range r.Caveats {
		wrapped(&b, "caveat      ", d)
	}
	if len(r.Verdicts) > 0 {
		b.WriteString("\n")
	}
	for _, v := range r.Verdicts {
		wrapped(&b, "target      ", fmt.Sprintf("%s: %s (%s to %s), at most %s: %s", v.Figure, figure(v.Value), figure(v.Low), figure(v.High),
			figure(v.Limit), v.Says))
	}
	_, err := io.WriteString(w, b.String())
	return err
}

func (r *Result) writeCase(b *strings.Builder, c *CaseResult) {
	fmt.Fprintf(b, "%s: %s", c.Name, c.About)
	if c.PerS > 0 {
		fmt.Fprintf(b, "; open loop at %s/s", unit.FormatSI(float64(c.PerS)))
	}
	b.WriteByte('\n')
	t := tabwriter.NewWriter(b, 0, 0, 2, ' ', tabwriter.AlignRight)
	last := "open p99" // or, with a load like go-wrk's, what that would print
	if c.GoWrk {
		last = "go-wrk/s"
	}
	if c.Idle {
		fmt.Fprintf(t, "%s\theld\tbytes each\trequests/s\terrors\tconfig\t\n", named(""))
	} else {
		fmt.Fprintf(t, "%s\tCPU µs\t/nginx\t\treq/s\tp99\t%s\tcalls\tMB\terr\tconfig\t\n", named(""), last)
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
			fmt.Fprintf(t, "%s\t%d of %d\t%.0f\t%.0f\t%d\t%s\t\n", named(row.Name), d.Held, d.Wanted, d.BytesPerConnection, d.PerS, d.Errors,
				row.Hash)
		case row.NotRaced == "" && row.NsPerRequest != nil:
			writeRow(t, c, row)
		}
	}
	_ = t.Flush() // a Builder takes everything
	for _, line := range absent {
		wrapped(b, "not raced   ", line)
	}
	b.WriteString("\n")
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
	last := ""
	if c.GoWrk {
		last = rate(row.GoWrkPerS)
	} else {
		last = unit.FormatNs(int64(row.OpenP99Ns.Value))
	}
	fmt.Fprintf(t, "%s\t%.1f\t%s\t%s\t%s\t%s\t%s\t%s\t%s\t%d\t%s\t\n", named(row.Name), row.NsPerRequest.Value/1e3, ratio, interval,
		rate(row.PerS),
		unit.FormatNs(int64(row.P99Ns.Value)), last, calls, figure(row.Memory.Value/1e6), row.Errors, row.Hash)
}

// named is a name as wide as the longest, so that it stands at the left of a table
// whose columns stand at the right.
func named(name string) string { return fmt.Sprintf("%-*s", len(Prefork), name) }

func rate(e *stat.Estimate) string { return fmt.Sprintf("%.0f", e.Value) }

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

func (r *Result) writeEqual(b *strings.Builder) {
	s, e := &r.Settings, &r.Environment
	wrapped(b, "equal       ", fmt.Sprintf("%d worker(s) each; %d connections that stay; one request, byte for byte; one backend, `ceiling serve floor`, one thread, connections to it kept; %d rounds of %s, in an order of their own each, seed %d, after one that is thrown away",
		s.Workers, s.Connections, s.Rounds, unit.FormatNs(int64(s.DurationS*1e9)), s.Seed))
	wrapped(b, "checked     ", "before every case: what each passes on, by a backend that records it, and what comes back; in every round: errors, and the backend's count against the generator's")
	wrapped(b, "CPU         ", "of all processes of a contestant by their own clocks, over the requests of a closed loop; the ratio is of pairs from one round, with its 95% interval")
	wrapped(b, "p99         ", fmt.Sprintf("of the closed loop, where each has another load; open p99: at %s/s for all, where a case names no other rate, from when a request was due", unit.FormatSI(float64(s.PerS))))
	wrapped(b, "calls       ", "system calls a request; MB: proportional set size of all its processes")
	wrapped(b, "host        ", fmt.Sprintf("%s, %d CPUs, Linux %s; generator, backend and contestant share them", e.CPUModel, e.CoresAllowed,
		e.Kernel))
	for i := range r.Cases {
		if c := &r.Cases[i]; len(c.samples) > 0 {
			wrapped(b, "others      ", fmt.Sprintf("%s: %.1f%% of the CPU time used was nobody's of the race, %.1f%% at most", c.Name,
				c.OthersMedian*100, c.OthersMax*100))
		}
	}
}

func (r *Result) writeEntrants(b *strings.Builder) {
	b.WriteString("\n")
	for _, e := range r.Entrants {
		text := e.Name + " " + e.Version + ", program " + e.Binary
		if e.Missing != "" {
			text = e.Name + ", " + e.Missing
		} else if e.Differs != "" {
			text += "; " + e.Differs
		}
		wrapped(b, "contestant  ", text)
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
