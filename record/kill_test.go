package record

import (
	"bytes"
	"compress/gzip"
	"io"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"syscall"
	"testing"
	"time"

	"ceiling/experiment/spec"
	"ceiling/internal/hist"
	"ceiling/internal/needs"
)

var planIDs = []string{"20261121-093012-aaaa", "20261121-093013-bbbb", "20261121-093014-cccc"}

// samplePlan is a sweep without its runs.
func samplePlan(t testing.TB) *Plan {
	t.Helper()
	e := spec.Experiment{Kind: spec.KindSweep, Seed: 1, Repeats: 1,
		Servers:  []spec.Server{{URL: "http://127.0.0.1:1"}},
		Requests: []spec.Mix{{MixRequest: spec.MixRequest{Path: "/"}}},
		Load: spec.Load{Lists: spec.Lists{Connections: []spec.Count{1, 2}, Pipelining: []spec.Count{1}}, Duration: spec.Time(time.Second),
			Timeout: spec.Time(time.Second)}}
	e.Complete(1)
	if err := e.Check(); err != nil {
		t.Fatal(err)
	}
	return &Plan{ID: planIDs[0], Created: testStart().Created, Command: testStart().Command, Experiment: e,
		Environment: Environment{Host: "here", CoresOnline: 2}}
}

// makeRuns writes runs of a plan, with as many rows as their number.
func makeRuns(t testing.TB, w *PlanWriter, p *Plan, ids ...string) {
	t.Helper()
	h := new(hist.Hist)
	h.Record(1000)
	text, err := h.EncodeV2()
	if err != nil {
		t.Fatal(err)
	}
	for _, id := range ids {
		run, err := w.Create(id)
		if err != nil {
			t.Fatal(err)
		}
		start := testStart()
		start.Environment = &p.Environment
		if err := run.Start(start); err != nil {
			t.Fatal(err)
		}
		n := len(p.Runs) + 1
		for i := range n {
			run.AppendLoad(loadRow(i + 1))
		}
		if err := run.Histogram("response", text); err != nil {
			t.Fatal(err)
		}
		if err := run.Finish(&Run{Target: "t", Spec: testStart().Spec, Command: testStart().Command, Environment: p.Environment,
			Requests: Requests{Completed: uint64(n)}}); err != nil {
			t.Fatal(err)
		}
		m := Measured{Step: Step{Number: n, Condition: spec.Condition{Connections: n}}, Run: id, Completed: uint64(n)}
		p.Runs = append(p.Runs, m)
		if err := w.Append(&m); err != nil {
			t.Fatal(err)
		}
	}
}

// written is the content of a plan of three runs that is complete.
func writtenPlan(t testing.TB) []byte {
	t.Helper()
	path := filepath.Join(t.TempDir(), "plan.ndjson")
	p := samplePlan(t)
	w, err := CreatePlan(path, p)
	if err != nil {
		t.Fatal(err)
	}
	makeRuns(t, w, p, planIDs...)
	p.Ended, p.Because, p.TookS, p.Sweep = EndedComplete, State("plan.complete", nil), 5, &Sweep{Curves: []Curve{{Says: State("it.grows", nil)}}}
	if err := w.Finish(p); err != nil {
		t.Fatal(err)
	}
	text, err := os.ReadFile(path)
	if err != nil {
		t.Fatal(err)
	}
	return text
}

// A plan is one file, and reads as it was written, in whatever form.
func TestPlanInEveryForm(t *testing.T) {
	text := writtenPlan(t)
	if n := bytes.Count(text, []byte(`"cores_online":2`)); n != 1 {
		t.Errorf("the environment is there %d times", n)
	}
	var packed, other bytes.Buffer
	if err := pack(&packed, bytes.NewReader(text)); err != nil {
		t.Fatal(err)
	}
	z := gzip.NewWriter(&other) // as gzip makes it, and in two members that begin anywhere
	z.Write(text[:len(text)/3])
	z.Close()
	z.Reset(&other)
	z.Write(text[len(text)/3:])
	z.Close()
	back, err := gzip.NewReader(bytes.NewReader(packed.Bytes()))
	if err != nil {
		t.Fatal(err)
	}
	if plain, err := io.ReadAll(back); err != nil || !bytes.Equal(plain, text) {
		t.Errorf("gunzip gives something else: %v", err)
	}
	again := new(bytes.Buffer)
	if err := pack(again, bytes.NewReader(text)); err != nil || !bytes.Equal(again.Bytes(), packed.Bytes()) {
		t.Errorf("the same record gives other bytes: %v", err)
	}
	for name, data := range map[string][]byte{
		"plain": text, "packed": packed.Bytes(), "other gzip": other.Bytes(),
		"reformatted": bytes.ReplaceAll(text, []byte(`{"kind":"run",`), []byte(` { "kind" : "run" ,`)),
	} {
		t.Run(name, func(t *testing.T) {
			path := filepath.Join(t.TempDir(), "x.ndjson")
			if err := os.WriteFile(path, data, 0o600); err != nil {
				t.Fatal(err)
			}
			piped, err := ReadFile(bytes.NewReader(data))
			if err != nil {
				t.Fatal(err)
			}
			for _, f := range []File{{Path: path}, piped} {
				checkPlan(t, f, 3, 3)
			}
			if !IsRecord(path) {
				t.Error("it is not known as a record")
			}
			if e := readEntry(File{Path: path}); e.Unreadable != "" || e.Runs != 3 || e.Says.Code != "it.grows" || e.Progress != Ended ||
				e.Kind != spec.KindSweep {
				t.Errorf("%+v", e)
			}
		})
	}
}

// checkPlan reads a plan with so many runs measured and begun, and each of those by
// itself.
func checkPlan(t *testing.T, f File, measured, begun int) *Plan {
	t.Helper()
	p, err := OpenPlan(f)
	if err != nil {
		t.Fatal(err)
	}
	if len(p.Runs) != measured || len(p.Records()) != begun || !f.IsPlan() {
		t.Fatalf("%d runs, %d records; want %d and %d", len(p.Runs), len(p.Records()), measured, begun)
	}
	if err := ReadHistograms(f, p.Runs); err != nil {
		t.Error(err)
	}
	for i, m := range p.Runs {
		of, there := p.Record(m.Run)
		for _, one := range []File{of, f.Of(m.Run)} { // by its place, and by looking for it
			run, series, err := Open(one)
			if err != nil || !there || run.ID != m.Run || run.Unfinished || run.Environment.Host != "here" || len(run.Command) != 4 ||
				run.Requests.Completed != m.Completed {
				t.Fatalf("run %d: %+v, %v", i, run, err)
			}
			if len(series.Load) != i+1 || series.Bad > 0 || m.Histogram.Count() != 1 {
				t.Errorf("run %d: %d rows, %v", i, len(series.Load), series.Problems)
			}
		}
	}
	if _, _, err := Open(f.Of("20261121-093012-none")); err == nil {
		t.Error("a run that is none was opened")
	}
	return p
}

// TestKilledAtAnyByte: wherever a kill -9 ends the file, the head is refused or the
// plan has what is whole, can be resumed, and has everything then.
func TestKilledAtAnyByte(t *testing.T) {
	needs.Time(t)
	text := writtenPlan(t)
	dir := t.TempDir()
	var cuts []int
	for i := 0; i <= len(text); i++ {
		if i == 0 || text[i-1] == '\n' {
			for _, off := range []int{-30, -2, -1, 0, 1, 2, 30} {
				cuts = append(cuts, min(max(0, i+off), len(text)))
			}
		}
	}
	slices.Sort(cuts)
	for _, cut := range slices.Compact(cuts) {
		path := filepath.Join(dir, "x.ndjson")
		if err := os.WriteFile(path, text[:cut], 0o600); err != nil {
			t.Fatal(err)
		}
		f := File{Path: path}
		whole := text[:bytes.LastIndexByte(text[:cut], '\n')+1]
		if cut < len(text) && text[cut] == '\n' {
			whole = text[:cut] // a line without its newline is whole
		}
		if len(whole) == 0 {
			if _, err := OpenPlan(f); err == nil || !strings.Contains(err.Error(), "not a ceiling record") {
				t.Errorf("at byte %d, within the head: %v", cut, err)
			}
			continue
		}
		count := func(kind string) int { return bytes.Count(whole, []byte("\n"+`{"kind":"`+kind+`"`)) }
		p := checkPlan(t, f, count("measured"), count("run"))
		if want := count("answer") == 1; (p.Ended == EndedComplete) != want {
			t.Errorf("at byte %d: ended %q", cut, p.Ended)
		}
		for _, id := range p.Records()[min(len(p.Runs), len(p.Records())):] { // begun, and not measured
			run, series, err := Open(f.Of(id))
			if err != nil || series.Bad > 0 || run.Unfinished != (count("result") < count("run")) {
				t.Errorf("at byte %d: run %s: %+v, %v", cut, id, run, err)
			}
		}
		if p.over() {
			continue
		}
		resumeAndFinish(t, f, p)
	}
}

func resumeAndFinish(t *testing.T, f File, p *Plan) {
	t.Helper()
	begun := len(p.Records())
	w, err := ResumePlan(f, p)
	if err != nil {
		t.Fatal(err)
	}
	var made []string
	for n := len(p.Runs); n < 3; n++ {
		made = append(made, "20261121-093020-"+strings.Repeat(string(rune('a'+n)), 4))
	}
	makeRuns(t, w, p, made...)
	p.Ended = EndedComplete
	if err := w.Finish(p); err != nil {
		t.Fatal(err)
	}
	if back := checkPlan(t, f, 3, begun+len(made)); back.Ended != EndedComplete {
		t.Errorf("it ended %q", back.Ended)
	}
}

// TestCutOffAndForeign: a compressed file that is cut off anywhere, or has something
// else behind it, is read as far as it goes, and says so.
func TestCutOffAndForeign(t *testing.T) {
	text := writtenPlan(t)
	var packed bytes.Buffer
	if err := pack(&packed, bytes.NewReader(text)); err != nil {
		t.Fatal(err)
	}
	all := packed.Bytes()
	for cut := 0; cut < len(all); cut += 7 {
		f := File{Path: "-", data: all[:cut:cut]}
		p, err := OpenPlan(f)
		if err != nil {
			if strings.Contains(err.Error(), "\n") {
				t.Errorf("at byte %d: %v", cut, err)
			}
			continue
		}
		for _, id := range p.Records() {
			if _, _, err := Open(f.Of(id)); err != nil {
				t.Errorf("at byte %d: %v", cut, err)
			}
		}
	}
	for name, more := range map[string]string{"garbage": "garbage\n", "zeros": strings.Repeat("\x00", 100),
		"half a member": "\x1f\x8b\x08\x00"} {
		f := File{Path: "-", data: append(slices.Clone(all), more...)}
		if p := checkPlan(t, f, 3, 3); len(p.Problems) != 1 || !strings.Contains(p.Problems[0], "damaged, or cut off") {
			t.Errorf("%s: problems %q", name, p.Problems)
		}
	}
	// Two records in one file: the first is read.
	one := filepath.Join(t.TempDir(), "one.ndjson")
	w := begin(t, one)
	if err := w.Finish(&Run{Target: "first"}); err != nil {
		t.Fatal(err)
	}
	run, err := os.ReadFile(one)
	if err != nil {
		t.Fatal(err)
	}
	both, series, err := Open(File{Path: "-", data: append(run, bytes.Replace(run, []byte("first"), []byte("other"), 1)...)})
	if err != nil || both.Target != "first" || len(series.Problems) != 1 || !strings.Contains(series.Problems[0], "another record begins") {
		t.Errorf("%+v, %q, %v", both, series.Problems, err)
	}
}

// TestPlanOnAFullDisk: a run that finds no room says so, and the next one, which
// finds some, is whole.
func TestPlanOnAFullDisk(t *testing.T) {
	full, err := os.OpenFile("/dev/full", os.O_WRONLY, 0)
	if err != nil {
		t.Fatal(err)
	}
	defer full.Close()
	path, p := filepath.Join(t.TempDir(), "plan.ndjson"), samplePlan(t)
	w, err := CreatePlan(path, p)
	if err != nil {
		t.Fatal(err)
	}
	lossy, err := w.Create("20261121-093010-full")
	if err != nil {
		t.Fatal(err)
	}
	if err := lossy.Start(testStart()); err != nil {
		t.Fatal(err)
	}
	w.s.out = &stingy{to: w.s.file, room: 50}
	lossy.AppendLoad(loadRow(1))
	lossy.s.flush()
	w.s.out = w.s.file
	if err := lossy.Finish(&Run{}); err == nil || !strings.Contains(err.Error(), "no space left") {
		t.Errorf("it is not said: %v", err)
	}
	makeRuns(t, w, p, planIDs...)
	p.Ended = EndedComplete
	if err := w.Finish(p); err != nil {
		t.Fatal(err)
	}
	checkPlan(t, File{Path: path}, 3, 4)
	run, series, err := Open(File{Path: path}.Of("20261121-093010-full"))
	if err != nil || run.Unfinished || len(run.NotMeasured) != 1 || run.NotMeasured[0].What != "series" || series.Bad != 1 {
		t.Errorf("%+v, %+v, %v", run, series, err)
	}
}

// stingy has room for so many bytes.
type stingy struct {
	to   io.Writer
	room int
}

func (s *stingy) Write(p []byte) (int, error) {
	n, err := s.to.Write(p[:min(len(p), s.room)])
	if s.room -= n; err == nil && n < len(p) {
		err = &os.PathError{Op: "write", Path: "x", Err: syscall.ENOSPC}
	}
	return n, err
}

// FuzzRead: whatever a file holds, reading it ends, and what comes out adds up.
func FuzzRead(f *testing.F) {
	text := writtenPlan(f)
	var packed bytes.Buffer
	if err := pack(&packed, bytes.NewReader(text)); err != nil {
		f.Fatal(err)
	}
	f.Add(text)
	f.Add(packed.Bytes())
	f.Add([]byte(`{"kind":"run","schema":"ceiling.run/3","id":"a"}` + "\n" + `{"kind":"result","load":{}}` + "\n" +
		`{"kind":"attachment","name":"a","data":"AA=="}` + "\n"))
	f.Add([]byte(`{"kind":"plan","schema":"ceiling.plan/3"}` + "\n" + `{"kind":"measured"}` + "\n"))
	f.Fuzz(func(t *testing.T, data []byte) {
		file, err := ReadFile(bytes.NewReader(data))
		if err != nil {
			t.Fatal(err)
		}
		if c, err := Read(file); err == nil && (c.Run == nil || c.Run.ID != "" && c.Run.Schema == "") {
			t.Errorf("%+v", c)
		}
		if tail, err := OpenTail(file); err == nil {
			for range 10_000 {
				e, err := tail.Next()
				if e == nil || err != nil {
					break
				}
			}
			tail.Close()
		}
		readEntry(file)
		p, err := OpenPlan(file)
		if err != nil {
			return
		}
		for _, id := range p.Records() {
			of, _ := p.Record(id)
			if _, _, err := Open(of); err != nil && !strings.Contains(err.Error(), "read -/") {
				t.Errorf("%q: %v", id, err)
			}
		}
	})
}
