package live

import (
	"ceiling/record"
)

// PathOverTime returns the path of a request over a finished run, in segments of a second or
// more. Segments with too few samples are gaps.
func PathOverTime(run *record.Run, series *record.Series) []Stretch {
	by := run.Verdict.StationsBy
	if series == nil || by == "" || len(run.Agents) > 0 {
		return nil
	}
	e := evidence{start: record.Start{ID: run.ID, Created: run.Started, Spec: run.Spec}}
	e.rows.load = series.Load
	for _, row := range series.Observed.All() {
		if row.Observed().TNs <= 0 {
			e.rows.before.Add(row)
		} else {
			e.rows.observed.Add(row)
		}
	}
	whole := int64(run.ElapsedS * 1e9)
	least := max(int64(stretchNs), whole/StretchesMost+1)
	var list []Stretch
	for from, to := int64(0), least; from < whole; to += least {
		if whole-to < least/2 {
			to = whole
		}
		s, ok := e.between(from, to).stretch(from, to, by)
		if n := len(list); to == whole && !ok && n > 0 && list[n-1].TNs == from { // merge the remainder into the previous segment
			from -= list[n-1].WidthNs
			if s, ok = e.between(from, to).stretch(from, to, by); ok {
				list = list[:n-1]
			}
		}
		if ok {
			list = append(list, s)
		}
		if to == whole {
			break
		}
		if ok || to-from >= stretchMostNs/stretchNs*least {
			from = to
		}
	}
	return list
}
