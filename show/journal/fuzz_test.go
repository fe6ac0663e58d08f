package journal

import (
	"os"
	"path/filepath"
	"reflect"
	"strings"
	"testing"

	"ceiling/record"
)

// FuzzEntry reads any text as an entry: it is read or its mistakes are told, and
// what comes out of it has no markup that was not Markdown.
func FuzzEntry(f *testing.F) {
	for _, name := range []string{"0001-base", "0002-plans", "0003-next", "0004-wrong"} {
		text, err := os.ReadFile(filepath.Join("testdata", "journal", name, entryFile))
		if err != nil {
			f.Fatal(err)
		}
		f.Add(text)
	}
	for _, text := range []string{"---\n---\n", "---\n: [\n---\nx", "---\ntitle: &a [*a]\n---\n", "---\n? ? ?\n---\n{{run \"a",
		"---\na: |\n  b\n---\n<script>{{typed \"<script>\"}}", "---\nruns: {a: !!x }\n---\n|a|\n|-|\n|{{run \"a\" \"b\"}}|\n"} {
		f.Add([]byte(text))
	}
	f.Fuzz(func(t *testing.T, text []byte) {
		front, body, err := splitFront(text)
		if err != nil {
			return
		}
		e := &Entry{Name: "0001-a", Number: "0001", Slug: "a", Dir: "nowhere", File: "entry.md", body: body}
		e.Front, _ = parseFront("entry.md", front)
		e.Status = Planned
		for _, n := range e.Runs {
			e.Records = append(e.Records, &Record{Name: n.Name})
		}
		w := (&Journal{Entries: []*Entry{e}}).write(e)
		if strings.Contains(strings.ToLower(string(w.html)), "<script") {
			t.Errorf("a script in the page: %s", w.html)
		}
		for _, m := range w.wrong {
			if m.Line < 0 || m.Line > 1+strings.Count(string(text), "\n") {
				t.Errorf("a mistake in line %d of %d: %s", m.Line, strings.Count(string(text), "\n"), m.Says)
			}
		}
	})
}

// FuzzPath looks any path up in a document, and in the type of one to come.
func FuzzPath(f *testing.F) {
	for _, path := range []string{"rate.completed_per_s", "sweep.curves.0.points[x=64].per_s", "curve[server=fast][mix=/read].says", "a[",
		"a[b=", "[a=b]", "..", "a.-1", "errors.99999999999999999999"} {
		f.Add(path)
	}
	document := map[string]any{"a": []any{map[string]any{"b": "c", "d": []any{}}},
		"sweep": map[string]any{"curves": []any{map[string]any{"server": "fast"}}}}
	f.Fuzz(func(t *testing.T, path string) {
		steps, err := parsePath(path)
		if err != nil {
			return
		}
		if again, err := parsePath(pathText(steps)); err != nil || !reflect.DeepEqual(again, steps) {
			t.Errorf("%q is %v, which reads as %v, %v", path, steps, again, err)
		}
		if at, err := find(document, steps); err == nil {
			_, _ = valueAt(&at) // whatever is there can be asked for
		}
		_ = possible(reflect.TypeFor[record.Plan](), steps)
		_ = couldHave(path, true)
		_ = couldHave(path, false)
	})
}
