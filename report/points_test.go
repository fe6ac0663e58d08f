package report

import (
	"bytes"
	"os"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"

	"ceiling/record"
	judged "ceiling/verdict"
)

func pointsText(t *testing.T, text string) string {
	t.Helper()
	file, err := record.ReadPoints(strings.NewReader(text))
	if err != nil {
		t.Fatal(err)
	}
	v := judged.JudgePoints(file.Points)
	var out bytes.Buffer
	if err := WritePoints(&out, &file, &v); err != nil {
		t.Fatal(err)
	}
	return out.String()
}

// The golden file is the report on 46 points of a public journal. Write it
// anew with UPDATE_GOLDEN=1 and read the difference.
func TestWritePointsGolden(t *testing.T) {
	const golden = "../verdict/testdata/points/report.txt"
	data, err := os.ReadFile("../verdict/testdata/points/points.yaml")
	if err != nil {
		t.Fatal(err)
	}
	got := pointsText(t, string(data))
	if os.Getenv("UPDATE_GOLDEN") != "" {
		if err := os.WriteFile(golden, []byte(got), 0o644); err != nil {
			t.Fatal(err)
		}
	}
	want, err := os.ReadFile(golden)
	if err != nil {
		t.Fatal(err)
	}
	if d := cmp.Diff(strings.Split(string(want), "\n"), strings.Split(got, "\n")); d != "" {
		t.Errorf("differs from %s:\n%s", golden, d)
	}
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
	contains("no label", "points:\n- rps: 5\n", "no entry\n", "  line 2 ", "1 point: 1 undetermined")
	contains("no rate", "points:\n- id: 7\n", "  7 ", "void", "there is no rate (rps is missing)")
	contains("mistake", "points:\n- id: 7\n  rps: many\n", "line 3: rps: want a number or null, found the text \"many\"", "     3 |   rps: many", "count as not stated")
	contains("not understood", "points:\n- rps: 1\n  foo: 2\n- rps: 3\n  foo: 2\n", "not understood, and not used: foo (line 3, 2 times)")
	contains("escapes", "points:\n- id: \"\\e[2J\\a\"\n  entry: \"\\r\\t\"\n  rps: 5\n  \"\\e[1m\": 3\n", "[2J")
}

func TestWritePointsRefusesOtherVerdicts(t *testing.T) {
	file := record.PointsFile{Points: make([]record.Point, 2)}
	if err := WritePoints(&bytes.Buffer{}, &file, &judged.PointsVerdict{}); err == nil {
		t.Error("2 points with no verdicts were written")
	}
}
