package record

import (
	"encoding/json"
	"os"
	"strings"
	"testing"
	"time"
)

func readPoints(t *testing.T, text string) PointsFile {
	t.Helper()
	file, err := ReadPoints(strings.NewReader(text))
	if err != nil {
		t.Fatal(err)
	}
	return file
}

// The journal's own file is understood to its last key.
func TestReadPointsJournal(t *testing.T) {
	data, err := os.ReadFile("../docs/journal/0022-published/records/points.yaml")
	if err != nil {
		t.Fatal(err)
	}
	file := readPoints(t, string(data))
	if len(file.Points) != 46 || len(file.NotUnderstood) > 0 || len(file.Mistakes) > 0 {
		t.Fatalf("%d points, not understood %v, mistakes %v", len(file.Points), file.NotUnderstood, file.Mistakes)
	}
	// Every figure and text that stands in the file arrives in a point.
	stated := 0
	for i := range file.Points {
		p := &file.Points[i]
		for _, f := range p.Figures() {
			if f.Figure.Known {
				stated++
			}
		}
		for _, x := range p.Texts() {
			if *x.Text != "" {
				stated++
			}
		}
		if p.Approx {
			stated++
		}
	}
	want := 0
	for _, line := range strings.Split(string(data), "\n") {
		line, _ = strings.CutPrefix(line, "- ")
		key, value, ok := strings.Cut(strings.TrimSpace(line), ": ")
		if ok && !strings.HasPrefix(key, "#") && value != "null" && value != "" {
			want++
		}
	}
	if stated != want {
		t.Errorf("%d values arrived of %d", stated, want)
	}
}

func TestReadPointsValues(t *testing.T) {
	file := readPoints(t, `
points:
- id: 7
  entry: '01'
  rps: 93000
  p50_ms: 1.20
  p99_ms: 0
  server_cpu_pct: null
  client_cpu_pct:
  connections: 1e3
  approx: true
  note: |
    two
    lines
  server_process_cpu_pct: 12.5
`)
	p := file.Points[0]
	check := func(name string, got, want any) {
		t.Helper()
		if got != want {
			t.Errorf("%s: %v, want %v", name, got, want)
		}
	}
	check("line", p.Line, 3)
	check("id", p.ID, "7")
	check("entry", p.Entry, "01")
	check("rps", p.RPS, Figure{93000, true, 0})
	check("p50", p.P50Ms, Figure{1.2, true, 2})
	check("p50 step", p.P50Ms.Step(), 0.01)
	check("p99", p.P99Ms, Figure{0, true, 0})
	check("server", p.ServerCPUPct, Figure{})
	check("client", p.ClientCPUPct, Figure{})
	check("connections", p.Connections, Figure{1000, true, 0})
	check("approx", p.Approx, true)
	check("note", p.Note, "two\nlines\n")
	check("process", p.ServerProcessCPU, "12.5")
	check("mistakes", len(file.Mistakes), 0)
	text, err := json.Marshal(p)
	if err != nil {
		t.Fatal(err)
	}
	for _, want := range []string{`"rps":93000`, `"server_cpu_pct":null`, `"p50_ms":1.2`} {
		if !strings.Contains(string(text), want) {
			t.Errorf("no %s in %s", want, text)
		}
	}
}

func TestReadPointsMistakes(t *testing.T) {
	check := func(text string, line int, key, says, caret string) {
		t.Run(text, func(t *testing.T) {
			file := readPoints(t, "points:\n- id: 1\n  "+text+"\n  rps: 5\n")
			if len(file.Mistakes) != 1 {
				t.Fatalf("%d mistakes: %v", len(file.Mistakes), file.Mistakes)
			}
			m := file.Mistakes[0]
			if m.Line != line || m.Key != key || !strings.Contains(m.Says, says) {
				t.Errorf("%+v", m)
			}
			lines := strings.Split(m.Excerpt, "\n")
			at := strings.Index(lines[1], "^")
			if len(lines) != 2 || at < 0 || !strings.HasPrefix(lines[0][at:], caret) {
				t.Errorf("the caret is not under %q:\n%s", caret, m.Excerpt)
			}
			if p := file.Points[0]; p.P50Ms.Known || !p.RPS.Known {
				t.Errorf("the figure was taken, or the one after it was not: %+v", p)
			}
		})
	}
	check("p50_ms: fast", 3, "p50_ms", `the text "fast"`, "fast")
	check("p50_ms: \"5\"", 3, "p50_ms", `the text "5"`, "\"5\"")
	check("p50_ms: 5ms", 3, "p50_ms", `the text "5ms"`, "5ms")
	check("p50_ms: true", 3, "p50_ms", "found true", "true")
	check("p50_ms: [1, 2]", 3, "p50_ms", "a list", "[")
	check("p50_ms: {a: 1, b: 2}", 3, "p50_ms", "a mapping", "{")
	check("p50_ms: .nan", 3, "p50_ms", "found", ".nan")
	check("p50_ms: .inf", 3, "p50_ms", "found", ".inf")
	check("p50_ms: 1e999", 3, "p50_ms", "found", "1e999")
	check("p50_ms: &a 5", 3, "p50_ms", "anchor", "&a")
	check("approx: maybe", 3, "approx", "want true or false", "maybe")
	check("note: [a]", 3, "note", "want a text", "[")
}

func TestReadPointsNotUnderstood(t *testing.T) {
	file := readPoints(t, "made_by: me\npoints:\n- rps: 1\n  colour: red\n- rps: 2\n  colour: blue\n  taste:\n  - sour\n")
	want := []UnknownKey{{"made_by", 1, 1}, {"colour", 4, 2}, {"taste", 7, 1}}
	if len(file.NotUnderstood) != len(want) {
		t.Fatalf("%v", file.NotUnderstood)
	}
	for i := range want {
		if file.NotUnderstood[i] != want[i] {
			t.Errorf("%+v, want %+v", file.NotUnderstood[i], want[i])
		}
	}
	if len(file.Points) != 2 || file.Points[1].RPS.Value != 2 {
		t.Errorf("%+v", file.Points)
	}
}

func TestReadPointsRefuses(t *testing.T) {
	check := func(name, text, want string) {
		t.Run(name, func(t *testing.T) {
			start := time.Now()
			_, err := ReadPoints(strings.NewReader(text))
			if err == nil || !strings.Contains(err.Error(), want) {
				t.Errorf("%v, want %q in it", err, want)
			}
			// A machine that is busy is not what this looks for.
			if took := time.Since(start); took > 20*time.Second {
				t.Errorf("took %v", took)
			}
		})
	}
	check("empty", "", "want a mapping with the key points")
	check("scalar", "hello", "want a mapping with the key points")
	check("no points", "a: 1\nb: 2\n", "no key points")
	check("null points", "points:\n", "points is empty")
	check("no list", "points: 7\n", "points is not a list")
	check("two documents", "points: []\n---\npoints: []\n", "2 documents")
	check("syntax, with its line", "points:\n- rps: [1\n", "2 | - rps: [1")
	check("key twice", "points:\n- rps: 1\n  rps: 2\n", "already defined")
	check("too large", "points: []\n"+strings.Repeat("# filler\n", maxPointsBytes/9+1), "more than 4 MiB")
	check("too many", "points:\n"+strings.Repeat("- a: 1\n", maxPoints+1), "at most 10000")
	check("long line", "points: ["+strings.Repeat("1,", maxPointsLine), "longer than")
	check("deep", "points:\n"+strings.Repeat("[\n", 100_000), "brackets are open")
	check("deep dashes", strings.Repeat("- ", maxPointsLine/2-1), "want a mapping")
}

func TestReadPointsListsFewMistakes(t *testing.T) {
	file := readPoints(t, "points:\n"+strings.Repeat("- rps: no\n", 3*maxMistakes))
	if len(file.Points) != 3*maxMistakes || len(file.Mistakes) != maxMistakes {
		t.Errorf("%d points, %d mistakes", len(file.Points), len(file.Mistakes))
	}
	if last := file.Mistakes[maxMistakes-1]; !strings.Contains(last.Says, "not listed") {
		t.Errorf("the last says %q", last.Says)
	}
}

func FuzzReadPoints(f *testing.F) {
	if data, err := os.ReadFile("../docs/journal/0022-published/records/points.yaml"); err == nil {
		f.Add(data[:1500])
	}
	for _, s := range []string{"points:\n- rps: 1\n", "points: [{rps: 1}]", "points:\n- rps: !!x &a *b\n", "points:\n- <<: *a\n",
		"points:\n-\n- 1\n- [a]\n", "? a\n: b", "points:\n- ? [x]\n  : 1\n", "points:\n- note: >\n   x\n", "%YAML 1.2\n---\npoints: []"} {
		f.Add([]byte(s))
	}
	f.Fuzz(func(t *testing.T, data []byte) {
		file, err := ReadPoints(strings.NewReader(string(data)))
		if err != nil {
			return
		}
		if len(file.Mistakes) > maxMistakes || len(file.Points) > maxPoints {
			t.Errorf("%d mistakes, %d points", len(file.Mistakes), len(file.Points))
		}
		for _, m := range file.Mistakes {
			if strings.Count(m.Excerpt, "\n") > 1 || strings.ContainsRune(m.Excerpt, '\x1b') {
				t.Errorf("excerpt %q", m.Excerpt)
			}
		}
		if _, err := json.Marshal(file.Points); err != nil {
			t.Error(err)
		}
	})
}
