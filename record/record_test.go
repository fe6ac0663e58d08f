package record

import (
	"bytes"
	"encoding/json"
	"errors"
	"io"
	"math"
	"os"
	"path/filepath"
	"reflect"
	"runtime"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"ceiling/experiment/spec"
	"ceiling/internal/golden"
	"ceiling/internal/reference"
)

const testID = "20261121-093012-x7f2"

func testStart() Start {
	return Start{
		Created: time.Date(2026, 11, 21, 9, 30, 12, 0, time.UTC),
		Command: []string{"ceiling", "-c", "8", "http://localhost/?a=<&>"},
		Spec: spec.Spec{
			Targets:   []spec.Target{{Method: "GET", URL: "http://localhost/?a=<&>", Weight: 1}},
			Condition: spec.Condition{Connections: 8, Threads: 2, Pipelining: 1}, Duration: 2 * time.Second, Timeout: time.Second,
			Settings: spec.Settings{Engine: spec.EngineAuto},
		},
	}
}

// begin starts a run and writes what a run has before its first request.
func begin(t *testing.T, path string) *Writer {
	t.Helper()
	w, err := Create(path, testID)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { w.Close() })
	start := testStart()
	start.Environment = &Environment{Host: "here", CoresOnline: 2}
	if err := w.Start(start); err != nil {
		t.Fatal(err)
	}
	return w
}

func loadRow(i int) *LoadRow {
	return &LoadRow{TNs: int64(i) * 1e8, WidthNs: 1e8, Sent: 100, Completed: 99, Failed: 1, Bad: 2, Read: 1000, Written: 500, InFlight: 8,
		Connected: 8, Warmup: i <= 0}
}

func TestFinishedRun(t *testing.T) {
	dir := filepath.Join(t.TempDir(), "run.ndjson")
	w := begin(t, dir)
	w.AppendLoad(loadRow(1))
	cpu := &CPURow{ObservedHead: ObservedHead{Kind: KindCPU, Host: "here", TNs: 1e8, WidthNs: 1e8}, Cores: []CoreTicks{{CPU: 0, User: 10}}}
	w.AppendObserved(cpu)
	w.AppendNotMeasured(NotMeasured{What: "psi", Why: "not kept"})
	cpu.Cores[0].User = 99 // the sampler uses its row again
	if err := w.Histogram("response", "HISTFAAA"); err != nil {
		t.Error(err)
	}
	if err := errors.Join(w.Attach("cpu.pprof", []byte{1, 2, 0xff}), w.Attach("cpu.folded", []byte("a;b 3\n"))); err != nil {
		t.Error(err)
	}
	run := &Run{Target: "http://localhost/?a=<&>", Spec: testStart().Spec, Requests: Requests{Sent: 100, Completed: 99, Failed: 1},
		Verdict: Verdict{Outcome: Valid}}
	if err := w.Finish(run); err != nil {
		t.Fatal(err)
	}
	if err := errors.Join(w.Close(), w.Err()); err != nil || run.Schema != "" {
		t.Errorf("%v, schema %q", err, run.Schema)
	}
	got, series, err := Open(File{Path: dir})
	if err != nil {
		t.Fatal(err)
	}
	if got.Schema != Schema || got.ID != testID || got.Unfinished || got.Requests != run.Requests || got.Target != run.Target ||
		!reflect.DeepEqual(got.Spec, run.Spec) {
		t.Errorf("%+v", got)
	}
	if len(series.Load) != 1 || series.Load[0].Completed != 99 || len(series.NotMeasured) != 1 || series.Bad != 0 || series.Truncated {
		t.Errorf("%+v", series)
	}
	if rows := series.Observed.CPU; len(rows) != 1 || rows[0].Cores[0].User != 10 {
		t.Errorf("%+v", rows)
	}
	if rows := series.Observed.TCP; rows != nil {
		t.Errorf("%+v", rows)
	}
	var text bytes.Buffer
	if err := WriteJSON(&text, got); err != nil || strings.Contains(text.String(), "null") ||
		!strings.Contains(text.String(), `"target": "http://localhost/?a=<&>"`) {
		t.Errorf("%s, %v", text.String(), err)
	}
	c, err := Read(File{Path: dir})
	if err != nil || len(c.Attachments) != 2 || string(c.Attachments[0].Bytes()) != "\x01\x02\xff" ||
		string(c.Attachments[1].Bytes()) != "a;b 3\n" || c.Histograms["response"] != "HISTFAAA" {
		t.Errorf("%+v, %v", c, err)
	}
	lines, err := os.ReadFile(dir)
	if err != nil || strings.Count(string(lines), `"cores_online":2`) != 1 || strings.Count(string(lines), "connections") != 2 {
		t.Errorf("the environment or the spec is there twice: %s", lines) // load.connections is the result's
	}
	wantFiles(t, filepath.Dir(dir), "run.ndjson")
}

func wantFiles(t *testing.T, dir string, want ...string) {
	t.Helper()
	entries, err := os.ReadDir(dir)
	if err != nil {
		t.Fatal(err)
	}
	var got []string
	for _, e := range entries {
		got = append(got, e.Name())
	}
	if !reflect.DeepEqual(got, want) {
		t.Errorf("files %q; want %q", got, want)
	}
}

// A killed run leaves its rows within a second, without another row coming.
func TestRowsReachTheFile(t *testing.T) {
	dir := filepath.Join(t.TempDir(), "run.ndjson")
	synctest.Test(t, func(t *testing.T) {
		w := begin(t, dir)
		for i := range 3 {
			w.AppendLoad(loadRow(i))
			time.Sleep(time.Second)
			synctest.Wait()
			_, series, err := Open(File{Path: dir})
			if err != nil || len(series.Load) != i+1 {
				t.Errorf("%d rows after a second, %v; want %d", len(series.Load), err, i+1)
			}
		}
	})
}

func TestUnfinishedRun(t *testing.T) {
	dir := filepath.Join(t.TempDir(), "run.ndjson")
	w := begin(t, dir)
	for i := -4; i <= 20; i++ {
		w.AppendLoad(loadRow(i))
	}
	w.AppendNotMeasured(NotMeasured{What: "psi", Why: "not kept", TNs: 5})
	if err := w.Close(); err != nil {
		t.Fatal(err)
	}
	// The kill came in the middle of a row.
	path := dir
	text, err := os.ReadFile(path)
	if err != nil {
		t.Fatal(err)
	}
	if err := os.WriteFile(path, append(text, `{"kind":"load","t_ns":21`...), 0o600); err != nil {
		t.Fatal(err)
	}
	run, series, err := Open(File{Path: dir})
	if err != nil {
		t.Fatal(err)
	}
	if !series.Truncated || series.Bad != 0 || len(series.Load) != 25 {
		t.Errorf("%d rows, %d bad, truncated %v", len(series.Load), series.Bad, series.Truncated)
	}
	if want := (Requests{Sent: 2008, InFlightAtStart: 8, Completed: 1980, Failed: 20, InFlight: 8}); run.Requests != want {
		t.Errorf("%+v; want %+v", run.Requests, want)
	}
	check := func(what string, ok bool) {
		t.Helper()
		if !ok {
			t.Errorf("%s: %+v", what, run)
		}
	}
	near := func(a, b float64) bool { return math.Abs(a-b) < 1e-9*b }
	check("sum", run.Requests.Sent == run.Requests.Completed+run.Requests.Failed+run.Requests.InFlight)
	check("flags", run.Unfinished && run.Verdict.Outcome == Invalid && run.Exit == 4 && run.ID == testID)
	check("times", near(run.ElapsedS, 2) && near(run.WarmupS, .5) && run.Started.Equal(testStart().Created))
	check("rates", near(run.Rate.CompletedPerS, 990) && near(run.Rate.SentPerS, 1000) && run.Rate.Spread.Samples == 20)
	check("bytes", run.Bytes == Bytes{Read: 20000, Written: 10000})
	check("load", run.Load.Connections == 8 && run.Load.Established == 8 && run.Load.Mode == "closed")
	check("environment", run.Environment.Host == "here")
	check("errors", len(run.Errors) == 1 && run.Errors[0] == Error{Phase: "status", Cause: "400 or more", Count: 40})
	check("latency", reflect.DeepEqual(run.Latency, Latency{}))
	missing := map[string]bool{}
	for _, n := range run.NotMeasured {
		missing[n.What] = true
	}
	for _, what := range []string{"latency", "statuses", "generator", "series", "psi"} {
		check(what+" not measured", missing[what])
	}
}

func TestKilledBeforeTheWindow(t *testing.T) {
	dir := filepath.Join(t.TempDir(), "run.ndjson")
	w := begin(t, dir)
	w.AppendLoad(loadRow(0))
	if err := w.Close(); err != nil {
		t.Fatal(err)
	}
	text, err := os.ReadFile(dir)
	if err != nil {
		t.Fatal(err)
	}
	text = bytes.Replace(text, []byte(`"environment":{`), []byte(`"elsewhere":{`), 1)
	if err := os.WriteFile(dir, text, 0o600); err != nil {
		t.Fatal(err)
	}
	run, _, err := Open(File{Path: dir})
	if err != nil || run.Requests != (Requests{}) || run.Rate != (Rate{}) || run.WarmupS == 0 {
		t.Errorf("%+v, %v", run, err)
	}
	if last := run.NotMeasured[len(run.NotMeasured)-1]; last.What != "environment" {
		t.Errorf("%+v", run.NotMeasured)
	}
}

func TestOpenRefuses(t *testing.T) {
	check := func(name, want, text string) {
		t.Helper()
		file := filepath.Join(t.TempDir(), "a.ndjson")
		if err := os.WriteFile(file, []byte(text), 0o600); err != nil {
			t.Fatal(err)
		}
		_, _, err := Open(File{Path: file})
		if err == nil || !strings.Contains(err.Error(), want) || strings.Contains(err.Error(), "\n") {
			t.Errorf("%s: %v; want one line with %q", name, err, want)
		}
	}
	check("empty", "not a ceiling record", "")
	check("foreign", "not a ceiling record", `{"a":1}`+"\n")
	check("text", "not a ceiling record", "hello\nworld\n")
	check("cut off", "not a ceiling record", `{"kind":"run","schema":"ceiling.run/3"`)
	check("newer", "it needs a ceiling that reads ceiling.run/4; this one reads up to ceiling.run/3",
		`{"kind":"run","schema":"ceiling.run/4","id":7}`+"\n")
	check("older", "it was written by an older ceiling as ceiling.run/1; this one reads ceiling.run/3: run it again",
		`{"kind":"run","schema":"ceiling.run/1","id":7}`+"\n")
	check("newer plan", "it is a plan", `{"kind":"plan","schema":"ceiling.plan/9"}`+"\n")
	check("no schema", `its schema is "", not ceiling.run/3`, `{"kind":"run"}`+"\n")
	check("version 0", "not ceiling.run/3", `{"kind":"run","schema":"ceiling.run/0"}`)
	check("wrong type", "cannot unmarshal", `{"kind":"run","schema":"ceiling.run/3","id":7}`)
	check("damaged gzip", "damaged, or cut off", "\x1f\x8b\x08rubbish")
	if _, _, err := Open(File{Path: t.TempDir()}); err == nil || !strings.Contains(err.Error(), "holds no record") {
		t.Error(err)
	}
}

func TestCreateRefuses(t *testing.T) {
	parent := t.TempDir()
	mkdir := func(name string) string {
		path := filepath.Join(parent, name)
		if err := os.MkdirAll(path, 0o700); err != nil {
			t.Fatal(err)
		}
		return path
	}
	check := func(path, want, wantErr string) {
		t.Helper()
		w, err := Create(path, testID)
		if wantErr != "" {
			if err == nil || !strings.Contains(err.Error(), wantErr) {
				t.Errorf("Create(%s): %v; want %q", path, err, wantErr)
			}
			return
		}
		if err != nil || w.File().Path != want || w.ID() != testID {
			t.Errorf("Create(%s): %v; want %s", path, err, want)
			return
		}
		if err := w.Close(); err != nil {
			t.Error(err)
		}
	}
	deep := filepath.Join(parent, "new", "deep")
	check(deep, filepath.Join(deep, testID+".ndjson"), "")
	empty := mkdir("empty")
	check(empty, filepath.Join(empty, testID+".ndjson"), "")
	check(empty, "", "file exists")
	check(filepath.Join(empty, "mine.ndjson"), filepath.Join(empty, "mine.ndjson"), "")
	check(filepath.Join(empty, "mine.ndjson.gz"), "", "file exists")
	packed := filepath.Join(empty, "packed.ndjson.gz")
	if err := os.WriteFile(packed, nil, 0o600); err != nil {
		t.Fatal(err)
	}
	check(filepath.Join(empty, "packed.ndjson"), "", "file already exists")
	mkdir("mixed/20251121-093012-aaaa")
	check(filepath.Join(parent, "mixed"), "", "not empty and not a directory of records")
	check("/dev/null", "", "not a directory")
}

func TestWriterNames(t *testing.T) {
	w := begin(t, filepath.Join(t.TempDir(), "run.ndjson"))
	for _, name := range []string{"", ".x", "../x", "a/b", `a\b`} {
		if err := w.Attach(name, nil); err == nil {
			t.Errorf("%q was taken", name)
		}
	}
	if err := w.Histogram("total", ""); err == nil {
		t.Error("a histogram of nothing was taken")
	}
	if w.Err() == nil {
		t.Error("no error was kept")
	}
}

func TestWriterKeepsErrors(t *testing.T) {
	w := begin(t, filepath.Join(t.TempDir(), "run.ndjson"))
	row := loadRow(1)
	row.MeanNs = math.NaN()
	w.AppendLoad(row)
	w.AppendLoad(loadRow(2))
	if err := w.Err(); err == nil || !strings.Contains(err.Error(), "NaN") {
		t.Errorf("%v; want the NaN", err)
	}
	if err := w.Finish(&Run{}); err == nil || !strings.Contains(err.Error(), "NaN") {
		t.Errorf("%v; want the NaN", err)
	}
	if _, series, err := Open(w.File()); err != nil || len(series.Load) != 1 || series.Bad != 0 {
		t.Errorf("%+v, %v; want the row without a NaN", series, err)
	}
	w.AppendLoad(loadRow(3)) // a late one: dropped, and not a crash
	bad := &Run{ElapsedS: math.Inf(1)}
	w = begin(t, filepath.Join(t.TempDir(), "run.ndjson"))
	if err := w.Finish(bad); err == nil {
		t.Error("an infinite time was written")
	}
	if run, _, err := Open(w.File()); err != nil || !run.Unfinished {
		t.Errorf("%v, %v", run, err)
	}
}

// A full disk: the run goes on, what was written before stays readable, and the
// result says that the series is not whole.
func TestDiskFull(t *testing.T) {
	full, err := os.OpenFile("/dev/full", os.O_WRONLY, 0)
	if err != nil {
		t.Fatal(err)
	}
	defer full.Close()
	w := begin(t, filepath.Join(t.TempDir(), "run.ndjson"))
	w.s.out = full
	for i := range 1000 { // more than the buffer
		w.AppendLoad(loadRow(i))
	}
	if err := w.Err(); err == nil || !strings.Contains(err.Error(), "no space left") {
		t.Errorf("%v; want a full disk", err)
	}
	w.s.out = w.s.file // there is room again, for a little
	if err := w.Finish(&Run{}); err == nil || err != w.Err() {
		t.Errorf("%v; want the full disk", err)
	}
	run, series, err := Open(w.File())
	if err != nil || len(series.Load) != 0 || len(run.NotMeasured) != 1 || run.NotMeasured[0].What != "series" || !run.NotMeasured[0].Part {
		t.Errorf("%+v, %+v, %v", run.NotMeasured, series, err)
	}
}

// The last flush is the one that fails, and then nothing can be written: what was
// before is a run that was killed.
func TestDiskFullAtTheEnd(t *testing.T) {
	w := begin(t, filepath.Join(t.TempDir(), "run.ndjson"))
	w.AppendLoad(loadRow(1))
	w.s.flush()
	w.AppendLoad(loadRow(2))
	w.s.file.Close() // as a disk that went away
	if err := w.Finish(&Run{}); err == nil {
		t.Error("nothing is said")
	}
	if run, series, err := Open(w.File()); err != nil || !run.Unfinished || len(series.Load) != 1 {
		t.Errorf("%+v, %v", run, err)
	}
}

func TestStore(t *testing.T) {
	env := map[string]string{"HOME": "/home/me"}
	getenv := func(name string) string { return env[name] }
	checkDir := func(want string) {
		t.Helper()
		s, err := DefaultStore(getenv)
		if (err == nil) != (want != "") || s.Dir != filepath.FromSlash(want) {
			t.Errorf("%q, %v; want %q", s.Dir, err, want)
		}
	}
	if runtime.GOOS != "windows" {
		checkDir("/home/me/.local/share/ceiling/runs")
		env["XDG_DATA_HOME"] = "relative"
		checkDir("/home/me/.local/share/ceiling/runs")
		env["XDG_DATA_HOME"] = "/data"
		checkDir("/data/ceiling/runs")
		delete(env, "XDG_DATA_HOME")
		delete(env, "HOME")
		checkDir("")
	}

	s := Store{Dir: filepath.Join(t.TempDir(), "a", "runs")}
	if list, err := s.List(); err != nil || len(list) != 0 {
		t.Errorf("%v, %v", list, err)
	}
	ids := []string{"20251121-093012-aaaa", "20261121-093012-x7f2", "20261121-093013-y7f2"}
	for i, id := range ids {
		w, err := s.Create(id)
		if err != nil {
			t.Fatal(err)
		}
		if err := w.Start(testStart()); err != nil {
			t.Fatal(err)
		}
		if i == 0 { // killed
			if err := w.s.file.Close(); err != nil {
				t.Fatal(err)
			}
			continue
		}
		if err := w.Finish(&Run{Target: "t", Rate: Rate{CompletedPerS: 5},
			Verdict: Verdict{Outcome: Valid, Bottleneck: "concurrency"}}); err != nil {
			t.Fatal(err)
		}
	}
	foreign := filepath.Join(s.Dir, "notes")
	if err := os.Mkdir(foreign, 0o700); err != nil {
		t.Fatal(err)
	}
	if err := os.WriteFile(filepath.Join(s.Dir, "a.txt"), nil, 0o600); err != nil {
		t.Fatal(err)
	}
	if err := os.WriteFile(filepath.Join(s.Dir, ids[2]+".ndjson.gz"), []byte("{"), 0o600); err != nil {
		t.Fatal(err)
	}
	checkList(t, s, ids)
	checkFind(t, s, ids)
	if _, err := s.Create(ids[1]); err == nil {
		t.Error("a run was made over another")
	}
	if _, err := s.Create("../x"); err == nil {
		t.Error("a run was made outside")
	}
}

// A record is running while a process writes it, and lost once that has ended.
func TestProgressInAList(t *testing.T) {
	s := Store{Dir: t.TempDir()}
	w, err := s.Create(testID)
	if err != nil {
		t.Fatal(err)
	}
	if err := w.Start(testStart()); err != nil {
		t.Fatal(err)
	}
	check := func(want Progress) {
		t.Helper()
		if list, err := s.List(); err != nil || len(list) != 1 || list[0].Progress != want {
			t.Errorf("%+v, %v; want one that is %q", list, err, want)
		}
	}
	check(Running)
	if err := w.s.file.Close(); err != nil { // as its process's end does
		t.Fatal(err)
	}
	check(Abandoned)
}

func checkList(t *testing.T, s Store, ids []string) {
	t.Helper()
	list, err := s.List()
	if err != nil || len(list) != 5 {
		t.Fatalf("%+v, %v", list, err)
	}
	if e := list[0]; e.ID != ids[2] || !strings.Contains(e.Unreadable, "not a ceiling record") {
		t.Errorf("damaged: %+v", e)
	}
	if e := list[1]; e.ID != ids[1] || e.Unreadable != "" || e.Target != "t" || e.CompletedPerS != 5 || e.Outcome != Valid ||
		e.Bottleneck != "concurrency" || e.Progress != Ended {
		t.Errorf("finished: %+v", e)
	}
	if e := list[2]; e.ID != ids[0] || e.Unreadable != "" || e.Progress != Abandoned || e.Target != "http://localhost/?a=<&>" ||
		!e.Started.Equal(testStart().Created) {
		t.Errorf("killed: %+v", e)
	}
	if e := list[3]; e.ID != "a.txt" || !strings.Contains(e.Unreadable, "not a record") {
		t.Errorf("file: %+v", e)
	}
	if e := list[4]; e.ID != "notes" || !strings.Contains(e.Unreadable, "not a record") {
		t.Errorf("foreign: %+v", e)
	}
}

func checkFind(t *testing.T, s Store, ids []string) {
	t.Helper()
	file := func(id string) string {
		if id == ids[0] { // killed
			return filepath.Join(s.Dir, id+".ndjson")
		}
		return filepath.Join(s.Dir, id+".ndjson.gz")
	}
	for name, want := range map[string]string{ids[0]: ids[0], "aaaa": ids[0], "2025": ids[0], "x7f2": ids[1], "20261121-093013": ids[2],
		file(ids[0]): ids[0]} {
		if f, err := s.Find(name); err != nil || f.Path != file(want) {
			t.Errorf("Find(%q) = %q, %v; want %q", name, f, err, file(want))
		}
	}
	for name, want := range map[string]string{
		"":                            "no name given",
		"zzzz":                        `no run named "zzzz" in ` + s.Dir,
		"notes":                       "no run named",
		"7f2":                         `"7f2" could be ` + ids[2] + ", " + ids[1] + "; give more",
		"20261121":                    "could be",
		".":                           "holds no record",
		s.Dir:                         "holds 3 records; name one",
		filepath.Join(s.Dir, "notes"): "holds no record",
	} {
		if _, err := s.Find(name); err == nil || !strings.Contains(err.Error(), want) {
			t.Errorf("Find(%q): %v; want %q", name, err, want)
		}
	}
}

func TestNewID(t *testing.T) {
	early := NewID(time.Date(2026, 11, 21, 10, 30, 12, 0, time.FixedZone("", 3600)))
	late := NewID(time.Date(2026, 11, 21, 9, 30, 13, 0, time.UTC))
	if !strings.HasPrefix(early, "20261121-093012-") || !IsID(early) || !IsID(late) || early >= late {
		t.Errorf("%s, %s", early, late)
	}
	for _, name := range []string{"", "20261121-093012-X7f2", "20261121-093012-x7f", "2026112x-093012-x7f2", "20261121_093012-x7f2"} {
		if IsID(name) {
			t.Errorf("%q counts as an ID", name)
		}
	}
}

func TestReadSeries(t *testing.T) {
	load := `{"kind":"load","t_ns":100,"width_ns":100,"completed":1}`
	check := func(name, text string, want Series) {
		t.Helper()
		got, err := readSeries(newLines(strings.NewReader(text)))
		if err != nil {
			t.Errorf("%s: %v", name, err)
		}
		problems := len(got.Problems) > 0
		if wants := want.Bad > 0 || want.Truncated; problems != wants {
			t.Errorf("%s: problems %q", name, got.Problems)
		}
		if len(got.Load) != len(want.Load) || got.Bad != want.Bad || got.Truncated != want.Truncated ||
			!reflect.DeepEqual(got.Unknown, want.Unknown) {
			t.Errorf("%s: %+v; want %+v", name, got, want)
		}
	}
	one := []LoadRow{{}}
	check("empty", "", Series{})
	check("blank lines", "\n\n"+load+"\n\n", Series{Load: one})
	check("without its newline", load, Series{Load: one})
	check("cut off", load+"\n"+load[:20], Series{Load: one, Damage: Damage{Truncated: true}})
	check("damaged within", load[:20]+"\n"+load+"\n", Series{Load: one, Damage: Damage{Bad: 1}})
	check("wrong type", `{"kind":"load","t_ns":"x"}`+"\n", Series{Damage: Damage{Bad: 1}})
	check("negative width", `{"kind":"load","width_ns":-1}`+"\n", Series{Damage: Damage{Bad: 1}})
	check("no kind", `{}`+"\n[]\n1\n", Series{Damage: Damage{Bad: 3}})
	check("bad observed row", `{"kind":"cpu","cores":1}`+"\n", Series{Damage: Damage{Bad: 1}})
	check("unknown", `{"kind":"gpu","x":1}`+"\n"+`{"kind":"gpu"}`+"\n", Series{Unknown: map[string]int{"gpu": 2}})
	check("too long", strings.Repeat("x", lineMax+1)+"\n"+load+"\n", Series{Load: one, Damage: Damage{Bad: 1}})
	s, err := readSeries(newLines(strings.NewReader(`  {"kind":"gpu","x":1} ` + "\n")))
	if want := []json.RawMessage{json.RawMessage(`{"kind":"gpu","x":1}`)}; err != nil || !reflect.DeepEqual(s.Raw, want) {
		t.Errorf("%s, %v; want %s", s.Raw, err, want)
	}
	var many strings.Builder
	for i := range 200 {
		many.WriteString(`{"kind":"k` + strings.Repeat("x", i) + `"}` + "\n")
	}
	if s, err := readSeries(newLines(strings.NewReader(many.String()))); err != nil || len(s.Unknown) > 101 || len(s.Raw) != 200 {
		t.Errorf("%d kinds, %d rows, %v", len(s.Unknown), len(s.Raw), err)
	}
}

func FuzzReadSeries(f *testing.F) {
	f.Add([]byte(`{"kind":"load","t_ns":100,"width_ns":100,"completed":1}` + "\n" + `{"kind":"cpu","cores":[{"cpu":0}]}` + "\n" +
		`{"kind":"lo`))
	f.Add([]byte(`{"kind":"not_measured","what":"psi","why":"x"}` + "\n" + `{"kind":"gpu"}` + "\n{}\n"))
	f.Fuzz(func(t *testing.T, data []byte) {
		s, err := readSeries(newLines(strings.NewReader(string(data))))
		if err != nil {
			t.Fatal(err)
		}
		var run Run
		run.fromRows(s.Load)
		if math.IsNaN(run.Rate.CompletedPerS) || math.IsNaN(run.Rate.Spread.StdevPerS) || math.IsInf(run.Rate.CompletedPerS, 0) {
			t.Errorf("%+v", run.Rate)
		}
		unknown := 0
		for _, n := range s.Unknown {
			unknown += n
		}
		rows := len(s.Load) + s.Observed.Len() + len(s.NotMeasured) + unknown + s.Bad
		if s.Truncated {
			rows++
		}
		lines := 0
		for line := range strings.SplitSeq(string(data), "\n") {
			if strings.TrimSpace(line) != "" {
				lines++
			}
		}
		// bytes.TrimSpace and strings.TrimSpace agree, so that no line gets lost.
		if rows != lines {
			t.Errorf("%d lines, %d accounted for", lines, rows)
		}
	})
}

func BenchmarkAppendLoad(b *testing.B) {
	w, err := Create(filepath.Join(b.TempDir(), "run"), testID)
	if err != nil {
		b.Fatal(err)
	}
	defer w.Close()
	row := loadRow(1)
	b.ReportAllocs()
	for b.Loop() {
		w.AppendLoad(row)
	}
}

// readSeries reads rows, one JSON object a line. The error is that of r alone:
// what the lines hold cannot make it fail.
func readSeries(in *lines) (Series, error) {
	var s Series
	for {
		l, err := in.line()
		if err == io.EOF {
			break
		}
		if err != nil {
			return s, err
		}
		if err := s.take(l.kind, l.text); err != nil {
			in.Reject(err)
		}
	}
	s.Observed.sort()
	s.Damage = in.Damage
	return s, nil
}

// TestFieldsAreDocumented: docs/record-fields.md is generated from the comments of the structs.
func TestFieldsAreDocumented(t *testing.T) {
	f, err := reference.Read("json", map[string]string{
		"unit.Rate": "text or number", "spec.PerConnection": "yes/no, or number", "time.Duration": "number, nanoseconds", "spec.Expect": "text, or list of text", "spec.SLO": "text",
	}, ".", "../experiment/spec")
	if err != nil {
		t.Fatal(err)
	}
	rows := []string{"record.LoadRow"}
	f.Title("record.LoadRow", KindLoad+" rows")
	for _, kind := range ObservedKinds() {
		row, ok := NewObservedRow(kind)
		if !ok {
			t.Fatalf("no row of kind %s", kind)
		}
		name := reflect.TypeOf(row).Elem().String()
		f.Title(name, kind+" rows")
		rows = append(rows, name)
	}
	page, err := f.Page("# The fields of a record\n\nMade from the comments of the structs in `record` and "+
		"`experiment/spec`; [record.md](record.md)\nsays how a record is read. Units are in the names, as there.\n",
		reference.Part{Heading: "A run", Roots: []string{"record.Run", "record.Start"}}, reference.Part{Heading: "Rows", Roots: rows},
		reference.Part{Heading: "A plan", Roots: []string{"record.Plan", "record.Measured"}})
	if err != nil {
		t.Fatal(err)
	}
	golden.Text(t, "../docs/record-fields.md", page)
}

// BenchmarkPack compresses the record of a run of some seconds, as it is done when
// the run is closed.
func BenchmarkPack(b *testing.B) {
	text, err := os.ReadFile("../show/live/testdata/run.ndjson")
	if err != nil {
		b.Fatal(err)
	}
	b.SetBytes(int64(len(text)))
	for b.Loop() {
		if err := pack(io.Discard, bytes.NewReader(text)); err != nil {
			b.Fatal(err)
		}
	}
}
