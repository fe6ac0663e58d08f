//go:build linux

package run

import (
	"errors"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"ceiling/experiment/spec"
	"ceiling/internal/exit"
	"ceiling/internal/needs"
	"ceiling/record"
)

// slept is an experiment of a server whose requests wait so long, on two routes that
// make no difference.
func slept(t *testing.T) spec.Experiment {
	t.Helper()
	e := spec.Experiment{
		Kind: spec.KindFactorial, Servers: []spec.Server{{Name: "s", Serve: "exec '" + os.Args[0] + "'"}},
		Requests: []spec.Mix{{MixRequest: spec.MixRequest{Path: "/a"}}, {MixRequest: spec.MixRequest{Path: "/b"}}},
		Load: spec.Load{Lists: spec.Lists{Connections: []spec.Count{16}},
			Duration: spec.Time(100 * time.Millisecond), Warmup: new(spec.Time(20 * time.Millisecond)),
			Settings: spec.Settings{NoLone: true}},
		Factorial: spec.Factorial{Factors: []spec.Factor{
			{Name: "wait", Levels: []spec.Level{{Env: []string{"RUN_TEST_SLEEP=1ms"}}, {Env: []string{"RUN_TEST_SLEEP=8ms"}}}},
			{Name: "route", Levels: []spec.Level{{Request: "/a"}, {Request: "/b"}}},
		}},
		Repeats: 12,
	}
	e.Complete(1)
	if err := e.Check(); err != nil {
		t.Fatal(err)
	}
	return e
}

// TestFactorialFindsWhatIsPlanted: a wait that a variable of the environment plants takes the
// rate that it has to take, and the route, which does nothing, neither changes the rate
// nor what the wait does. That this is said within ±x% the simulations of package plan
// have: a busy machine may not settle it.
func TestFactorialFindsWhatIsPlanted(t *testing.T) {
	needs.Quiet(t)
	dir := filepath.Join(t.TempDir(), "plan")
	p, _, err := Explore(t.Context(), slept(t), Options{Out: dir, Version: "test"}, nil)
	if err != nil || p.Ended != record.EndedComplete || len(p.Runs) != 49 || p.Exit != exit.Pass {
		t.Fatalf("%v: %s (%s), %d runs, exit %d", err, p.Ended, p.Because, len(p.Runs), p.Exit)
	}
	found := map[string]record.Effect{}
	for _, x := range p.Factorial.Effects {
		if x.Metric == "rps" {
			found[x.Factor+" "+x.With] = x
		}
	}
	if x := found["wait "]; x.Decision != record.Lower || x.Relative.Mid < -.95 || x.Relative.Mid > -.5 {
		t.Errorf("an eighth of the rate: %+v", x)
	}
	for _, name := range []string{"route ", "wait route"} {
		if x := found[name]; x.Blocks == 0 || x.Relative.Low > .25 || x.Relative.High < -.25 {
			t.Errorf("%s is nothing: %+v", name, x)
		}
	}
	back, err := record.OpenPlan(record.File{Path: dir})
	if err != nil || back.Factorial == nil || !back.Says().Same(p.Says()) || len(back.Runs[1].Cell) != 2 {
		t.Errorf("read back: %v, %+v", err, back.Factorial)
	}
}

// CPUs that are not there are refused before a server is started.
func TestFactorialRefusesCPUs(t *testing.T) {
	e := slept(t)
	e.Factorial.Factors[1] = spec.Factor{Name: "cores", Levels: make([]spec.Level, 2)}
	e.Factorial.Factors[1].Levels[0].PinServer, e.Factorial.Factors[1].Levels[1].PinServer = "0", "0-4000"
	e.Requests = e.Requests[:1]
	dir := filepath.Join(t.TempDir(), "plan")
	_, _, err := Explore(t.Context(), e, Options{Out: dir}, nil)
	if !errors.Is(err, exit.ErrRefused) || !strings.Contains(err.Error(), "cores=server on CPU 0-4000: pin_server: CPU") {
		t.Errorf("%v", err)
	}
	if _, err := os.Stat(dir); err == nil {
		t.Error("a record was begun")
	}
}
