//go:build linux

package run

import (
	"errors"
	"os"
	"path/filepath"
	"reflect"
	"slices"
	"strings"
	"testing"

	"ceiling/experiment/spec"
	"ceiling/internal/exit"
	"ceiling/internal/needs"
	"ceiling/internal/sys"
	"ceiling/measure/cores"
	"ceiling/record"
	"ceiling/verdict/prose"
)

// twoCPUs skips where there is nothing to divide, and answers what there is.
func twoCPUs(t *testing.T) []int {
	t.Helper()
	allowed, err := sys.AllowedCPUs(0)
	if err != nil {
		t.Fatal(err)
	}
	needs.CPUs(t, 2)
	return allowed
}

// ownCPUs checks that generator and server of a run had separate CPUs.
func ownCPUs(t *testing.T, r *record.Run) {
	t.Helper()
	generator, err := spec.ParseCPUList(r.Spec.PinGenerator)
	if err != nil || r.Subject == nil {
		t.Fatalf("generator pinned to %q (%v), subject %+v", r.Spec.PinGenerator, err, r.Subject)
	}
	for _, p := range r.Subject.Processes {
		server, err := spec.ParseCPUList(p.CPUsAllowed)
		if err != nil || len(cores.Both(generator, server)) > 0 {
			t.Errorf("generator on %v, process %d of the server on %v (%v)", generator, p.PID, server, err)
		}
	}
}

// cpusOfThreads returns on which CPUs each thread of the test may run.
func cpusOfThreads(t *testing.T) map[int][]int {
	t.Helper()
	all := map[int][]int{}
	tids, err := sys.Threads(os.Getpid())
	if err != nil {
		t.Fatal(err)
	}
	for _, tid := range tids {
		if cpus, err := sys.AllowedCPUs(tid); err == nil { // else it has ended
			all[tid] = cpus
		}
	}
	return all
}

func TestStartChildOn(t *testing.T) {
	allowed := twoCPUs(t)
	t.Setenv("RUN_TEST_SERVE", "nethttp")
	before := cpusOfThreads(t)
	c, err := StartChildOn(t.Context(), allowed[1:2], os.Args[0])
	os.Unsetenv("RUN_TEST_SERVE")
	if err != nil {
		t.Fatal(err)
	}
	defer c.Stop()
	checkThreads(t, c.PID, allowed[1:2])
	for tid, cpus := range cpusOfThreads(t) {
		// A goroutine of an earlier test that ended pinned leaves the process's first thread parked
		// for good, on its CPUs (runtime, mexit); every other thread ends with its goroutine.
		if was, ok := before[tid]; !slices.Equal(cpus, allowed) && (!ok || !slices.Equal(cpus, was)) {
			t.Errorf("thread %d of the test may run on %v, had %v", tid, cpus, was)
		}
	}
	if _, err := StartChildOn(t.Context(), []int{4095}, os.Args[0]); err == nil {
		t.Error("started on a CPU that is not there")
	}
}

func TestApartIsGivenBack(t *testing.T) {
	needs.Engine(t)
	allowed := twoCPUs(t)
	t.Setenv("XDG_STATE_HOME", t.TempDir())
	c := startServer(t, "nethttp")
	s := specOf(c.Addr, "/simple")
	s.Apart = true
	var meanwhile []int
	options := Options{Out: filepath.Join(t.TempDir(), "run")}
	options.Listen(func(e Event) {
		if e.Progress != nil {
			meanwhile, _ = sys.AllowedCPUs(c.PID) // an error leaves none, which fails below
		}
	})
	d, err := Do(t.Context(), s, options)
	if err != nil {
		t.Fatal(err)
	}
	ownCPUs(t, &d.Run)
	if !d.Run.Spec.Apart || cores.Format(meanwhile) != d.Run.Spec.PinServer || slices.Equal(meanwhile, allowed) {
		t.Errorf("meanwhile on %v, spec %+v", meanwhile, d.Run.Spec)
	}
	checkThreads(t, c.PID, allowed)
	// A side that is pinned already stays there.
	s.PinGenerator = cores.Format(allowed[1:2])
	d, err = Do(t.Context(), s, Options{Out: filepath.Join(t.TempDir(), "run")})
	if err != nil {
		t.Fatal(err)
	}
	if ownCPUs(t, &d.Run); d.Run.Spec.PinGenerator != s.PinGenerator {
		t.Errorf("generator on %s, want %s", d.Run.Spec.PinGenerator, s.PinGenerator)
	}
	checkThreads(t, c.PID, allowed)
}

func TestApartRefuses(t *testing.T) {
	needs.Engine(t)
	t.Setenv("XDG_STATE_HOME", t.TempDir())
	c := startServer(t, "nethttp")
	allowed, err := sys.AllowedCPUs(0)
	if err != nil {
		t.Fatal(err)
	}
	first := cores.Format(allowed[:1])
	for _, k := range []struct {
		change func(*spec.Spec)
		want   string
	}{
		{func(s *spec.Spec) { s.Targets[0].URL = "http://127.0.0.1:1/" }, "no process that serves"},
		{func(s *spec.Spec) { s.PinGenerator, s.PinServer = first, first }, "both pinned to CPU " + first},
		{func(s *spec.Spec) { s.PinServer = cores.Format(allowed) }, "leave some"},
	} {
		s := specOf(c.Addr, "/simple")
		s.Apart = true
		k.change(&s)
		_, err := Do(t.Context(), s, Options{Out: filepath.Join(t.TempDir(), "run")})
		if !errors.Is(err, exit.ErrRefused) || !strings.Contains(err.Error(), k.want) {
			t.Errorf("%v, want %q", err, k.want)
		}
		checkThreads(t, c.PID, allowed)
	}
}

func TestPlansPutStartedServersApart(t *testing.T) {
	needs.Engine(t)
	allowed := twoCPUs(t)
	t.Setenv("XDG_STATE_HOME", t.TempDir())
	running := startServer(t, "nethttp")
	yes, no := true, false
	for _, k := range []struct {
		name   string
		server spec.Server
		apart  *bool
		parted bool
	}{
		{"started", ownServer("nethttp"), nil, true},
		{"started, not wanted", ownServer("nethttp"), &no, false},
		{"runs already", spec.Server{URL: "http://" + running.Addr}, nil, false},
		{"runs already, wanted", spec.Server{URL: "http://" + running.Addr}, &yes, true},
	} {
		e := sweepOf(t, k.server)
		e.Load.Apart, e.Repeats, e.Load.Connections = k.apart, 1, e.Load.Connections[:1]
		dir := filepath.Join(t.TempDir(), "plan")
		p, _, err := Explore(t.Context(), e, Options{Out: dir}, nil)
		if err != nil || p.Ended != record.EndedComplete {
			t.Fatalf("%s: %v, %+v", k.name, err, p)
		}
		r, _, err := record.Open(record.File{Path: dir, Run: p.Runs[0].Run})
		if err != nil {
			t.Fatal(err)
		}
		if (p.CPUs != nil) != k.parted || (r.Spec.PinGenerator != "") != k.parted ||
			(r.Spec.PinServer != "") != (k.parted && k.server.URL != "") {
			t.Errorf("%s: %+v, spec %+v", k.name, p.CPUs, r.Spec)
		}
		if k.parted {
			ownCPUs(t, r)
			if back, err := record.OpenPlan(record.File{Path: dir}); err != nil || back.CPUs == nil || !reflect.DeepEqual(back.CPUs, p.CPUs) ||
				!strings.Contains(prose.Text(back.CPUs.Says), "generator on CPU") {
				t.Errorf("%s: read back %+v (%v)", k.name, back.CPUs, err)
			}
		}
	}
	checkThreads(t, running.PID, allowed)
}

func TestGeneratorWant(t *testing.T) {
	t.Setenv("XDG_DATA_HOME", t.TempDir())
	for _, k := range []struct {
		threads, slots int
		rate           float64
		want           int
	}{{0, 1, 0, 1}, {0, 64, 0, 2}, {0, 10_000, 0, 312}, {3, 10_000, 0, 3}, {0, 2048, 10_000, 64}} {
		if got := generatorWant(k.threads, k.slots, k.rate); got != k.want {
			t.Errorf("%+v: %d", k, got)
		}
	}
	// A calibration of 10 µs a request: 10,000/s take a tenth of a core.
	env := record.ReadEnvironment("")
	flat := record.Repeated{Median: 1e5, Low: 1e5, High: 1e5}
	path, err := record.CalibrationFile(os.Getenv)
	if err != nil {
		t.Fatal(err)
	}
	if err := record.KeepCalibration(path, &record.Calibration{
		Schema: record.CalibrationSchema, Host: env.Host, Kernel: env.Kernel, CPUModel: env.CPUModel, CPUs: env.CPUsAllowed, Version: "some",
		Engine: "uring",
		Points: []record.CalibrationPoint{{Pipelining: 1, ResponseBytes: 4 << 10, CapacityPerS: flat}},
	}); err != nil {
		t.Fatal(err)
	}
	for rate, want := range map[float64]int{10_000: 1, 100_000: 2, 1e6: 20, 1e9: 64} {
		if got := generatorWant(0, 2048, rate); got != want {
			t.Errorf("%v/s: %d CPUs, want %d", rate, got, want)
		}
	}
}
