package verdict_test

import (
	"strings"
	"testing"

	"github.com/charmbracelet/x/ansi"

	"ceiling/internal/needs"
	"ceiling/record"
	"ceiling/show/layout"
	"ceiling/show/report"
	"ceiling/verdict"
)

// Whatever is left out on a screen of any width, a text ends with a whole clause: what stands before
// the mark is a part of the whole text that a sign divides from the rest.
func TestFoldedTextsAreWhole(t *testing.T) {
	needs.Time(t)
	verdict.EachFixture(t, func(name string, run *record.Run) {
		whole := words(written(t, run, report.Layout{Output: layout.Output{Columns: 100_000, Screen: true}, Verbose: true}))
		brief := words(written(t, run, report.Layout{Output: layout.Output{Columns: 100_000, Screen: true}}))
		for _, columns := range []int{60, 80, 100, 120} {
			lines := strings.Split(ansi.Strip(written(t, run, report.Layout{Output: layout.Output{Columns: columns, Screen: true}})), "\n")
			if len(lines) > 24 {
				t.Errorf("%s at %d columns: %d lines", name, columns, len(lines))
			}
			for i, line := range lines {
				if !strings.HasSuffix(line, " …") {
					continue
				}
				// The text begins at the line with its name.
				from := i
				for from > 0 && strings.HasPrefix(lines[from], "   ") {
					from--
				}
				text := strings.TrimSuffix(words(strings.Join(lines[from:i+1], " ")), " …")
				rest, found := after(whole, text)
				if !found {
					rest, found = after(brief, text)
				}
				if !found || !strings.HasPrefix(rest, ";") && !strings.HasPrefix(rest, ".") && !strings.HasPrefix(rest, ",") &&
					!strings.HasPrefix(rest, " ·") {
					t.Errorf("%s at %d columns: %q is followed by %.30q", name, columns, text, rest)
				}
			}
		}
	})
}

func after(whole, text string) (rest string, found bool) {
	at := strings.Index(whole, text)
	if at < 0 {
		return "", false
	}
	return whole[at+len(text):], true
}

// words returns a text with single spaces, without its styles.
func words(text string) string { return strings.Join(strings.Fields(ansi.Strip(text)), " ") }

func written(t *testing.T, run *record.Run, l report.Layout) string {
	t.Helper()
	var b strings.Builder
	if err := report.Text(&b, run, l); err != nil {
		t.Fatal(err)
	}
	return b.String()
}
