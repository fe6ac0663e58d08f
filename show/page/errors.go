package page

import (
	"fmt"
	"maps"
	"slices"
	"sort"
	"strings"

	"ceiling/experiment/spec"
	"ceiling/internal/unit"
	"ceiling/record"
	"ceiling/show/chart"
	"ceiling/show/report"
)

// rowsShown limits the statuses, errors or targets in a table: a hostile server can produce any
// number, and the record has them all.
const rowsShown = 50

// errorsSection shows the request accounting and the errors.
func errorsSection(run *chart.Run, most int) Section {
	s := of(run, "errors", "Requests, statuses and errors")
	if run.Spec.Kind != spec.Requests {
		many := run.Spec.Kind.Many()
		s.Title = strings.ToUpper(many[:1]) + many[1:] + " and errors"
	}
	s.Blocks = append(s.Blocks, Paragraph{Text: balance(run)})
	if t, ok := statusTable("Responses by status", run.Statuses); ok {
		s.Blocks = append(s.Blocks, t)
	}
	if len(run.Errors) > 0 {
		s.Blocks = append(s.Blocks, errorTable(run.Errors))
	} else if !run.Unfinished {
		s.Blocks = append(s.Blocks, Paragraph{Text: "No errors."})
	}
	if p, ok := chart.Failures(run, most); ok {
		s.Blocks = append(s.Blocks, figure(s.ID+"-failures", p))
	}
	if len(run.ByTarget) > 0 {
		t := tableOf("By target", report.TargetTable(run.ByTarget[:min(len(run.ByTarget), rowsShown)]))
		t.more(len(run.ByTarget))
		s.Blocks = append(s.Blocks, t)
	}
	return s
}

// balance summarises the request accounting in one sentence.
func balance(run *chart.Run) string {
	q := &run.Requests
	n := func(v uint64) string { return unit.FormatCount(int64(v)) }
	text := fmt.Sprintf("%s sent = %s completed + %s failed + %s in flight at the end%s.", n(q.Sent), n(q.Completed), n(q.Failed),
		n(q.InFlight), report.Oldest(run.Run))
	if q.InFlightAtStart > 0 {
		text += fmt.Sprintf(" %s of them were in flight when the window opened.", n(q.InFlightAtStart))
	}
	if q.Due > 0 {
		text += fmt.Sprintf(" %s were due; %s were never sent, %s not before the window closed.", n(q.Due), n(q.Unsent), n(q.LateAtEnd))
	}
	if q.Resent > 0 {
		text += fmt.Sprintf(" %s were sent again, because the server closed their connection before it took them.", n(q.Resent))
	}
	if run.Load.Reconnects > 0 {
		text += fmt.Sprintf(" %s connections were opened again.", n(run.Load.Reconnects))
	}
	return text
}

func statusTable(caption string, statuses map[string]uint64) (Table, bool) {
	t := Table{Caption: caption, Columns: []Column{{Name: "status"}, {Name: "responses", Figure: true}}}
	keys := slices.Sorted(maps.Keys(statuses))
	for _, code := range keys[:min(len(keys), rowsShown)] {
		t.Rows = append(t.Rows, []Cell{{Text: code, Code: true}, {Text: unit.FormatCount(int64(statuses[code]))}})
	}
	t.more(len(keys))
	return t, len(t.Rows) > 0
}

// more adds a note about rows that the table omits.
func (t *Table) more(all int) {
	if all > len(t.Rows) {
		t.Caption += fmt.Sprintf("; the first %d of %s, the record has them all", len(t.Rows), unit.FormatCount(int64(all)))
	}
}

func errorTable(errors []record.Error) Table {
	t := Table{Caption: "Errors by phase and cause",
		Columns: []Column{{Name: "phase"}, {Name: "cause"}, {Name: "count", Figure: true}, {Name: "when"}}}
	list := slices.Clone(errors)
	sort.SliceStable(list, func(i, j int) bool { return list[i].Count > list[j].Count })
	for _, e := range list[:min(len(list), rowsShown)] {
		when := "in the window"
		if e.BeforeWindow {
			when = "before the window"
		}
		if e.Origin == record.OfLocal {
			when += ", on the generator's host"
		}
		t.Rows = append(t.Rows, []Cell{{Text: e.Phase}, {Text: e.Cause, Code: true}, {Text: unit.FormatCount(int64(e.Count))}, {Text: when}})
	}
	t.more(len(list))
	return t
}
