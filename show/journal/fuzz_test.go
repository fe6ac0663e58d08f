package journal

import (
	"strings"
	"testing"

	"ceiling/internal/archive"
)

// FuzzEntry reads any text as an entry: it is read or its mistakes are told, and
// what comes out of it has no markup that was not Markdown.
func FuzzEntry(f *testing.F) {
	for _, name := range []string{"0001-base", "0002-plans", "0003-next", "0004-wrong"} {
		f.Add(archive.Read(f, "testdata/journal.txtar", name+"/"+entryFile))
	}
	for _, text := range []string{"---\n---\n", "---\n: [\n---\nx", "---\ntitle: &a [*a]\n---\n", "---\nruns: {a: }\n---\n{{times (run \"a\").P99 (curve \"a\" \"b\").Rate}} {{printf \"%d\" 3}}", "---\n? ? ?\n---\n{{run \"a",
		"---\na: |\n  b\n---\n<script>{{typed \"<script>\"}}", "---\nruns: {a: !!x }\n---\n|a|\n|-|\n|{{(run \"a\").Rate}}|\n"} {
		f.Add([]byte(text))
	}
	f.Fuzz(func(t *testing.T, text []byte) {
		front, body, err := splitFront(text)
		if err != nil {
			return
		}
		e := &Entry{Name: "0001-a", Number: "0001", Slug: "a", Dir: "nowhere", File: "entry.md", body: body}
		e.Front = parseFront("entry.md", front, new(Mistakes))
		e.Status = Planned
		for _, n := range e.Runs {
			e.Records = append(e.Records, &Record{Name: n.Name})
		}
		w := parseEntry(e)
		w.render([]*written{w})
		if strings.Contains(strings.ToLower(string(w.HTML)), "<script") {
			t.Errorf("a script in the page: %s", w.HTML)
		}
		for _, m := range w.wrong {
			if m.Line < 0 || m.Line > 1+strings.Count(string(text), "\n") {
				t.Errorf("a mistake in line %d of %d: %s", m.Line, strings.Count(string(text), "\n"), m.Says)
			}
		}
	})
}
