package report

import (
	"bytes"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"ceiling/internal/golden"
	"ceiling/record"
	"ceiling/show/layout"
)

// TestManualShowsAKeptSweep: the sweep in the recipes is one curve of the record that the journal keeps.
func TestManualShowsAKeptSweep(t *testing.T) {
	const page = "../../docs/recipes.md"
	kept, err := filepath.Glob("../../docs/journal/0003-pipelining/records/20261127-*.ndjson.gz")
	if err != nil || len(kept) != 1 {
		t.Fatal(kept, err)
	}
	p, err := record.OpenPlan(record.File{Path: kept[0]})
	if err != nil {
		t.Fatal(err)
	}
	var out bytes.Buffer
	if err := Plan(&out, p, Layout{Output: layout.Output{Columns: 100}}); err != nil {
		t.Fatal(err)
	}
	const first = "fasthttp /simple, 64 connections"
	_, curve, found := strings.Cut(out.String(), first)
	curve, _, more := strings.Cut(curve, "\n\nfasthttp /read")
	text, err := os.ReadFile(page)
	if err != nil {
		t.Fatal(err)
	}
	before, rest, shown := strings.Cut(string(text), "```\n"+first)
	_, after, closed := strings.Cut(rest, "\n```\n")
	if !found || !more || !shown || !closed {
		t.Fatalf("the record has the curve: %v and another one: %v; the page shows it: %v", found, more, shown && closed)
	}
	golden.Text(t, page, before+"```\n"+first+strings.TrimRight(curve, "\n")+"\n```\n"+after)
}
