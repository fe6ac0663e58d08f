package ladder

import (
	"os"
	"strings"
	"testing"

	"ceiling/internal/golden"
)

// TestDocsShowTheKeptLadder: the table of docs/regimes.md is the ladder that the journal keeps, and
// what its text quotes as `NAME: FIGURE` is in that row.
func TestDocsShowTheKeptLadder(t *testing.T) {
	const path = "../../docs/regimes.md"
	f, err := os.Open("../../docs/journal/0010-regimes/records/ladder.json")
	if err != nil {
		t.Fatal(err)
	}
	defer f.Close()
	l, err := Read(f)
	if err != nil {
		t.Fatal(err)
	}
	text, err := os.ReadFile(path)
	if err != nil {
		t.Fatal(err)
	}
	before, rest, found := strings.Cut(string(text), "| regime |")
	at := strings.Index(rest, "\n\n")
	if !found || at < 0 {
		t.Fatal("no table")
	}
	golden.Text(t, path, before+markdown(l)+rest[at+1:])
	quoted := 0
	for part := range strings.SplitSeq(before+rest[at:], "`") {
		name, figure, is := strings.Cut(part, ": ")
		if row := l.Row(name); is && row != nil {
			if quoted++; !strings.Contains(strings.Join(row.cells(), "  "), figure) {
				t.Errorf("%s: %s is not in its row: %v", path, part, row.cells())
			}
		}
	}
	if quoted == 0 {
		t.Error("the text quotes no figure")
	}
}

func markdown(l *Ladder) string {
	var b strings.Builder
	line := func(cells []string) { b.WriteString("| " + strings.Join(cells, " | ") + " |\n") }
	line(columns())
	b.WriteString("|---" + strings.Repeat("|---:", len(columns())-2) + "|---|\n")
	for i := range l.Rows {
		line(l.Rows[i].cells())
	}
	return b.String()
}
