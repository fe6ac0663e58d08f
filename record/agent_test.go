package record

import (
	"path/filepath"
	"reflect"
	"testing"
)

// TestAgentsAreKept: rows of agents stand apart from those of the run, and the
// result comes back as it was written.
func TestAgentsAreKept(t *testing.T) {
	dir := filepath.Join(t.TempDir(), "run.ndjson")
	w := begin(t, dir)
	w.AppendLoad(loadRow(1))
	row := *loadRow(1)
	row.Host, row.Completed = "load2", 33
	w.AppendAgent(&row)
	run := &Run{
		Agents: []Agent{{Name: "load2", Loads: true, Share: AgentShare{First: 1, Count: 1, Of: 3}, Clock: AgentClock{ErrorNs: 9, DriftPPM: -.5},
			Lost: "gone", LostAtNs: 4}, {Name: "web", Observes: true}},
		Fleet: &Fleet{Bed: "bed", AllowLoss: true, LostShare: 1. / 3},
	}
	if err := w.Finish(run); err != nil {
		t.Fatal(err)
	}
	got, series, err := Open(File{Path: dir})
	if err != nil {
		t.Fatal(err)
	}
	if len(series.Load) != 1 || len(series.Agents) != 1 || series.Agents[0].Kind != KindAgent || series.Agents[0].Completed != 33 ||
		series.Agents[0].Host != "load2" {
		t.Errorf("%+v", series)
	}
	a := got.Agent("load2")
	if a == nil || a.Share != run.Agents[0].Share || a.Clock != run.Agents[0].Clock || a.Lost != "gone" ||
		!reflect.DeepEqual(got.Fleet, run.Fleet) {
		t.Errorf("%+v, %+v", a, got.Fleet)
	}
	if a.Errors == nil || a.Statuses == nil || got.Agent("nobody") != nil {
		t.Errorf("lists and tables are null: %+v", a)
	}
}

// TestAgentsOfAKilledRun: what each agent did is put together from its rows.
func TestAgentsOfAKilledRun(t *testing.T) {
	dir := filepath.Join(t.TempDir(), "run.ndjson")
	w, err := Create(dir, testID)
	if err != nil {
		t.Fatal(err)
	}
	start := testStart()
	start.Agents = []Agent{{Name: "load1", Loads: true}, {Name: "web", Observes: true}}
	if err := w.Start(start); err != nil {
		t.Fatal(err)
	}
	for i := range 10 {
		for _, name := range []string{"load1", "load2"} {
			row := LoadRow{Host: name, TNs: int64(i+1) * 1e8, WidthNs: 1e8, Sent: 5, Completed: 5, Connected: 3}
			w.AppendAgent(&row)
		}
	}
	if err := w.Close(); err != nil {
		t.Fatal(err)
	}
	run, _, err := Open(File{Path: dir})
	if err != nil {
		t.Fatal(err)
	}
	if len(run.Agents) != 3 {
		t.Fatalf("agents %+v", run.Agents)
	}
	for _, name := range []string{"load1", "load2"} {
		if a := run.Agent(name); !a.Loads || a.Requests.Completed != 50 || a.Rate.CompletedPerS != 50 || a.Load.Established != 3 {
			t.Errorf("%+v", a)
		}
	}
	if web := run.Agent("web"); web.Loads || web.Requests.Completed != 0 {
		t.Errorf("%+v", web)
	}
}

func TestSameMachine(t *testing.T) {
	for _, c := range []struct {
		a, b Environment
		want bool
	}{
		{Environment{Host: "a", BootID: "k"}, Environment{Host: "b", BootID: "k"}, true},
		{Environment{Host: "a", BootID: "k"}, Environment{Host: "a", BootID: "l"}, false},
		{Environment{Host: "a"}, Environment{Host: "a", BootID: "l"}, true},
		{Environment{Host: "a"}, Environment{Host: "b"}, false},
		{Environment{}, Environment{}, false},
	} {
		if got := c.a.SameMachine(&c.b); got != c.want {
			t.Errorf("%+v and %+v: %v", c.a, c.b, got)
		}
	}
}
