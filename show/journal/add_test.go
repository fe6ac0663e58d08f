package journal

import (
	"os"
	"path/filepath"
	"strings"
	"testing"

	"ceiling/experiment/spec"
	"ceiling/record"
)

func field(name, value string) spec.Field { return spec.Field{Name: name, Value: value} }

// What begin and add make builds, from the journal alone.
func TestBeginAndAdd(t *testing.T) {
	dir := filepath.Join(t.TempDir(), "journal")
	folder, err := Create(dir, "  Does 'gzip' pay: for /read? ", "2026-11-21")
	check(t, err)
	if filepath.Base(folder) != "0001-does-gzip-pay-for-read" {
		t.Errorf("the folder is %s", folder)
	}
	e, err := FindEntry(dir, "0001")
	check(t, err)
	if e.Title != "Does 'gzip' pay: for /read?" || e.Status != Planned || e.Date != "2026-11-21" {
		t.Errorf("it begins as %+v", e.Front)
	}
	if s := build(t, dir); !strings.Contains(string(s.Files[e.Page()]), "Not measured yet: table of main.") {
		t.Error("the page of a new entry does not say that nothing is measured")
	}
	from := fileOf(filepath.Join(t.TempDir(), "store"), sweepID)
	check(t, os.MkdirAll(filepath.Dir(from), 0o755))
	keepPlan(t, from, samplePlans()[sweepID], true)
	before := mustRead(t, e.File)
	a, err := Add(e, record.File{Path: from}, "")
	check(t, err)
	if want := strings.Replace(before, "  main:\n", "  main: "+sweepID+"\n", 1); mustRead(t, e.File) != want || a.As != "main" {
		t.Errorf("the text is now\n%s", mustRead(t, e.File))
	}
	if len(a.LeftOut) != 1 || a.LeftOut[0].What != "series" || a.LeftOut[0].Bytes == 0 {
		t.Errorf("left out: %+v", a.LeftOut)
	}
	copied, err := record.OpenPlan(record.File{Path: a.File})
	check(t, err)
	first, there := copied.Record("20261121-100000-run1")
	c, err := record.Read(first)
	if !there || err != nil || c.Run.Unfinished || len(c.Histograms) != 3 || len(c.Series.Load) != 0 || len(copied.Runs) != 2 {
		t.Errorf("%v, %+v", err, c)
	}
	s := build(t, dir)
	run := string(s.Files[recordPage("20261121-100000-run1")])
	if len(s.Warnings) > 0 || !strings.Contains(run, "was left out of the journal&#39;s copy") {
		t.Errorf("warnings %v; or the run's page does not say what is left out", s.Warnings)
	}
	if _, err := Add(e, record.File{Path: from}, ""); err == nil || !strings.Contains(err.Error(), "is there already") {
		t.Errorf("twice: %v", err)
	}
}

// Which name of the front matter a record becomes.
func TestNames(t *testing.T) {
	r, h := sampleRun(runID, 1)
	from := fileOf(t.TempDir(), r.ID)
	keepRun(t, from, r, h)
	for _, c := range []struct{ runs, as, want, fails string }{
		{"runs:\n  a: # the first\n", "", "runs:\n  a: " + runID + " # the first\n", ""},
		{"runs:\n  a:\n  b:\n", "", "runs:\n  a:\n  b:\n", ""},
		{"runs:\n  a:\n  b:\n", "b", "runs:\n  a:\n  b: " + runID + "\n", ""},
		{"runs:\n  a:\n", "c", "", `has no "c" among its runs`},
		{"runs:\n  a: " + otherID + "\n", "a", "", "runs: a is " + otherID + " already"},
		{"runs: [" + runID + "]\n", "", "runs: [" + runID + "]\n", ""},
		{"runs: {a: }\n", "", "", "write its ID here"},
		{"", "", "", ""},
	} {
		dir := filepath.Join(t.TempDir(), "j")
		writeEntry(t, dir, "0001-a", "status: planned\n"+c.runs, "\nText with {{(run \"a\").Rate}}.\r\nEnd")
		e, err := FindEntry(dir, "a")
		check(t, err)
		_, err = Add(e, record.File{Path: from}, c.as)
		if (err != nil) != (c.fails != "") || err != nil && !strings.Contains(err.Error(), c.fails) {
			t.Errorf("%q as %q: %v", c.runs, c.as, err)
		}
		text := mustRead(t, e.File)
		if !strings.Contains(text, c.want) || !strings.HasSuffix(text, ".Rate}}.\r\nEnd") {
			t.Errorf("%q as %q: the text is\n%s", c.runs, c.as, text)
		}
	}
}

// A series goes along while it is small; what is not finished does not.
func TestWhatIsCopied(t *testing.T) {
	dir := oneRun(t, "in progress", "")
	e, err := FindEntry(dir, "0001")
	check(t, err)
	r, h := sampleRun("20261121-160000-aaaa", 1)
	from := fileOf(t.TempDir(), r.ID)
	keepRun(t, from, r, h)
	a, err := Add(e, record.File{Path: from}, "")
	check(t, err)
	if _, series, err := record.Open(record.File{Path: a.File}); err != nil || len(series.Load) != 20 || len(a.LeftOut) > 0 {
		t.Errorf("%v, %d rows, left out %v", err, len(series.Load), a.LeftOut)
	}
	r.ID = "20261121-160000-bbbb"
	large := fileOf(t.TempDir(), r.ID)
	keepRun(t, large, r, h)
	rewrite(t, large, func(kind string, line []byte) []byte {
		if kind == "load" {
			return append(line, strings.Repeat(" ", seriesMost/10)+`x`...)
		}
		return line
	})
	a, err = Add(e, record.File{Path: large}, "")
	check(t, err)
	if _, series, err := record.Open(record.File{Path: a.File}); err != nil || len(series.Load) > 0 || len(a.LeftOut) != 1 ||
		a.LeftOut[0].Bytes < seriesMost {
		t.Errorf("a large series: %v, %v", err, a.LeftOut)
	}
	r.ID = "20261121-160000-cccc"
	cut := fileOf(t.TempDir(), r.ID)
	keepRun(t, cut, r, h)
	rewrite(t, cut, func(kind string, line []byte) []byte {
		if kind == "result" {
			return nil
		}
		return line
	})
	if _, err := Add(e, record.File{Path: cut}, ""); err == nil || !strings.Contains(err.Error(), "was cut off before it had a result") {
		t.Errorf("a run that was killed: %v", err)
	}
	p := samplePlan(searchID, spec.KindFind)
	p.Ended = record.EndedInterrupted
	broken := fileOf(t.TempDir(), p.ID)
	keepPlan(t, broken, p, false)
	if _, err := Add(e, record.File{Path: broken}, ""); err == nil || !strings.Contains(err.Error(), "resume with: ceiling run --resume "+searchID) {
		t.Errorf("a plan that was broken off: %v", err)
	}
}

func TestTitles(t *testing.T) {
	dir := t.TempDir()
	for _, c := range []struct{ title, want string }{
		{"One", "0001-one"}, {"Ünïcode & more!", "0002-n-code-more"},
		{strings.Repeat("very long ", 20), "0003-very-long-very-long-very-long-very-long-very-long"}, {"a", "0004-a"},
	} {
		folder, err := Create(dir, c.title, "2026-11-21")
		if err != nil || filepath.Base(folder) != c.want {
			t.Errorf("%q: %s, %v; want %s", c.title, folder, err, c.want)
		}
	}
	for title, want := range map[string]string{"???": "has no letters", "": "has no letters", "ONE": "there is 0001-one already"} {
		if _, err := Create(dir, title, "2026-11-21"); err == nil || !strings.Contains(err.Error(), want) {
			t.Errorf("%q: %v, want %q", title, err, want)
		}
	}
}
