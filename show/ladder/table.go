package ladder

import (
	"fmt"
	"io"
	"slices"
	"strings"
	"text/tabwriter"

	"ceiling/internal/unit"
	"ceiling/show/page"
)

// columns of the ladder; all but the first and the last are numeric.
func columns() []string {
	return []string{"regime", "req/s", "range", "p99 at 70%", "CPU/req", "bytes", "fsyncs/s", "trips", "headroom", "bottleneck"}
}

// cells returns a row's cells, by column.
func (row *Row) cells() []string {
	p99, fsyncs, trips, cpu := "–", "–", "–", "–"
	if row.At70 != nil {
		p99 = unit.FormatNs(row.At70.P99Ns)
		if row.At70.Caveat != "" {
			p99 += " *"
		}
	}
	if row.Cost.ServerCPUNs > 0 {
		cpu = unit.FormatNsFloat(row.Cost.ServerCPUNs)
	}
	if row.Cost.FsyncsPer != nil {
		fsyncs = unit.FormatCount(int64(*row.Cost.FsyncsPer + 0.5))
	}
	if row.Cost.RoundTrips != nil {
		trips = unit.Digits(*row.Cost.RoundTrips, 2)
	}
	headroom := "unknown"
	if row.Headroom > 0 {
		headroom = Times(row.Headroom)
	}
	name := row.Bottleneck
	if row.Caveat != "" {
		headroom += " *"
		name += " *"
	}
	if row.Failed > 0 {
		name += fmt.Sprintf(" (%d of %d runs not valid)", row.Failed, row.PerS.N)
	}
	return []string{
		row.Regime, unit.FormatCount(int64(row.PerS.Value + 0.5)),
		unit.Range(unit.FormatSI(row.PerS.Low), "–", unit.FormatSI(row.PerS.High)), p99, cpu,
		unit.FormatBytesSI(int64(row.Cost.Bytes + 0.5)), fsyncs, trips, headroom, name,
	}
}

// Times formats a ratio: 1.2×, 13×, 180×.
func Times(x float64) string {
	if x < 10 {
		return fmt.Sprintf("%.1f×", x)
	}
	return fmt.Sprintf("%.0f×", x)
}

// Write prints the ladder as text.
func (l *Ladder) Write(w io.Writer) error {
	var b strings.Builder
	fmt.Fprintf(&b, "%s; %s\n\n", l.Server, l.CPUs)
	t := tabwriter.NewWriter(&b, 0, 0, 2, ' ', 0)
	fmt.Fprintln(t, strings.Join(columns(), "\t"))
	for i := range l.Rows {
		if row := &l.Rows[i]; row.NotMeasured == "" {
			fmt.Fprintln(t, strings.Join(row.cells(), "\t"))
		}
	}
	_ = t.Flush() // a Builder cannot fail
	b.WriteString("\n")
	for i := range l.Rows {
		l.Rows[i].explain(&b)
	}
	for _, line := range l.notes() {
		fmt.Fprintf(&b, "%s\n", line)
	}
	_, err := io.WriteString(w, b.String())
	return err
}

// explain writes what a request of the row does and why it is not faster.
func (row *Row) explain(b *strings.Builder) {
	fmt.Fprintf(b, "%-20s %s: %s\n", row.Regime, row.Request, row.About)
	indent := strings.Repeat(" ", 21)
	if row.NotMeasured != "" {
		fmt.Fprintf(b, "%snot measured: %s\n", indent, row.NotMeasured)
		return
	}
	for _, line := range row.reasons() {
		fmt.Fprintf(b, "%s%s\n", indent, line)
	}
}

// reasons returns the bottleneck's reasons, the next bottleneck, and the caveats.
func (row *Row) reasons() []string {
	lines := []string{row.Bottleneck + ": " + row.Reason}
	if row.Next != "" {
		lines = append(lines, "next: "+row.Next)
	}
	if row.Cost.Answered != nil && row.At70 != nil {
		lines = append(lines, fmt.Sprintf("answered %s of the requests, with %.3g calls of the downstream service for each",
			unit.Percent(*row.Cost.Answered), *row.Cost.RoundTrips))
	}
	if c := &row.Cost; c.Commits != nil {
		line := fmt.Sprintf("a request is %.3g × a commit of a quorum and %.3g × a question to a replica", *c.Commits, *c.RoundTrips)
		if c.CommitNs != nil {
			line += "; a commit takes " + unit.FormatNsFloat(*c.CommitNs) + " from the server's side"
		}
		lines = append(lines, line)
	}
	if p := row.Predicted; p != nil {
		holds := "as measured"
		if !p.Holds(&row.PerS) {
			holds = "which is not what was measured"
		}
		lines = append(lines, fmt.Sprintf("Little's law predicts %s to %s/s, %s: %s", unit.FormatSI(p.Low), unit.FormatSI(p.High), holds, p.Why))
	}
	if row.Caveat != "" {
		lines = append(lines, "* "+row.Caveat)
	}
	if row.At70 != nil && row.At70.Caveat != "" {
		lines = append(lines, "* p99 at 70%: "+row.At70.Caveat)
	}
	return lines
}

// notes describe how the figures were measured.
func (l *Ladder) notes() []string {
	notes := []string{
		fmt.Sprintf("req/s is the median of %s of %.3g s (with calls of a service 0.8 s at least), and their range (of 5 runs it holds the median with 94%% confidence). p99 at 70%% is an "+
			"open loop with Poisson arrivals at 70%% of that.", unit.Plural(l.Rounds, "closed-loop run", "closed-loop runs"), l.DurationS),
		"CPU/req is that of all processes of the server, the database's among them; bytes are the response's; trips are round trips to the database's process or a replica, or calls of the downstream service.",
	}
	for _, source := range []string{"sqlite", "postgres"} {
		if product := l.Databases[source]; product != "" {
			how := "its commits, one sync of the log each"
			if source == "postgres" {
				how = "by its own count of syncs of the log (pg_stat_wal)"
			}
			notes = append(notes, fmt.Sprintf("fsyncs of %s: %s.", product, how))
		}
	}
	if product := l.Databases["kv"]; product != "" {
		notes = append(notes, product+": sync_interval 2m0s, so a quorum has a write in memory, and the disk gets it later.")
	}
	return notes
}

// Table returns the whole ladder.
func (l *Ladder) Table() page.Table {
	return l.table(columns(), len(columns())-2, (*Row).cells)
}

// Short returns the columns for a journal's index: rate, p99, headroom, bottleneck, the next one, and
// the cost that explains the rate. Regimes of the same kind of work stand together, kinds and regimes
// fastest first.
func (l *Ladder) Short() page.Table {
	sorted := Ladder{Rows: slices.Clone(l.Rows)}
	kinds := map[string]int{}
	for i := range l.Rows {
		if kind := l.Rows[i].kind(); kinds[kind] == 0 {
			kinds[kind] = len(kinds) + 1
		}
	}
	slices.SortStableFunc(sorted.Rows, func(a, b Row) int { return kinds[a.kind()] - kinds[b.kind()] })
	return sorted.table([]string{"regime", "req/s", "range", "p99 at 70%", "headroom", "cost of a request", "bottleneck", "next"}, 4, func(row *Row) []string {
		all := row.cells()
		return []string{row.Regime + ": " + row.About, all[1], all[2], all[3], all[8], row.cost(), row.Bottleneck, row.next()}
	})
}

// kind returns the kind of work, the first word of the regime's name: memory, sqlite.
func (row *Row) kind() string {
	kind, _, _ := strings.Cut(row.Regime, "-")
	return kind
}

// table makes a table whose first column is text, and so many after it are numeric.
func (l *Ladder) table(names []string, numeric int, cells func(*Row) []string) page.Table {
	table := page.Table{Caption: "What a request costs, by what it does"}
	for i, name := range names {
		table.Columns = append(table.Columns, page.Column{Name: name, Figure: i > 0 && i <= numeric})
	}
	for i := range l.Rows {
		row := &l.Rows[i]
		if row.NotMeasured != "" {
			continue
		}
		var list []page.Cell
		for _, text := range cells(row) {
			list = append(list, page.Cell{Text: text})
		}
		table.Rows = append(table.Rows, list)
	}
	return table
}

// cost summarises the cost of one request.
func (row *Row) cost() string {
	var list []string
	if row.Cost.ServerCPUNs > 0 {
		list = append(list, unit.FormatNsFloat(row.Cost.ServerCPUNs)+" CPU")
	}
	list = append(list, unit.FormatBytesSI(int64(row.Cost.Bytes+0.5)))
	if f := row.Cost.Fsyncs; f != nil {
		list = append(list, unit.Digits(*f, 2)+" fsyncs")
	}
	if t := row.Cost.RoundTrips; t != nil {
		list = append(list, unit.Digits(*t, 2)+" round trips")
	}
	return strings.Join(list, ", ")
}

// next returns the name of the next bottleneck: the part of its sentence before the comma.
func (row *Row) next() string {
	name, _, _ := strings.Cut(row.Next, ",")
	if name == "" {
		return "–"
	}
	return name
}

// Page returns the ladder as a page.
func (l *Ladder) Page() page.Document {
	why := page.Section{ID: "why", Title: "What limits each"}
	for i := range l.Rows {
		row := &l.Rows[i]
		lines := []string{"not measured: " + row.NotMeasured}
		if row.NotMeasured == "" {
			lines = row.reasons()
		}
		list := page.List{}
		for _, line := range lines {
			list.Items = append(list.Items, page.Item{Text: line})
		}
		why.Blocks = append(why.Blocks, page.Heading{Text: row.Regime}, page.Paragraph{Text: row.Request + ": " + row.About}, list)
	}
	how := page.Section{ID: "how", Title: "How it was measured"}
	for _, note := range l.notes() {
		how.Blocks = append(how.Blocks, page.Paragraph{Text: note})
	}
	sections := []page.Section{{ID: "ladder", Title: "The ladder", Blocks: []page.Block{l.Table()}}, why, how}
	if s, ok := l.answer(); ok {
		sections = append([]page.Section{s}, sections...)
	}
	return page.Document{
		Title: "ceiling regimes", Subtitle: "Regimes: the work decides the number",
		Lead:     "The same server on the same machine, doing different work: " + l.Server + "; " + l.CPUs + ".",
		Sections: sections,
		Footer:   "ceiling " + l.Version + ", " + l.Created.Format("2006-01-02 15:04 MST"),
	}
}
