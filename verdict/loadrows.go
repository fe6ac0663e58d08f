package verdict

import (
	"cmp"
	"slices"

	"ceiling/record"
)

// loadRows returns the generator's rows of the window in time order.
func (f *runFacts) loadRows(series *record.Series) []record.LoadRow {
	if series == nil {
		return nil
	}
	return inWindow(series.Load, "")
}

// inWindow picks the rows of the window, of one agent or, with "", of all.
func inWindow(all []record.LoadRow, agent string) []record.LoadRow {
	var rows []record.LoadRow
	for _, row := range all {
		if !row.Warmup && row.WidthNs > 0 && (agent == "" || row.Host == agent) {
			rows = append(rows, row)
		}
	}
	sortLoad(rows)
	return rows
}

// sortLoad orders rows by time and breaks ties by content, so that the order of reading does not
// change the verdict.
func sortLoad(rows []record.LoadRow) {
	slices.SortFunc(rows, func(a, b record.LoadRow) int {
		return cmp.Or(cmp.Compare(a.TNs, b.TNs), cmp.Compare(a.WidthNs, b.WidthNs),
			cmp.Compare(a.Completed, b.Completed), cmp.Compare(a.Sent, b.Sent), cmp.Compare(a.Failed, b.Failed),
			cmp.Compare(a.InFlight, b.InFlight), cmp.Compare(a.Backlog, b.Backlog), cmp.Compare(a.Bad, b.Bad),
			cmp.Compare(a.MeanNs, b.MeanNs), cmp.Compare(a.P50Ns, b.P50Ns), cmp.Compare(a.P90Ns, b.P90Ns),
			cmp.Compare(a.Busy, b.Busy))
	})
}
