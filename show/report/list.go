package report

import (
	"cmp"
	"fmt"
	"io"
	"strings"
	"time"

	"ceiling/internal/unit"
	"ceiling/record"
	"ceiling/show/layout"
	"ceiling/verdict/prose"
)

// KindRun is the kind of an entry for a single run.
const KindRun = "run"

// List writes the runs and plans of a store, one line each, as of now.
func List(w io.Writer, entries []record.Entry, now time.Time, l Layout) error {
	t := layout.Table{Columns: []layout.Column{{Name: "id"}, {Name: "when", Drop: 2}, {Name: "kind", Drop: 1}, {Name: "target", Least: 12, FromLeft: true},
		{Name: "load", Drop: 4}, {Name: "req/s", Right: true}, {Name: "p99", Right: true, Drop: 3}, {Name: "verdict"},
		{Name: "bottleneck", Least: 10}}}
	for i := range entries {
		e := &entries[i]
		cells := []string{cmp.Or(e.Short, e.ID), when(e.Started, now), cmp.Or(e.Kind, KindRun), target(e), load(e),
			"-", "-", cmp.Or(string(e.Outcome), e.Result, "-"), Limit(e.Outcome, e.Bottleneck)}
		if e.CompletedPerS > 0 {
			cells[5] = unit.FormatSI(e.CompletedPerS)
		}
		if e.P99Ns > 0 {
			cells[6] = record.FormatBound(e.P99Ns, e.P99AtLeast)
		}
		switch {
		case e.Unreadable != "":
			cells = []string{e.ID, "-", "-", oneLine(e.Unreadable), "-", "-", "-", "unreadable", ""}
		case e.Progress != record.Ended:
			cells[7] = string(e.Progress)
		}
		t.Rows = append(t.Rows, cells)
	}
	p := &printer{w: w, Layout: l}
	p.table(&t)
	return p.err
}

// target is an entry's, of each side of a comparison without "http://".
func target(e *record.Entry) string {
	sides := strings.Split(e.Target, " vs ")
	for i := range sides {
		sides[i] = strings.TrimPrefix(sides[i], "http://")
	}
	return strings.Join(sides, " vs ")
}

// when formats a time, shorter for recent ones: the time for today, the day for this year.
func when(t, now time.Time) string {
	t, now = t.In(now.Location()), now.Local()
	switch {
	case t.IsZero():
		return "-"
	case t.YearDay() == now.YearDay() && t.Year() == now.Year():
		return t.Format("15:04")
	case t.Year() == now.Year():
		return t.Format("2 Jan")
	}
	return t.Format("2006-01")
}

// load describes the load: connections × pipelining at a rate; for a plan, its number of runs.
func load(e *record.Entry) string {
	if e.Kind != "" {
		return unit.Plural(e.Runs, "run", "runs")
	}
	text := fmt.Sprintf("c%d", e.Connections)
	if e.Pipelining > 1 {
		text += fmt.Sprintf(" p%d", e.Pipelining)
	}
	if e.TargetPerS > 0 {
		text += " R" + unit.FormatSI(e.TargetPerS)
	}
	return text
}

// listedEntry is an entry in the document of WriteListJSON.
type listedEntry struct {
	record.Entry
	Says string `json:"says,omitempty"`
}

// WriteListJSON writes the entries of a directory as one document, ceiling.list/1; unknown values are omitted.
func WriteListJSON(w io.Writer, dir string, entries []record.Entry) error {
	list := make([]listedEntry, len(entries))
	for i, e := range entries {
		e.Short, e.Kind = cmp.Or(e.Short, e.ID), cmp.Or(e.Kind, KindRun)
		list[i] = listedEntry{e, prose.Text(e.Says)}
	}
	return writeDocument(w, struct {
		Schema    string        `json:"schema"`
		Directory string        `json:"directory"`
		Entries   []listedEntry `json:"entries"`
	}{"ceiling.list/1", dir, list})
}
