package page

import (
	"cmp"
	"fmt"
	"maps"
	"slices"
	"strings"

	"ceiling/internal/unit"
	"ceiling/show/importer"
)

// Foreign is the page of other tools' results, side by side, under the names of their files. It
// has no verdict: neither the server nor the tool was monitored.
func Foreign(names []string, results []importer.Result) Document {
	title := "Results of other tools"
	if len(results) == 1 {
		title = fmt.Sprintf("A result of %s", results[0].Tool)
	}
	d := Document{Title: title, Subtitle: title, Lead: strings.Join(names, ", ")}
	d.Sections = append(d.Sections,
		Section{ID: "verdict", Title: "Verdict", Blocks: []Block{Notice{Text: "No verdict: another tool measured this and watched neither server nor generator, so the figures cannot be attributed to either."}}},
		Section{ID: "figures", Title: "What was printed", Blocks: []Block{importedTable(names, results)}},
	)
	if t := importedFailures(names, results); len(t.Rows) > 0 {
		d.Sections = append(d.Sections, Section{ID: "errors", Title: "Statuses and errors", Blocks: []Block{t}})
	}
	var caveats []Block
	for i := range results {
		items := make([]Item, len(results[i].Caveats))
		for j, text := range results[i].Caveats {
			items[j] = Item{Text: text}
		}
		if len(items) > 0 {
			caveats = append(caveats, List{Title: names[i], Items: items, Mark: "doubt"})
		}
	}
	if len(caveats) > 0 {
		d.Sections = append(d.Sections, Section{ID: "doubts", Title: "Limits of these figures", Blocks: caveats})
	}
	return d
}

// importedTable has a row per result, with a dash for what a tool did not print.
func importedTable(names []string, results []importer.Result) Table {
	t := Table{Caption: "Figures as printed; latencies count from where the column says", Columns: []Column{
		{Name: "file"}, {Name: "tool"}, {Name: "target"}, {Name: "loop"}, {Name: "connections", Figure: true}, {Name: "requests/s", Figure: true},
		{Name: "p50", Figure: true}, {Name: "p90", Figure: true}, {Name: "p99", Figure: true}, {Name: "p99.9", Figure: true},
		{Name: "max", Figure: true},
		{Name: "counted from"}, {Name: "requests", Figure: true}, {Name: "failed", Figure: true}, {Name: "took", Figure: true},
	}}
	for i := range results {
		r := &results[i]
		row := []string{names[i], r.Tool, cmp.Or(r.Target, "-"), cmp.Or(r.Loop, "-"), "-", unit.FormatCount(int64(r.CompletedPerS + 0.5))}
		if r.Connections > 0 {
			row[4] = unit.FormatCount(int64(r.Connections))
		}
		for _, q := range []float64{.5, .9, .99, .999} {
			text := "-"
			if ns, ok := r.Quantile(q); ok {
				text = unit.FormatNs(ns)
			}
			row = append(row, text)
		}
		longest := "-"
		if r.MaxNs != nil {
			longest = unit.FormatNs(*r.MaxNs)
		}
		row = append(row, longest, cmp.Or(r.From, "-"), unit.FormatCount(int64(r.Requests)), unit.FormatCount(int64(r.Failed())),
			fmt.Sprintf("%.3g s", r.DurationS))
		t.Rows = append(t.Rows, Cells(row...))
	}
	return t
}

// importedFailures counts statuses and errors by file.
func importedFailures(names []string, results []importer.Result) Table {
	t := Table{Caption: "Responses by status, and requests without one by cause",
		Columns: []Column{{Name: "file"}, {Name: "what"}, {Name: "count", Figure: true}}}
	for i := range results {
		for _, code := range slices.Sorted(maps.Keys(results[i].Statuses)) {
			t.Rows = append(t.Rows, Cells(names[i], "status "+code, unit.FormatCount(int64(results[i].Statuses[code]))))
		}
		for _, e := range results[i].Errors {
			t.Rows = append(t.Rows, Cells(names[i], e.What, unit.FormatCount(int64(e.Count))))
		}
	}
	return t
}

// Cells are cells of text.
func Cells(texts ...string) []Cell {
	row := make([]Cell, len(texts))
	for i, text := range texts {
		row[i] = Cell{Text: text}
	}
	return row
}
