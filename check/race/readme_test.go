package race

import (
	"bytes"
	"encoding/json"
	"os"
	"strings"
	"testing"

	"ceiling/internal/golden"
	"ceiling/show/layout"
)

// TestReadmeShowsTheKeptRace: the tables of proxy/README.md are those of the race in docs/journal,
// which ceiling race --json printed.
func TestReadmeShowsTheKeptRace(t *testing.T) {
	kept, err := os.ReadFile("../../docs/journal/race.json")
	if err != nil {
		t.Fatal(err)
	}
	var r Result
	if err := json.Unmarshal(kept, &r); err != nil {
		t.Fatal(err)
	}
	var b bytes.Buffer
	if err := r.Write(&b); err != nil {
		t.Fatal(err)
	}
	const page, begin, end = "../../proxy/README.md", "<!-- race: from docs/journal/race.json -->\n", "<!-- end of race -->\n"
	text, err := os.ReadFile(page)
	if err != nil {
		t.Fatal(err)
	}
	before, rest, begins := strings.Cut(string(text), begin)
	_, after, ends := strings.Cut(rest, end)
	if !begins || !ends {
		t.Fatalf("%s: the marks of the race are missing", page)
	}
	golden.Text(t, page, before+begin+"```\n"+layout.Output{Screen: true, Columns: columns}.Fold(b.String())+"```\n"+end+after)
}
