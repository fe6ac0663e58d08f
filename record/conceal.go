package record

import (
	"slices"

	"ceiling/internal/secret"
)

// Concealed returns a copy of the run with its secrets hidden, even if its record has them.
func (r *Run) Concealed(h *secret.Hider) Run {
	c := *r
	c.Command, c.Spec, c.Target = h.Command(r.Command), r.Spec.Concealed(h), h.URL(r.Target)
	c.ByTarget = slices.Clone(r.ByTarget)
	for i := range c.ByTarget {
		c.ByTarget[i].Target = h.Shell(c.ByTarget[i].Target)
	}
	return c
}

// Concealed returns a copy of the start with its secrets hidden.
func (s *Start) Concealed(h *secret.Hider) Start {
	c := *s
	c.Command, c.Spec = h.Command(s.Command), s.Spec.Concealed(h)
	return c
}
