package journal

import (
	"github.com/yuin/goldmark/ast"

	"ceiling/internal/lazy"
)

// typedNumber is a number with a unit beside it, as a measurement has it.
var typedNumber = lazy.Regexp(`(?i)(?:^|[^\w.])(\d[\d,. ]*\d|\d)\s?[kMG]?\s?(requests?/s|requests? (?:per|a) second|req/s|rps|/s\b|per second|ns\b|µs|us\b|ms\b|s\b|seconds?\b|%|per ?cent\b|[kMGT]i?B(?:/s)?\b|[kMGT]bit/s|×|times\b)`)

// lint warns of numbers that a person has typed into what is done.
func (w *written) lint(n *ast.Text) {
	if w.entry.Status != Done {
		return
	}
	for p := n.Parent(); p != nil; p = p.Parent() {
		if p.Kind() == ast.KindCodeSpan {
			return
		}
	}
	text := n.Segment.Value(w.entry.body)
	for _, at := range typedNumber().FindAllSubmatchIndex(text, -1) {
		w.warn(lineAt(w.entry.body, n.Segment.Start), "%q looks like a measured number; take it from a record, or say {{typed %q}}",
			text[at[2]:at[1]], text[at[2]:at[1]])
	}
}
