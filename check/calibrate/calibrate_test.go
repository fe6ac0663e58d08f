package calibrate

import (
	"context"
	"errors"
	"os"
	"os/exec"
	"runtime"
	"slices"
	"strings"
	"testing"
	"time"

	"ceiling/internal/sys"
	"ceiling/measure/load"
	"ceiling/record"
)

func TestDivide(t *testing.T) {
	many := make([]int, 128)
	var pairs []string
	for i := range many {
		many[i] = i
		if i < 64 {
			pairs = append(pairs, cpuList([]int{i, i + 64}))
		}
	}
	for _, k := range []struct {
		name      string
		allowed   []int
		siblings  []string
		generator int
		floor     []int
		caveats   int
	}{
		{"one", []int{3}, nil, 3, []int{3}, 1},
		{"two", []int{0, 1}, nil, 1, []int{0}, 0},
		{"two threads of one core", []int{0, 1}, []string{"0,1"}, 1, []int{0}, 1},
		{"two cores of two threads", []int{0, 1, 2, 3}, []string{"0,2", "1,3"}, 1, []int{0, 2}, 0},
		{"adjacent siblings", []int{0, 1, 2, 3}, []string{"0-1", "2-3"}, 1, []int{2, 3}, 0},
		{"128", many, pairs, 1, []int{2, 3, 4, 5}, 0},
		{"a few of many", []int{7, 9, 71}, pairs, 9, []int{7, 71}, 0},
		{"unreadable siblings", []int{0, 1}, []string{"x"}, 1, []int{0}, 0},
	} {
		d := divide(k.allowed, k.siblings)
		if d.generator != k.generator || !slices.Equal(d.floor, k.floor) || len(d.caveats) != k.caveats {
			t.Errorf("%s: %+v; want %d and %v, %d doubts", k.name, d, k.generator, k.floor, k.caveats)
		}
	}
}

func TestPoint(t *testing.T) {
	k := condition{"/read", 16}
	p := k.point([]sample{
		{rate: 900, busy: 0.95, runDelay: 0.01, cpuNs: 1000, bytes: 4500},
		{rate: 1100, busy: 0.5, runDelay: 0, cpuNs: 450, bytes: 4500},
		{rate: 1000, busy: 0.92, runDelay: 0.02, cpuNs: 900, bytes: 4500},
	})
	want := record.CalibrationPoint{
		Route: "/read", Connections: 64, Pipelining: 16, ResponseBytes: 4500,
		RatePerS: record.Repeated{Median: 1000, Low: 900, High: 1100},
		Busy:     record.Repeated{Median: 0.92, Low: 0.5, High: 0.95},
		RunDelay: record.Repeated{Median: 0.01, Low: 0, High: 0.02},
		// The one at 0.5 busy could do 2200.
		CPUNsPerRequest: record.Repeated{Median: 900, Low: 450, High: 1000},
		CapacityPerS:    record.Repeated{Median: 1000, Low: 900, High: 2200},
	}
	if p != want {
		t.Errorf("%+v\nwant\n%+v", p, want)
	}
	p = k.point([]sample{{rate: 800, busy: 0.8}, {rate: 850, busy: 0.85}, {rate: 1000, busy: 1}})
	if !p.Derived || p.CapacityPerS.Median != 1000 {
		t.Errorf("%+v", p)
	}
}

func TestSampleOf(t *testing.T) {
	good := func() *load.Result {
		r := &load.Result{Established: connections, WindowNs: 2e9, Engine: "uring", Workers: []load.WorkerReport{{Busy: 0.5, RunDelay: 0.1}}}
		r.Total.Completed, r.Total.Read = 1000, 130_000
		r.Total.Statuses[200] = 1000
		return r
	}
	s, err := sampleOf(good())
	if want := (sample{rate: 500, busy: 0.5, runDelay: 0.1, cpuNs: 1e6, bytes: 130, engine: "uring"}); err != nil || s != want {
		t.Errorf("%+v, %v; want %+v", s, err, want)
	}
	over := good()
	over.Workers[0].Busy, over.Workers[0].RunDelay = 2.6, 1.5
	if s, err := sampleOf(over); err != nil || s.busy != 1 || s.runDelay != 1 || s.cpuNs != 2e6 {
		t.Errorf("%+v, %v", s, err)
	}
	for name, spoil := range map[string]func(*load.Result){
		"interrupted": func(r *load.Result) { r.Interrupted = true },
		"connections": func(r *load.Result) { r.Established = 63 },
		"failed":      func(r *load.Result) { r.Total.Failed = 1 },
		"statuses":    func(r *load.Result) { r.Total.Statuses[200]--; r.Total.Statuses[503]++ },
		"nothing":     func(r *load.Result) { r.Total.Completed, r.Total.Statuses[200] = 0, 0 },
		"no CPU time": func(r *load.Result) { r.Workers[0].Busy = 0 },
	} {
		r := good()
		spoil(r)
		if _, err := sampleOf(r); err == nil {
			t.Errorf("%s: no error", name)
		}
	}
	r := good()
	r.Total.Completed, r.Total.Statuses[200] = 0, 0
	if _, err := sampleOf(r); !errors.Is(err, errNothing) {
		t.Error(err)
	}
	r.Interrupted = true
	if _, err := sampleOf(r); !errors.Is(err, context.Canceled) {
		t.Error(err)
	}
}

func TestCaveats(t *testing.T) {
	steady := record.Repeated{Median: 100, Low: 99, High: 101}
	quiet := &record.Calibration{DurationS: 1, Points: []record.CalibrationPoint{{CapacityPerS: steady}}}
	if list := caveats(quiet, division{}); len(list) != 0 {
		t.Errorf("%q", list)
	}
	loud := &record.Calibration{DurationS: 0.05, Points: []record.CalibrationPoint{
		{CapacityPerS: steady, Derived: true},
		{CapacityPerS: record.Repeated{Median: 100, Low: 80, High: 101}, RunDelay: record.Repeated{Median: 0.3}},
	}}
	list := caveats(loud, division{caveats: []string{"one CPU"}})
	for i, want := range []string{"one CPU", "at 1 of 2 points the generator was not", "at 1 of 2 points the repeats differ", "30%", "0.05s"} {
		if i >= len(list) || !strings.Contains(list[i], want) {
			t.Errorf("doubt %d of %q; want %q", i+1, list, want)
		}
	}
}

func TestPinAll(t *testing.T) {
	allowed, err := sys.AllowedCPUs(0)
	if err != nil {
		t.Fatal(err)
	}
	child := exec.Command("cat")
	stdin, err := child.StdinPipe()
	if err != nil {
		t.Fatal(err)
	}
	if err := child.Start(); err != nil {
		t.Fatal(err)
	}
	defer func() {
		stdin.Close()
		if err := child.Wait(); err != nil {
			t.Error(err)
		}
	}()
	if err := pinAll(child.Process.Pid, allowed[:1]); err != nil {
		t.Fatal(err)
	}
	if got, err := sys.AllowedCPUs(child.Process.Pid); err != nil || !slices.Equal(got, allowed[:1]) {
		t.Errorf("%v, %v", got, err)
	}
	if err := pinAll(child.Process.Pid, []int{1 << 20}); err == nil {
		t.Error("a CPU that cannot be: no error")
	}
}

func TestMeasureWithoutServer(t *testing.T) {
	before := runtime.NumGoroutine()
	_, err := Measure(t.Context(), Config{Program: os.Args[0] + "-is-not-there", Duration: 1e6})
	if err == nil || !strings.Contains(err.Error(), "is-not-there") {
		t.Error(err)
	}
	// That of a process that did not start has said so, and is about to end.
	for deadline := time.Now().Add(10 * time.Second); runtime.NumGoroutine() > before; time.Sleep(time.Millisecond) {
		if time.Now().After(deadline) {
			t.Fatalf("%d goroutines, %d before", runtime.NumGoroutine(), before)
		}
	}
}

func TestText(t *testing.T) {
	c := &record.Calibration{
		Host: "h", Kernel: "6.1", CPUModel: "cpu", Engine: "uring", GeneratorCPUs: "1", FloorCPUs: "0", DurationS: 1, Repeats: 3,
		Points: []record.CalibrationPoint{
			{Route: "/simple", Connections: 64, Pipelining: 1, ResponseBytes: 134,
				CapacityPerS: record.Repeated{Median: 250_000, Low: 240_000, High: 260_000}, CPUNsPerRequest: record.Repeated{Median: 4000},
				Busy: record.Repeated{Median: 0.97}},
			{Route: "/list", Connections: 64, Pipelining: 100, ResponseBytes: 100_200, CapacityPerS: record.Repeated{Median: 12_000},
				Busy: record.Repeated{Median: 0.6}, RunDelay: record.Repeated{Median: -1}, Derived: true},
			{Route: "/read", Connections: 64, Pipelining: 1, Busy: record.Repeated{Median: 0.6}, RunDelay: record.Repeated{Median: 0.35},
				Derived: true},
		},
		Caveats: []string{"first", "second"},
	}
	var b strings.Builder
	if err := Text(&b, c); err != nil {
		t.Fatal(err)
	}
	for _, want := range []string{"250,000", "240,000–260,000", "≥ 12,000", "97%", " generator\n", " server\n", "others on its CPU",
		"caveats first\n", "        second\n"} {
		if !strings.Contains(b.String(), want) {
			t.Errorf("no %q in\n%s", want, b.String())
		}
	}
}

func TestWanted(t *testing.T) {
	env := record.ReadEnvironment("v1")
	engine := chosen()
	if engine == "" {
		t.Fatal("neither io_uring nor epoll here")
	}
	fits := record.Calibration{Host: env.Host, Kernel: env.Kernel, CPUModel: env.CPUModel, CPUs: env.CPUsAllowed, Version: "v1",
		Engine: engine}
	stale := fits
	stale.Version = "v0"
	for _, k := range []struct {
		name     string
		all      []record.Calibration
		engine   string
		measures time.Duration
		want     string // "" not wanted
	}{
		{"the first", nil, "auto", worth, "was not calibrated"},
		{"a short one", nil, "auto", worth - 1, ""},
		{"a number of requests", nil, "auto", 0, ""},
		{"calibrated", []record.Calibration{fits}, "auto", time.Hour, ""},
		{"of an older binary", []record.Calibration{stale}, "", time.Hour, "another version of ceiling (v0, now v1)"},
		{"of another engine", []record.Calibration{fits}, "other", time.Hour, "another engine"},
	} {
		if why := Wanted(k.all, "v1", k.engine, k.measures); (why == "") != (k.want == "") || !strings.Contains(why, k.want) {
			t.Errorf("%s: %q, want %q", k.name, why, k.want)
		}
	}
}
