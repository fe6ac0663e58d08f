package pipeline

import (
	"fmt"
	"io"
	"strings"

	"ceiling/experiment/plan"
	"ceiling/show/layout"
)

// Text writes the outcome for a log or a screen.
func Text(w io.Writer, o *Outcome, l layout.Output) error {
	t := text{Output: l}
	t.fact("base", o.Base)
	t.fact("change", o.Change)
	t.fact("machine", o.Machine)
	for i := range o.Loads {
		t.load(&o.Loads[i])
	}
	t.b.WriteString("\n")
	t.fact("result", o.summary())
	_, err := io.WriteString(w, t.b.String())
	return err
}

type text struct {
	layout.Output
	b strings.Builder
}

// indent of what follows a label.
const indent = 10

func (t *text) fact(label, says string) {
	for i, line := range t.Wrap(says, t.Width()-indent) {
		if i > 0 {
			label = ""
		}
		fmt.Fprintf(&t.b, "%-*s%s\n", indent, label, line)
	}
}

func (t *text) load(c *plan.Checked) {
	fmt.Fprintf(&t.b, "\n%s\n", t.Bold(c.Name+": "+c.Result))
	table := layout.Table{Columns: []layout.Column{{}, {Name: "base", Right: true}, {Name: "change", Right: true},
		{Name: "difference", Right: true}, {Name: "interval", Drop: 1}, {Name: "noise A/A", Drop: 2}, {Name: "decision"}}}
	for _, m := range metrics(c) {
		table.Rows = append(table.Rows, []string{m.name, m.a, m.b, m.change, m.interval, m.noise, m.decision})
	}
	if len(table.Rows) > 0 {
		t.b.WriteString(strings.Join(table.Lines(t.Output), "\n") + "\n")
	}
	for k := range c.Checks {
		t.fact("", says(&c.Checks[k]))
	}
	if says := limits(c); says != "" {
		t.fact("", says)
	}
	for _, says := range caveats(c) {
		t.fact("caveat", says)
	}
}
