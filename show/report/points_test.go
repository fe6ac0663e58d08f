package report

import (
	"bytes"
	"encoding/json"
	"fmt"
	"os"
	"strings"
	"testing"

	"ceiling/internal/archive"
	"ceiling/internal/golden"
	"ceiling/record"
	"ceiling/show/importer"
	"ceiling/show/layout"
	"ceiling/verdict/audit"
	"ceiling/verdict/prose"
)

func pointsText(t *testing.T, text string) string {
	t.Helper()
	file, err := record.ReadPoints(strings.NewReader(text))
	if err != nil {
		t.Fatal(err)
	}
	v := audit.Judge(file.Points)
	var out bytes.Buffer
	if err := WritePoints(&out, &file, &v, Layout{}); err != nil {
		t.Fatal(err)
	}
	return out.String()
}

// TestWritePointsGolden: the text of the points that the audit's tests judge.
func TestWritePointsGolden(t *testing.T) {
	data, err := os.ReadFile("../../docs/journal/0022-published/records/points.yaml")
	if err != nil {
		t.Fatal(err)
	}
	golden.Text(t, "../../verdict/audit/testdata/report.txt", pointsText(t, string(data)))
}

func TestWritePointsOddFiles(t *testing.T) {
	contains := func(name, text string, want ...string) {
		t.Run(name, func(t *testing.T) {
			got := pointsText(t, text)
			for _, w := range want {
				if !strings.Contains(got, w) {
					t.Errorf("no %q in:\n%s", w, got)
				}
			}
			if strings.ContainsAny(got, "\x1b\x07\r\t") {
				t.Errorf("control characters in %q", got)
			}
		})
	}
	contains("no points", "points: []\n", "no points\n")
	contains("no label", "points:\n- rps: 5\n", "no entry\n", "  line 2 ", "1 point: 1 inconclusive")
	contains("no rate", "points:\n- id: 7\n", "  7 ", "invalid", "no rate is stated (rps is missing)")
	contains("mistake", "points:\n- id: 7\n  rps: many\n", "line 3: rps: want a number or null, found the text \"many\"",
		"     3 |   rps: many", "These figures are ignored")
	contains("not understood", "points:\n- rps: 1\n  foo: 2\n- rps: 3\n  foo: 2\n", "not understood, and not used: foo (line 3, 2 times)")
	contains("escapes", "points:\n- id: \"\\e[2J\\a\"\n  entry: \"\\r\\t\"\n  rps: 5\n  \"\\e[1m\": 3\n", "[2J")
}

// TestWritePointsFolds: what differs in its figures alone is one sentence, with
// the points that it is of; the JSON document has them all.
func TestWritePointsFolds(t *testing.T) {
	var text strings.Builder
	text.WriteString("points:\n")
	for i := range 71 {
		fmt.Fprintf(&text, "- {id: %d, rps: %d, server_cpu_pct: 20, server_cpu_detail: usr %d.5 sys 3}\n", i+1, 1000+i, i)
	}
	text.WriteString("- {id: last, rps: 7, server_cpu_pct: 20, server_cpu_detail: usr 20}\n")
	got := pointsText(t, text.String())
	for _, want := range []string{"  1–71  ", "is only part of the row", "(71 points; figures of point 1)", "  1–71, last  "} {
		if !strings.Contains(got, want) {
			t.Errorf("no %q in:\n%s", want, got)
		}
	}
	if n := strings.Count(got, "is only part of the row"); n != 2 {
		t.Errorf("%d sentences of the same, want one for each form of the row:\n%s", n, got)
	}
	file, err := record.ReadPoints(strings.NewReader(text.String()))
	if err != nil {
		t.Fatal(err)
	}
	v := audit.Judge(file.Points)
	var out bytes.Buffer
	if err := WritePointsJSON(&out, &file, &v); err != nil {
		t.Fatal(err)
	}
	var document PointsJudgement
	if err := json.Unmarshal(out.Bytes(), &document); err != nil {
		t.Fatal(err)
	}
	if len(document.Points) != 72 || strings.Count(out.String(), "is only part of the row") != 72 || strings.Contains(out.String(), ": null") {
		t.Errorf("%d points in:\n%.2000s", len(document.Points), out.String())
	}
}

func TestPointRanges(t *testing.T) {
	var points []record.Point
	for _, id := range []string{"1", "2", "3", "5", "6", "a", "b", "08", "9", "20"} {
		points = append(points, record.Point{ID: id})
	}
	if got := pointRanges(points, []int{0, 1, 2, 3, 4, 5, 6, 7, 8, 9}); got != "1–3, 5, 6, a, b, 08, 9, 20" {
		t.Error(got)
	}
}

// A quantile is printed with its digits.
func TestImportedQuantiles(t *testing.T) {
	r, err := importer.Parse(archive.Read(t, "../importer/testdata/*.txtar", "wrk2.txt"))
	if err != nil {
		t.Fatal(err)
	}
	if text := importedLatency(&r); !strings.Contains(text, " p99.999 ") || strings.Count(text, "p100 ") != 1 {
		t.Error(text)
	}
}

// TestForeign writes what each importer's samples say: complete, and nothing that
// moves a terminal's cursor.
func TestForeign(t *testing.T) {
	read := 0
	for _, file := range archive.All(t, "../importer/testdata/*.txtar") {
		if strings.HasSuffix(file.Name, ".golden") || file.Name == "wrk_refused.txt" {
			continue
		}
		read++
		r, err := importer.Parse(file.Data)
		if err != nil {
			t.Fatal(err)
		}
		v := audit.Judge([]record.Point{r.Point("x")}).Points[0]
		var out bytes.Buffer
		if err := Imported(&out, "x\x1b[2J", &r, &v, Layout{Output: layout.Output{Columns: 120}}); err != nil {
			t.Fatal(err)
		}
		for _, want := range []string{"Requests/sec:", "\nlatency ", "\nverdict ", "\nbottleneck ", "\ncaveats ", "\nnext "} {
			if !strings.Contains(out.String(), want) {
				t.Errorf("%s: no %q in:\n%s", file, want, out.String())
			}
		}
		if strings.ContainsAny(out.String(), "\x1b\r") || strings.Contains(out.String(), "%!") {
			t.Errorf("%s: %q", file, out.String())
		}
		// No real run is void for anything but its errors.
		bad := float64(r.Failed()+r.BadStatuses()) >= 0.01*float64(r.Requests+r.Failed())
		if v.Verdict.Outcome == record.Invalid != bad {
			t.Errorf("%s: %s, %s: %s", file, v.Verdict.Outcome, v.Verdict.Bottleneck, prose.Sentence(v.Verdict.Because))
		}
	}
	if read < 40 {
		t.Errorf("only %d samples were read", read)
	}
}

func TestWritePointsRefusesOtherVerdicts(t *testing.T) {
	file := record.PointsFile{Points: make([]record.Point, 2)}
	if err := WritePoints(&bytes.Buffer{}, &file, &audit.PointsVerdict{}, Layout{}); err == nil {
		t.Error("2 points with no verdicts were written")
	}
}
