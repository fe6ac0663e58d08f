package report

import (
	"bytes"
	"strings"
	"testing"

	"ceiling/internal/archive"
	"ceiling/show/importer"
	"ceiling/show/layout"
)

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
		var out bytes.Buffer
		if err := Imported(&out, "x\x1b[2J", &r, Layout{Output: layout.Output{Columns: 120}}); err != nil {
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
		wrong := r.Failed()
		for status, n := range r.Statuses {
			if strings.Contains("45", status[:1]) || status == "not 2xx" {
				wrong += n
			}
		}
		bad := float64(wrong) >= 0.01*float64(r.Requests+r.Failed())
		if r.Invalid != bad {
			t.Errorf("%s: invalid is %v: %s", file, r.Invalid, r.Caveats[0])
		}
	}
	if read < 37 {
		t.Errorf("only %d samples were read", read)
	}
}
