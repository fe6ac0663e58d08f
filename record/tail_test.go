package record

import (
	"errors"
	"io/fs"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"ceiling/internal/needs"
)

// A tail hands out what is written, each row once, and a row that is written in
// two pieces when it is whole, to the end of a file that is compressed meanwhile.
func TestTailFollowsAWriter(t *testing.T) {
	path := filepath.Join(t.TempDir(), "run.ndjson.gz")
	if _, err := OpenTail(File{Path: path}); !errors.Is(err, fs.ErrNotExist) {
		t.Errorf("a run that is not there: %v", err)
	}
	w, err := Create(path, NewID(time.Now()))
	if err != nil {
		t.Fatal(err)
	}
	if _, err := OpenTail(File{Path: path}); !errors.Is(err, fs.ErrNotExist) {
		t.Errorf("a run without its head: %v", err)
	}
	if err := w.Start(Start{Created: time.Now(), Command: []string{"ceiling"}, Environment: &Environment{Host: "here"}}); err != nil {
		t.Fatal(err)
	}
	tail, err := OpenTail(File{Path: path})
	if err != nil {
		t.Fatal(err)
	}
	defer tail.Close()
	if e, err := tail.Next(); err != nil || e == nil || e.Start == nil || e.Start.ID != w.ID() {
		t.Errorf("start %+v, %v", e, err)
	}
	next := func(load, observed int) {
		t.Helper()
		var s Series
		e, err := tail.Next()
		if e != nil && e.Rows != nil {
			s = *e.Rows
		}
		if err != nil || (e == nil) != (load+observed == 0) || len(s.Load) != load || s.Observed.Len() != observed || s.Bad > 0 {
			t.Errorf("%d and %d rows, want %d and %d; bad %d, %v", len(s.Load), s.Observed.Len(), load, observed, s.Bad, err)
		}
	}
	next(0, 0)
	w.AppendLoad(&LoadRow{TNs: 1, WidthNs: 1})
	w.AppendObserved(&CPURow{ObservedHead: ObservedHead{Kind: KindCPU, TNs: 1, WidthNs: 1}})
	w.s.flush()
	next(1, 1)
	next(0, 0)
	// Half a row.
	if _, err := w.s.file.WriteString(`{"kind":"load","t_ns":2,`); err != nil {
		t.Fatal(err)
	}
	next(0, 0)
	if _, err := w.s.file.WriteString(`"width_ns":1}` + "\n" + `{"kind":"lo`); err != nil {
		t.Fatal(err)
	}
	next(1, 0)
	if _, err := w.s.file.WriteString(`ad","t_ns":3,"width_ns":1}` + "\n"); err != nil {
		t.Fatal(err)
	}
	next(1, 0)
	if err := w.Finish(&Run{Target: "t", Environment: Environment{Host: "here"}}); err != nil {
		t.Fatal(err)
	}
	e, err := tail.Next()
	if err != nil || e == nil || e.Result == nil || e.Result.Target != "t" || e.Result.Environment.Host != "here" {
		t.Errorf("%+v, %v", e, err)
	}
	next(0, 0)
	wantFiles(t, filepath.Dir(path), "run.ndjson.gz")
}

// What a tail hands out piece by piece is what Open reads at once, also of a
// series with lines that are none.
func TestTailReadsWhatOpenReads(t *testing.T) {
	needs.Time(t)
	w := begin(t, filepath.Join(t.TempDir(), "run.ndjson"))
	for i := range int64(60000) { // more than one step
		w.AppendLoad(&LoadRow{TNs: i, WidthNs: 1})
	}
	w.s.flush()
	for _, line := range []string{"nonsense\n", strings.Repeat("x", lineMax+10) + "\n", `{"kind":"later","x":1}` + "\n"} {
		if _, err := w.s.file.WriteString(line); err != nil {
			t.Fatal(err)
		}
	}
	w.AppendLoad(&LoadRow{TNs: 60000, WidthNs: 1})
	if err := w.Close(); err != nil {
		t.Fatal(err)
	}
	_, want, err := Open(w.File())
	if err != nil {
		t.Fatal(err)
	}
	tail, err := OpenTail(w.File())
	if err != nil {
		t.Fatal(err)
	}
	defer tail.Close()
	var got Series
	for {
		e, err := tail.Next()
		if err != nil {
			t.Fatal(err)
		}
		if e == nil {
			break
		}
		if e.Rows != nil {
			got.Load = append(got.Load, e.Rows.Load...)
			got.Bad += e.Rows.Bad
		}
	}
	if diff := cmp.Diff(want.Load, got.Load); diff != "" {
		t.Error(diff)
	}
	if got.Bad != want.Bad || want.Bad != 2 {
		t.Errorf("%d bad lines, Open finds %d", got.Bad, want.Bad)
	}
}

// What is none, newer, or damaged is refused in one line.
func TestTailOfOtherRecords(t *testing.T) {
	path := filepath.Join(t.TempDir(), "a.ndjson")
	for text, want := range map[string]string{
		`{"kind":"run","schema":"ceiling.run/99"}` + "\n":   "ceiling.run/99",
		`{"kind":"plan","schema":"ceiling.plan/99"}` + "\n": "ceiling.plan/99",
		`{"kind":"load"}` + "\n":                            "not a ceiling record",
		`{"kind":"run","schema":` + "\n":                    "unexpected",
		"\x1f\x8b\x08xxx":                                   "damaged",
	} {
		if err := os.WriteFile(path, []byte(text), 0o600); err != nil {
			t.Fatal(err)
		}
		if _, err := OpenTail(File{Path: path}); err == nil || !strings.Contains(err.Error(), want) || strings.Contains(err.Error(), "\n") {
			t.Errorf("%q: %v", text, err)
		}
	}
}
