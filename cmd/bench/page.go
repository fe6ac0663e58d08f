package main

import (
	"bytes"
	"fmt"
	"io"
	"os"
	"slices"
	"strings"
	"text/tabwriter"
	"time"
)

// renderPage replaces what was measured between its marks in a hand-written page. A part that was not
// measured stays as it is.
func renderPage(path string, e *Entry) error {
	parts := map[string]func(io.Writer, *Entry){}
	if slices.ContainsFunc(e.Places, func(p PlaceShares) bool { return len(p.Events) > 0 }) {
		parts[onlyPlaces] = printPlaces
	}
	if e.hasSpeed() {
		parts[onlySpeed] = printSpeedRatios
	}
	if len(parts) == 0 {
		return nil
	}
	page, err := os.ReadFile(path)
	if err != nil {
		return err
	}
	text := string(page)
	for name, write := range parts {
		if text, err = between(text, name, block(e, write)); err != nil {
			return fmt.Errorf("%s: %w", path, err)
		}
	}
	return os.WriteFile(path, []byte(text), 0o644)
}

func (e *Entry) hasSpeed() bool {
	return slices.ContainsFunc(e.Speed, func(r Row) bool { return r.OursToThis != nil })
}

// ratioTo formats one of a tool's ratios on a work, "–" if it was not measured.
func (e *Entry) ratioTo(work, tool string, of func(*Row) *Spread) string {
	if r := rowWith(e, work, tool); r != nil && of(r) != nil {
		return fmt.Sprintf("%.2f", of(r).Median)
	}
	return "–"
}

func windowToThis(r *Row) *Spread { return r.WindowToThis }
func serverToThis(r *Row) *Spread { return r.ServerToThis }
func perSToThis(r *Row) *Spread   { return r.PerSToThis }

// between replaces what stands between the marks of a part.
func between(page, part, made string) (string, error) {
	begin, end := fmt.Sprintf("<!-- %[1]s: made by go run ./cmd/bench -only %[1]s -->\n", part), fmt.Sprintf("<!-- end of %s -->\n", part)
	before, rest, begins := strings.Cut(page, begin)
	_, after, ends := strings.Cut(rest, end)
	if !begins || !ends {
		return "", fmt.Errorf("the marks of the part %s are missing", part)
	}
	return before + begin + made + end + after, nil
}

// block formats a part for a page.
func block(e *Entry, write func(io.Writer, *Entry)) string {
	var b bytes.Buffer
	fmt.Fprintf(&b, "```\ncommit %.12s, %s · Linux %s · %s, %d CPUs\n", e.Commit, e.Time.Format(time.DateOnly), e.Host.Kernel, e.Host.CPU, e.Host.Cores)
	t := tabwriter.NewWriter(&b, 0, 0, 2, ' ', 0)
	write(t, e)
	t.Flush() // to memory
	for _, caveat := range e.Caveats {
		fmt.Fprintln(&b, "\ndoubt:", caveat)
	}
	b.WriteString("```\n")
	return b.String()
}

// printSpeedRatios prints the speed part as ratios, a line for each work: our window over the whole
// process of each tool, and both ends against the floor.
func printSpeedRatios(w io.Writer, e *Entry) {
	head(w, fmt.Sprintf("CPU per request of ceiling in its window, and over that of the others: medians of %d rounds of %.0f s, %d connections, one thread",
		e.Settings.Rounds, e.Settings.DurationS, e.Settings.Connections),
		"work", "µs", "/ "+floorOne, "/ "+floorEight, "/ gcannon", "/ wrk", "/ h2load", "outside it, ms a run", "server / "+floorEight,
		"requests/s / "+floorEight)
	for _, work := range works() {
		own := rowWith(e, work.name, ours)
		if own == nil {
			continue
		}
		fmt.Fprintf(w, "%s\t%.3g\t", work.name, own.WindowNsPerRequest.Median/1e3)
		for _, tool := range []string{floorOne, floorEight, gcannon, wrk, h2load} {
			fmt.Fprintf(w, "%s\t", e.ratioTo(work.name, tool, windowToThis))
		}
		fmt.Fprintf(w, "%.0f\t%s\t%s\t\n", own.OutsideMs.Median, e.ratioTo(work.name, floorEight, serverToThis),
			e.ratioTo(work.name, floorEight, perSToThis))
	}
}

// rowWith returns the row of a tool on a work; nil if there is none.
func rowWith(e *Entry, work, tool string) *Row {
	for i := range e.Speed {
		if r := &e.Speed[i]; r.Work == work && r.Tool == tool {
			return r
		}
	}
	return nil
}
