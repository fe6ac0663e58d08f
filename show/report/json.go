package report

import (
	"io"

	"ceiling/record"
	"ceiling/verdict/prose"
)

// JSON writes a run's document, with the sentences of its verdict beside their codes.
func JSON(w io.Writer, r *record.Run) error {
	run := *r
	run.Verdict = prose.Spell(r.Verdict)
	return record.WriteJSON(w, &run)
}
