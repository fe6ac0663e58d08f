//go:build linux

package page

import (
	"bytes"
	"strings"
	"testing"

	"ceiling/internal/archive"
	"ceiling/show/importer"
)

func TestForeign(t *testing.T) {
	var names []string
	var results []importer.Result
	for _, name := range []string{"wrk.txt", "oha_404.json", "vegeta.json"} {
		r, err := importer.Parse(archive.Read(t, "../importer/testdata/*.txtar", name))
		if err != nil {
			t.Fatal(err)
		}
		names, results = append(names, name), append(results, r)
	}
	results[0].Target = "http://h/<script>alert(1)</script>"
	d := Foreign(names, results)
	var text, html bytes.Buffer
	if err := Markdown(&text, d); err != nil {
		t.Fatal(err)
	}
	if err := HTML(&html, d); err != nil {
		t.Fatal(err)
	}
	for _, want := range []string{"No verdict: another tool", "wrk.txt", "oha\\_404.json", "vegeta", results[0].Caveats[0][:20],
		"status 404"} {
		if !strings.Contains(text.String(), want) && !strings.Contains(html.String(), want) {
			t.Errorf("the page has no %q", want)
		}
	}
	if strings.Contains(html.String(), "<script>alert") {
		t.Error("a target got script into the page")
	}
}
