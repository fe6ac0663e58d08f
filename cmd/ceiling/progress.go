package main

import (
	"fmt"
	"io"
	"os"

	"github.com/mattn/go-isatty"

	"ceiling/internal/unit"
	"ceiling/run"
)

// progress is the one line that a terminal shows while a run goes on.
type progress struct {
	w     io.Writer
	shown bool
}

// newProgress is nil where w is not a terminal: plain output stays plain.
func newProgress(w io.Writer) *progress {
	f, ok := w.(*os.File)
	if !ok || !isatty.IsTerminal(f.Fd()) || os.Getenv("TERM") == "dumb" {
		return nil
	}
	return &progress{w: w}
}

func (p *progress) show(s run.Progress) {
	row := &s.Row
	if row.WidthNs == 0 {
		p.print(fmt.Sprintf("%d of %d connections stand", s.Established, s.Asked))
		return
	}
	perS := float64(row.Completed) * 1e9 / float64(row.WidthNs)
	where := fmt.Sprintf("%4.1f s", s.ElapsedS)
	switch {
	case row.Warmup:
		where = "warm-up"
	case s.TotalS > 0:
		where += fmt.Sprintf(" of %.0f s", s.TotalS)
	case s.Requests > 0:
		where = fmt.Sprintf("%d %% of %s", 100*s.Completed/s.Requests, unit.FormatCount(int64(s.Requests)))
	}
	line := fmt.Sprintf("%s  %8s/s  p50 %-8s p99 %-8s %d connections", where, unit.FormatSI(perS),
		unit.FormatNs(row.P50Ns), unit.FormatNs(row.P99Ns), row.Connected)
	if bad := row.Failed + row.Bad; bad > 0 {
		line += fmt.Sprintf("  %d failed", bad)
	}
	p.print(line)
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
