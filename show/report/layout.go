package report

import (
	"fmt"
	"io"

	"ceiling/show/layout"
)

// column is the width of the names on the left.
const column = 16

// Layout is how a report is written.
type Layout struct {
	layout.Output
	// Verbose omits nothing.
	Verbose bool
}

// printer writes lines and stores the first error.
type printer struct {
	Layout
	w   io.Writer
	err error
}

func (p *printer) line(format string, args ...any) {
	if p.err == nil {
		_, p.err = fmt.Fprintf(p.w, format+"\n", args...)
	}
}

// text writes a paragraph, indented.
func (p *printer) text(indent int, text string) {
	for _, line := range p.Wrap(text, p.Width()-indent) {
		p.line("%*s%s", indent, "", line)
	}
}

func (p *printer) table(t *layout.Table) {
	for _, line := range t.Lines(p.Output) {
		p.line("%s", line)
	}
}

// fact writes a named fact with hanging continuation lines.
func (p *printer) fact(name, text string) {
	for i, line := range p.Wrap(text, p.Width()-column) {
		p.line("%-*s%s", column, []string{name, ""}[min(i, 1)], line)
	}
}

// answer writes the answer last, where the reader looks first.
func (p *printer) answer(says string) {
	for i, line := range p.Wrap(says, p.Width()-column) {
		p.line("%s", p.Bold(fmt.Sprintf("%-*s%s", column, []string{"answer", ""}[min(i, 1)], line)))
	}
}

// facts writes several texts under one name.
func (p *printer) facts(name string, texts []string) {
	for i, text := range texts {
		p.fact([]string{name, ""}[min(i, 1)], text)
	}
}
