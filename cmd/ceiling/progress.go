package main

import (
	"context"
	"errors"
	"fmt"
	"io"
	"os"
	"strconv"
	"strings"

	"github.com/mattn/go-isatty"

	"ceiling/measure/run"
	"ceiling/show/live/terminal"
	"ceiling/show/report"
)

// progress is one line that a terminal shows while something goes on that is
// no run of a person's own.
type progress struct {
	w     io.Writer
	shown bool
}

// newProgress is nil where w is not a terminal: plain output stays plain.
func newProgress(w io.Writer) *progress {
	if !isTerminal(w) {
		return nil
	}
	return &progress{w: w}
}

// isTerminal tells a terminal that can do more than print.
func isTerminal(w io.Writer) bool {
	f, ok := w.(*os.File)
	return ok && isatty.IsTerminal(f.Fd()) && os.Getenv("TERM") != "dumb"
}

// print replaces the line: back to its start, the text, erase what is behind.
func (p *progress) print(line string) {
	p.shown = true
	fmt.Fprintf(p.w, "\r%s\x1b[K", line)
}

// clear takes the line away again.
func (p *progress) clear() {
	if p != nil && p.shown {
		fmt.Fprint(p.w, "\r\x1b[K")
		p.shown = false
	}
}

// watched measures while a terminal shows what goes on. What is asked for and unknown
// is a mistake of the command line; a measurement that was interrupted is no error, and
// there is no result: ok is false.
func watched[R any](ctx context.Context, sh *shell, unknown error,
	measure func(tell func(string)) (R, error)) (result R, ok bool, err error) {
	live := newProgress(sh.stderr)
	var tell func(string)
	if live != nil {
		tell = live.print
	}
	result, err = measure(tell)
	live.clear()
	switch {
	case errors.Is(err, unknown):
		return result, false, usage(err)
	case ctx.Err() != nil:
		sh.exit = run.ExitInterrupted
		return result, false, nil
	}
	return result, err == nil, err
}

// layout is for what is written to w: as wide as the terminal, or as COLUMNS says where
// it is none.
func layout(w io.Writer, verbose bool) report.Layout {
	l := report.Layout{Verbose: verbose}
	if isTerminal(w) {
		l.Screen, l.Columns = true, terminal.Columns(w.(*os.File))
	} else if n, err := strconv.Atoi(os.Getenv("COLUMNS")); err == nil {
		l.Columns = n
	}
	return l
}

// folded writes a text to the standard output, its lines as wide as the terminal.
func (sh *shell) folded(write func(io.Writer) error) error {
	var b strings.Builder
	if err := write(&b); err != nil {
		return err
	}
	_, err := io.WriteString(sh.stdout, layout(sh.stdout, false).Fold(b.String()))
	return err
}

// complain says in one line what went wrong; a terminal has it in as many as it takes.
func complain(stderr io.Writer, text string) {
	fmt.Fprintln(stderr, layout(stderr, false).Fold(text)) // what cannot be told is no reason to stop
}

// note tells a person at the terminal something, apart from the data.
func (sh *shell) note(format string, args ...any) {
	// What cannot be told is no reason to stop.
	_ = report.Paragraph(sh.stderr, fmt.Sprintf(format, args...), layout(sh.stderr, false))
}
