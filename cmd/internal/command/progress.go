package command

import (
	"context"
	"errors"
	"fmt"
	"io"
	"os"
	"strconv"
	"strings"

	"github.com/mattn/go-isatty"

	"ceiling/internal/exit"
	"ceiling/show/layout"
)

// Progress is a one-line progress display for work other than the user's own runs.
type Progress struct {
	w     io.Writer
	shown bool
}

// NewProgress returns nil if w is not a terminal: plain output stays plain.
func NewProgress(w io.Writer) *Progress {
	if !IsTerminal(w) {
		return nil
	}
	return &Progress{w: w}
}

// IsTerminal reports whether w is a terminal that supports control sequences.
func IsTerminal(w io.Writer) bool {
	f, ok := w.(*os.File)
	return ok && isatty.IsTerminal(f.Fd()) && os.Getenv("TERM") != "dumb"
}

// Print replaces the line: return to its start, print the text, erase the rest.
func (p *Progress) Print(line string) {
	p.shown = true
	fmt.Fprintf(p.w, "\r%s\x1b[K", line)
}

// Clear erases the line.
func (p *Progress) Clear() {
	if p != nil && p.shown {
		fmt.Fprint(p.w, "\r\x1b[K")
		p.shown = false
	}
}

// Watched measures while a terminal shows progress. An unknown argument is a usage error; an
// interrupt is not an error, but ok is false because there is no result.
func Watched[R any](ctx context.Context, sh *Shell, unknown error,
	measure func(tell func(string)) (R, error)) (result R, ok bool, err error) {
	live := NewProgress(sh.Stderr)
	var tell func(string)
	if live != nil {
		tell = live.Print
	}
	result, err = measure(tell)
	live.Clear()
	switch {
	case errors.Is(err, unknown):
		return result, false, Usage(err)
	case ctx.Err() != nil:
		sh.Exit = exit.Interrupted
		return result, false, nil
	}
	return result, err == nil, err
}

// Output returns what a text for w is fitted to: the terminal's width, or COLUMNS if it is not a terminal.
func Output(w io.Writer) layout.Output {
	var o layout.Output
	if IsTerminal(w) {
		o.Screen, o.Columns = true, layout.Columns(w.(*os.File))
	} else if n, err := strconv.Atoi(os.Getenv("COLUMNS")); err == nil {
		o.Columns = n
	}
	return o
}

// Folded writes a text to the standard output, wrapped to the terminal's width.
func (sh *Shell) Folded(write func(io.Writer) error) error {
	var b strings.Builder
	if err := write(&b); err != nil {
		return err
	}
	_, err := io.WriteString(sh.Stdout, Output(sh.Stdout).Fold(b.String()))
	return err
}

// Complain prints an error as one line, wrapped on a terminal.
func Complain(stderr io.Writer, text string) {
	fmt.Fprintln(stderr, Output(stderr).Fold(text)) // a failed message is no reason to stop
}

// Note prints a message for the user, separate from the data.
func (sh *Shell) Note(format string, args ...any) {
	// A failed message is no reason to stop.
	_ = Output(sh.Stderr).Paragraph(sh.Stderr, fmt.Sprintf(format, args...))
}
