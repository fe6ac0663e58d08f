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
)

// A tail hands out what is written, each row once, and a row that is written in
// two pieces when it is whole.
func TestTailFollowsAWriter(t *testing.T) {
	dir := filepath.Join(t.TempDir(), "run")
	if _, err := OpenTail(dir); !errors.Is(err, fs.ErrNotExist) {
		t.Errorf("a run that is not there: %v", err)
	}
	w, err := Create(dir, NewID(time.Now()))
	if err != nil {
		t.Fatal(err)
	}
	if err := w.Start(Start{Created: time.Now(), Command: []string{"ceiling"}}, Environment{}); err != nil {
		t.Fatal(err)
	}
	tail, err := OpenTail(dir)
	if err != nil {
		t.Fatal(err)
	}
	defer tail.Close()
	if tail.Start().ID != w.ID() {
		t.Errorf("start %+v", tail.Start())
	}
	next := func(load, observed int) {
		t.Helper()
		s, more, err := tail.Next()
		if err != nil || more || len(s.Load) != load || len(s.Observed) != observed || s.Bad > 0 || s.Truncated {
			t.Errorf("%d and %d rows, want %d and %d; more %v, bad %d, %v", len(s.Load), len(s.Observed), load, observed, more, s.Bad, err)
		}
	}
	next(0, 0)
	w.AppendLoad(&LoadRow{TNs: 1, WidthNs: 1})
	w.AppendObserved(&CPURow{ObservedHead: ObservedHead{Kind: KindCPU, TNs: 1, WidthNs: 1}})
	w.flush()
	next(1, 1)
	next(0, 0)
	// Half a row.
	if _, err := w.series.WriteString(`{"kind":"load","t_ns":2,`); err != nil {
		t.Fatal(err)
	}
	next(0, 0)
	if _, err := w.series.WriteString(`"width_ns":1}` + "\n" + `{"kind":"lo`); err != nil {
		t.Fatal(err)
	}
	next(1, 0)
	if _, err := w.series.WriteString(`ad","t_ns":3,"width_ns":1}` + "\n"); err != nil {
		t.Fatal(err)
	}
	next(1, 0)
	if r, err := tail.Result(); r != nil || err != nil {
		t.Errorf("a result before the end: %v, %v", r, err)
	}
	if err := w.Finish(&Run{Target: "t"}); err != nil {
		t.Fatal(err)
	}
	if r, err := tail.Result(); err != nil || r.Target != "t" {
		t.Errorf("%v, %v", r, err)
	}
}

// What a tail hands out piece by piece is what Open reads at once, also of a
// series with lines that are none.
func TestTailReadsWhatOpenReads(t *testing.T) {
	dir := t.TempDir()
	w, err := Create(filepath.Join(dir, "run"), NewID(time.Now()))
	if err != nil {
		t.Fatal(err)
	}
	if err := w.Start(Start{}, Environment{}); err != nil {
		t.Fatal(err)
	}
	for i := range int64(60000) { // more than one step
		w.AppendLoad(&LoadRow{TNs: i, WidthNs: 1})
	}
	w.flush()
	for _, line := range []string{"nonsense\n", strings.Repeat("x", lineMax+10) + "\n", `{"kind":"later","x":1}` + "\n"} {
		if _, err := w.series.WriteString(line); err != nil {
			t.Fatal(err)
		}
	}
	w.AppendLoad(&LoadRow{TNs: 60000, WidthNs: 1})
	if err := w.Close(); err != nil {
		t.Fatal(err)
	}
	_, want, err := Open(w.Dir())
	if err != nil {
		t.Fatal(err)
	}
	tail, err := OpenTail(w.Dir())
	if err != nil {
		t.Fatal(err)
	}
	defer tail.Close()
	var got Series
	for more := true; more; {
		var s Series
		if s, more, err = tail.Next(); err != nil {
			t.Fatal(err)
		}
		got.Load = append(got.Load, s.Load...)
		got.Bad += s.Bad
	}
	if diff := cmp.Diff(want.Load, got.Load); diff != "" {
		t.Error(diff)
	}
	if got.Bad != want.Bad || want.Bad != 2 {
		t.Errorf("%d bad lines, Open finds %d", got.Bad, want.Bad)
	}
}

// A document alone, and a newer one.
func TestTailOfOtherRecords(t *testing.T) {
	dir := t.TempDir()
	write := func(name, text string) {
		t.Helper()
		if err := os.WriteFile(filepath.Join(dir, name), []byte(text), 0o644); err != nil {
			t.Fatal(err)
		}
	}
	write(resultFile, `{"schema":"ceiling.run/1","id":"a"}`)
	tail, err := OpenTail(dir)
	if err != nil || tail.Start().ID != "a" {
		t.Fatalf("%v", err)
	}
	if s, more, err := tail.Next(); err != nil || more || len(s.Load) > 0 {
		t.Errorf("%v %v", s, err)
	}
	write(resultFile, `{"schema":"ceiling.run/99"}`)
	if _, err := tail.Result(); err == nil || !strings.Contains(err.Error(), "ceiling.run/99") {
		t.Errorf("a newer record: %v", err)
	}
	write(resultFile, `{"schema":`)
	if _, err := tail.Result(); err == nil || strings.Contains(err.Error(), "\n") {
		t.Errorf("half a record: %v", err)
	}
}
