// Package recordtest makes records for tests.
package recordtest

import (
	"math"
	"slices"

	"ceiling/record"
)

// Say returns a statement that reads as the text.
func Say(text string) record.Statement { return record.State("said", record.Values{"text": text}) }

// Says returns statements that read as the texts.
func Says(texts ...string) []record.Statement {
	list := make([]record.Statement, len(texts))
	for i, text := range texts {
		list[i] = Say(text)
	}
	return list
}

// Until returns the rows of a run without agents that had ended by a time: what existed of it then.
func Until(s *record.Series, tNs int64) record.Series {
	until := *s
	until.Load = slices.DeleteFunc(slices.Clone(s.Load), func(r record.LoadRow) bool { return r.TNs > tNs })
	until.Observed.Window(math.MinInt64, tNs, 0)
	return until
}
