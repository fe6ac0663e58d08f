package report

import (
	"io"

	"ceiling/record"
	"ceiling/verdict/prose"
)

// JSON writes a run's document, with the verdict's sentences added to their codes.
func JSON(w io.Writer, r *record.Run) error { return record.WriteJSON(w, prose.Spell(r)) }

// PlanJSON writes a plan's document, with the answer's sentences added to their codes.
func PlanJSON(w io.Writer, p *record.Plan) error { return record.WritePlanJSON(w, prose.Spell(p)) }
