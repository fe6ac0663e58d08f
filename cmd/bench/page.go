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

// renderPage replaces the table of speed between its marks in a hand-written page. Without one the page
// stays as it is.
func renderPage(path string, e *Entry) error {
	if !e.hasSpeed() {
		return nil
	}
	page, err := os.ReadFile(path)
	if err != nil {
		return err
	}
	text, err := between(string(page), onlySpeed, block(e, printSpeedRatios))
	if err != nil {
		return fmt.Errorf("%s: %w", path, err)
	}
	return os.WriteFile(path, []byte(text), 0o644)
}

func (e *Entry) hasSpeed() bool {
	return slices.ContainsFunc(e.Speed, func(r Row) bool { return r.OursToThis != nil })
}

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
	columns, peers := []string{"work", "µs"}, []string{}
	for _, tool := range []string{floorOne, floorEight, gcannon, zrk, wrk, h2load} {
		if slices.ContainsFunc(e.Speed, func(r Row) bool { return r.Tool == tool }) { // it was installed
			columns, peers = append(columns, "/ "+tool), append(peers, tool)
		}
	}
	head(w, fmt.Sprintf("CPU per request of ceiling in its window, and divided by the others': medians of %d rounds of %.0f s, %d connections, one thread",
		e.Settings.Rounds, e.Settings.DurationS, e.Settings.Connections),
		append(columns, "outside it, ms a run", "server / "+floorEight, "requests/s / "+floorEight)...)
	for _, work := range works() {
		own := rowWith(e, work.name, ours)
		if own == nil {
			continue
		}
		fmt.Fprintf(w, "%s\t%.3g\t", work.name, own.WindowNsPerRequest.Median/1e3)
		ratio := func(tool string, of func(*Row) *Spread) string {
			if r := rowWith(e, work.name, tool); r != nil && of(r) != nil {
				return fmt.Sprintf("%.2f", of(r).Median)
			}
			return "–"
		}
		for _, tool := range peers {
			fmt.Fprintf(w, "%s\t", ratio(tool, func(r *Row) *Spread { return r.WindowToThis }))
		}
		fmt.Fprintf(w, "%.0f\t%s\t%s\t\n", own.OutsideMs.Median, ratio(floorEight, func(r *Row) *Spread { return r.ServerToThis }),
			ratio(floorEight, func(r *Row) *Spread { return r.PerSToThis }))
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
