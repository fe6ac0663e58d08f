package follow

import (
	"context"
	"errors"
	"io/fs"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"ceiling/experiment/spec"
	"ceiling/internal/leak"
	"ceiling/internal/needs"
	"ceiling/internal/unit"
	"ceiling/record"
	"ceiling/record/recordtest"
	"ceiling/show/live"
	"ceiling/verdict/prose"
)

func TestMain(m *testing.M) { leak.Main(m) }

// patience is how long something may take that takes a second: a busy machine
// runs these tests too.
const patience = time.Minute

func words() Labels {
	return Labels{
		Doing: func(_ *spec.Experiment, s *record.Step) string { return "step " + string(rune('0'+s.Number)) },
		Takes: func(_ *spec.Experiment, n int) time.Duration { return time.Duration(n) * time.Second },
	}
}

// begin follows a record until it ends.
func begin(t *testing.T, path string, b *live.Board) (ended chan error) {
	ctx, stop := context.WithCancel(context.Background())
	ended = make(chan error, 1)
	over := make(chan struct{})
	go func() {
		defer close(over)
		ended <- Follow(ctx, record.File{Path: path}, b, words())
	}()
	t.Cleanup(func() {
		stop()
		<-over
	})
	return ended
}

func eventually(t *testing.T, what string, is func() bool) {
	t.Helper()
	for end := time.Now().Add(patience); !is(); time.Sleep(5 * time.Millisecond) {
		if time.Now().After(end) {
			t.Fatalf("never: %s", what)
		}
	}
}

func ends(t *testing.T, ended chan error) {
	t.Helper()
	select {
	case err := <-ended:
		if err != nil {
			t.Fatal(err)
		}
	case <-time.After(patience):
		t.Fatal("it goes on though the record has ended")
	}
}

// fixture writes a recorded run again, as it was written then.
type fixture struct {
	run    *record.Run
	series record.Series
}

func open(t *testing.T) *fixture {
	t.Helper()
	r, s, err := record.Open(record.File{Path: "../testdata/run.ndjson"})
	if err != nil {
		t.Fatal(err)
	}
	return &fixture{r, s}
}

func (f *fixture) rows(w *record.Writer, from, to int64) {
	for _, row := range f.series.Observed.All() {
		if at := row.Observed().TNs; from < at && at <= to {
			w.AppendObserved(row)
		}
	}
	for i := range f.series.Load {
		if at := f.series.Load[i].TNs; from < at && at <= to {
			w.AppendLoad(&f.series.Load[i])
		}
	}
}

// A run of another process is seen while it goes on, to its end.
func TestFollowsARun(t *testing.T) {
	f := open(t)
	dir := filepath.Join(t.TempDir(), "run.ndjson.gz")
	w, err := record.Create(dir, record.NewID(time.Now()))
	if err != nil {
		t.Fatal(err)
	}
	if err := w.Start(record.Start{Spec: f.run.Spec}); err != nil {
		t.Fatal(err)
	}
	b := live.NewBoard()
	ended := begin(t, dir, b)
	eventually(t, "it begins", func() bool { return b.Snapshot().Phase == live.Connecting })
	f.rows(w, -1<<62, 2e9)
	eventually(t, "two seconds", func() bool { return b.Snapshot().Progress.ElapsedS > 1.9 })
	if !b.Form() || len(b.Snapshot().Formed.Verdict.Stations) == 0 {
		t.Error("no verdict forms")
	}
	f.rows(w, 2e9, 1<<62)
	if err := w.Finish(f.run); err != nil {
		t.Fatal(err)
	}
	ends(t, ended)
	s := b.Snapshot()
	points, _ := b.Points(-1, 0)
	if s.Phase != live.Ended || !s.Formed.Final || s.SoFar.Completed != f.run.Requests.Completed || len(points) != len(f.series.Load) {
		t.Errorf("%d points of %d, %+v", len(points), len(f.series.Load), s.SoFar)
	}
}

func TestFinishedRun(t *testing.T) {
	f := open(t)
	b := live.NewBoard()
	ends(t, begin(t, "../testdata/run.ndjson", b))
	points, _ := b.Points(-1, 0)
	if s := b.Snapshot(); s.ID != f.run.ID || !s.Formed.Final || len(points) != len(f.series.Load) {
		t.Errorf("%d points, %+v", len(points), s.Formed)
	}
}

func experiment(t *testing.T) spec.Experiment {
	t.Helper()
	e := spec.Experiment{Kind: spec.KindSweep, Seed: 1, Repeats: 1,
		Servers:  []spec.Server{{URL: "http://127.0.0.1:1"}},
		Requests: []spec.Mix{{MixRequest: spec.MixRequest{Path: "/"}}},
		Load: spec.Load{Lists: spec.Lists{Connections: []spec.Count{1, 2}, Pipelining: []spec.Count{1}},
			Duration: spec.Time(time.Second), Timeout: spec.Time(time.Second)}}
	e.Complete(1)
	if err := e.Check(); err != nil {
		t.Fatal(err)
	}
	return e
}

// The runs of a plan are seen one after the other, and its answer.
func TestFollowsAPlan(t *testing.T) {
	needs.Time(t)
	f := open(t)
	dir := filepath.Join(t.TempDir(), "plan.ndjson.gz")
	p := &record.Plan{ID: record.NewID(time.Now()), Experiment: experiment(t)}
	keep, err := record.CreatePlan(dir, p)
	if err != nil {
		t.Fatal(err)
	}
	b := live.NewBoard()
	ended := begin(t, dir, b)
	eventually(t, "the plan", func() bool { s := b.Snapshot(); return s.Plan != nil && s.Plan.All >= 2 && s.Plan.Number == 1 })
	for n := range 2 {
		id := record.NewID(time.Date(2026, 1, 1, 0, 0, n, 0, time.UTC))
		w, err := keep.Create(id)
		if err != nil {
			t.Fatal(err)
		}
		if err := w.Start(record.Start{Spec: f.run.Spec}); err != nil {
			t.Fatal(err)
		}
		f.rows(w, -1<<62, 1e9)
		eventually(t, "its rows", func() bool { s := b.Snapshot(); return s.ID == id && s.Last != nil })
		if err := w.Finish(f.run); err != nil {
			t.Fatal(err)
		}
		m := record.Measured{Step: record.Step{Number: n + 1, Condition: spec.Condition{Connections: n + 1, Rate: unit.Rate{}}}, Run: id,
			Outcome: record.Valid, Bottleneck: "concurrency"}
		p.Runs = append(p.Runs, m)
		if err := keep.Append(&m); err != nil {
			t.Fatal(err)
		}
		eventually(t, "the finished run", func() bool { return b.Snapshot().Finished == n+1 })
	}
	p.Ended, p.Because = record.EndedInterrupted, recordtest.Say("go on with: ceiling run --resume")
	if err := keep.Finish(p); err != nil {
		t.Fatal(err)
	}
	ends(t, ended)
	if s := b.Snapshot(); s.Plan.Answer != prose.Text(p.Because) || s.Finished != 2 {
		t.Errorf("%+v", s.Plan)
	}
	// Once it has ended it is shown with its last run.
	again := live.NewBoard()
	ends(t, begin(t, dir, again))
	if s := again.Snapshot(); s.Finished != 2 || s.Last == nil || s.Plan.Answer == "" {
		t.Errorf("%+v", s)
	}
}

// What is no record, is damaged, or is newer is refused in one line.
func TestRefuses(t *testing.T) {
	dir := t.TempDir()
	file := record.File{Path: filepath.Join(dir, "a.ndjson")}
	err := Follow(t.Context(), file, live.NewBoard(), words())
	if !errors.Is(err, fs.ErrNotExist) || strings.Contains(err.Error(), "\n") {
		t.Errorf("nothing there: %v", err)
	}
	for name, text := range map[string]string{"run": `{"kind":"run","schema":"ceiling.run/99"}`,
		"plan": `{"kind":"plan","schema":"ceiling.plan/99"}`} {
		if err := os.WriteFile(file.Path, []byte(text+"\n"), 0o644); err != nil {
			t.Fatal(err)
		}
		file := record.File{Path: filepath.Join(dir, "a.ndjson")}
		err := Follow(t.Context(), file, live.NewBoard(), words())
		if err == nil || !strings.Contains(err.Error(), "/99") || strings.Contains(err.Error(), "\n") {
			t.Errorf("%s: %v", name, err)
		}
	}
}

// A run whose process pauses goes on; one whose process has gone without ending it is
// lost: nobody holds its file any more.
func TestKilledRunIsLost(t *testing.T) {
	needs.Time(t)
	t.Parallel()
	f := open(t)
	dir := t.TempDir()
	path := filepath.Join(dir, "run.ndjson")
	w, err := record.Create(path, record.NewID(time.Now()))
	if err != nil {
		t.Fatal(err)
	}
	if err := w.Start(record.Start{Spec: f.run.Spec}); err != nil {
		t.Fatal(err)
	}
	f.rows(w, -1<<62, 2e9)
	paused, killed := live.NewBoard(), live.NewBoard()
	ended := begin(t, path, paused)
	eventually(t, "two seconds", func() bool { return paused.Snapshot().Progress.ElapsedS > 1.9 })
	text, err := os.ReadFile(path)
	if err != nil {
		t.Fatal(err)
	}
	left := filepath.Join(dir, "left.ndjson")
	if err := os.WriteFile(left, text, 0o600); err != nil {
		t.Fatal(err)
	}
	ends(t, begin(t, left, killed))
	if s := killed.Snapshot(); !s.Killed || s.Phase != live.Ended || s.Progress.ElapsedS < 1.9 || !strings.Contains(s.Doing(), "killed") {
		t.Errorf("left by its process: %v %q, %+v", s.Killed, s.Doing(), s.Progress)
	} else if path := s.Path(); len(path.Places) != 6 || path.Places[3].Limits || s.Formed.Verdict.Outcome != record.Invalid ||
		!strings.Contains(s.Formed.Because(), "killed") || !strings.Contains(s.VerdictBasis(), "until it was killed") {
		t.Errorf("what is known of it: %+v of %+v, %s", path, s.Formed, s.VerdictBasis())
	}
	time.Sleep(2 * abandonedAfter)
	if s := paused.Snapshot(); s.Killed || s.Phase != live.Running {
		t.Errorf("paused: killed %v, phase %v", s.Killed, s.Phase)
	}
	if err := w.Finish(f.run); err != nil {
		t.Fatal(err)
	}
	ends(t, ended)
}
