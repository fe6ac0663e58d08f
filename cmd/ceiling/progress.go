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

// progress is a one-line progress display for work other than the user's own runs.
type progress struct {
	w     io.Writer
	shown bool
}

// newProgress returns nil if w is not a terminal: plain output stays plain.
func newProgress(w io.Writer) *progress {
	if !isTerminal(w) {
		return nil
	}
	return &progress{w: w}
}

// isTerminal reports whether w is a terminal that supports control sequences.
func isTerminal(w io.Writer) bool {
	f, ok := w.(*os.File)
	return ok && isatty.IsTerminal(f.Fd()) && os.Getenv("TERM") != "dumb"
}

// print replaces the line: return to its start, print the text, erase the rest.
func (p *progress) print(line string) {
	p.shown = true
	fmt.Fprintf(p.w, "\r%s\x1b[K", line)
}

// clear erases the line.
func (p *progress) clear() {
	if p != nil && p.shown {
		fmt.Fprint(p.w, "\r\x1b[K")
		p.shown = false
	}
}

// watched measures while a terminal shows progress. An unknown argument is a usage error; an
// interrupt is not an error, but ok is false because there is no result.
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

// layout returns the layout for w: the terminal's width, or COLUMNS if it is not a terminal.
func layout(w io.Writer, verbose bool) report.Layout {
	l := report.Layout{Verbose: verbose}
	if isTerminal(w) {
		l.Screen, l.Columns = true, terminal.Columns(w.(*os.File))
	} else if n, err := strconv.Atoi(os.Getenv("COLUMNS")); err == nil {
		l.Columns = n
	}
	return l
}

// folded writes a text to the standard output, wrapped to the terminal's width.
func (sh *shell) folded(write func(io.Writer) error) error {
	var b strings.Builder
	if err := write(&b); err != nil {
		return err
	}
	_, err := io.WriteString(sh.stdout, layout(sh.stdout, false).Fold(b.String()))
	return err
}

// complain prints an error as one line, wrapped on a terminal.
func complain(stderr io.Writer, text string) {
	fmt.Fprintln(stderr, layout(stderr, false).Fold(text)) // a failed message is no reason to stop
}

// note prints a message for the user, separate from the data.
func (sh *shell) note(format string, args ...any) {
	// A failed message is no reason to stop.
	_ = report.Paragraph(sh.stderr, fmt.Sprintf(format, args...), layout(sh.stderr, false))
}
