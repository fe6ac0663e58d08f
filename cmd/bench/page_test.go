package main

import (
	"bytes"
	"encoding/json"
	"errors"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"ceiling/internal/golden"
)

func TestBetweenReplacesWhatBenchMade(t *testing.T) {
	const begin, end = "<!-- a: made by go run ./cmd/bench -only a -->\n", "<!-- end of a -->\n"
	got, err := between("before\n"+begin+"old\n"+end+"after\n", "a", "new\n")
	if want := "before\n" + begin + "new\n" + end + "after\n"; err != nil || got != want {
		t.Errorf("%q, %v", got, err)
	}
	for _, page := range []string{"", begin, end} {
		if _, err := between(page, "a", "new"); err == nil {
			t.Errorf("%q: no error", page)
		}
	}
}

// The page of this project has the marks, and what is outside of them stays.
func TestRenderPage(t *testing.T) {
	page, err := os.ReadFile("../../docs/bench.md")
	if err != nil {
		t.Fatal(err)
	}
	path := filepath.Join(t.TempDir(), "bench.md")
	if err := os.WriteFile(path, page, 0o600); err != nil {
		t.Fatal(err)
	}
	s := Spread{2100, 1, 3000, 7}
	half := Spread{.5, .4, .6, 7}
	e := Entry{Commit: strings.Repeat("ab", 20), Speed: []Row{
		{Work: "/read", Tool: ours, WindowNsPerRequest: &s, OutsideMs: &s},
		{Work: "/read", Tool: floorEight, OursToThis: &half, WindowToThis: &half, ServerToThis: &half, PerSToThis: &half},
	}}
	if err := renderPage(path, &e); err != nil {
		t.Fatal(err)
	}
	made, err := os.ReadFile(path)
	if err != nil {
		t.Fatal(err)
	}
	rest := func(text []byte) string {
		_, rest, _ := strings.Cut(string(text), "<!-- end of speed")
		return rest
	}
	if rest(made) != rest(page) {
		t.Error("what is written by hand has changed")
	}
	var line string
	for text := range strings.Lines(string(made)) {
		if strings.HasPrefix(text, "/read ") {
			line = strings.Join(strings.Fields(text), " ")
			break
		}
	}
	if want := "/read 2.1 0.50 2100 0.50 0.50"; line != want {
		t.Errorf("%q, want %q", line, want)
	}
	if err := renderPage(filepath.Join(t.TempDir(), "none"), &Entry{}); err != nil {
		t.Errorf("nothing measured: %v", err)
	}
}

// The speed part of the page is what the last line of the ledger that has one says.
func TestTablesAreRecorded(t *testing.T) {
	ledger, err := os.ReadFile("../../docs/journal/bench.ndjson")
	if err != nil {
		t.Fatal(err)
	}
	var last Entry
	for line := range bytes.Lines(ledger) {
		var e Entry
		if err := json.Unmarshal(line, &e); err != nil {
			t.Fatal(err)
		}
		if e.hasSpeed() {
			last = e
		}
	}
	const path = "../../docs/bench.md"
	kept, err := os.ReadFile(path)
	if err != nil {
		t.Fatal(err)
	}
	copied := filepath.Join(t.TempDir(), "page.md")
	if err := errors.Join(os.WriteFile(copied, kept, 0o600), renderPage(copied, &last)); err != nil {
		t.Fatal(err)
	}
	made, err := os.ReadFile(copied)
	if err != nil {
		t.Fatal(err)
	}
	golden.Text(t, path, string(made))
}
