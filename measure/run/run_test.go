//go:build linux

package run

import (
	"context"
	"errors"
	"math"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"ceiling/experiment/spec"
	"ceiling/internal/exit"
	"ceiling/internal/needs"
	"ceiling/internal/unit"
	"ceiling/record"
)

// specOf is a small run against an address.
func specOf(addr, path string) spec.Spec {
	return spec.Spec{
		Targets:   []spec.Target{{Method: "GET", URL: "http://" + addr + path, Weight: 1}},
		Condition: spec.Condition{Connections: 8, Pipelining: 1}, Duration: 400 * time.Millisecond, Warmup: 100 * time.Millisecond,
		Timeout: 2 * time.Second, Settings: spec.Settings{Engine: spec.EngineAuto}, Seed: 1,
	}
}

func do(t *testing.T, s spec.Spec) *Result {
	t.Helper()
	d, err := Do(t.Context(), s, Options{Out: filepath.Join(t.TempDir(), "run"), Version: "test"})
	if err != nil {
		t.Fatal(err)
	}
	if d.KeepErr != nil {
		t.Errorf("keep: %v", d.KeepErr)
	}
	q := &d.Run.Requests
	if q.Sent != q.Completed+q.Failed+q.InFlight {
		t.Errorf("sent %d is not completed %d + failed %d + in flight %d", q.Sent, q.Completed, q.Failed, q.InFlight)
	}
	return d
}

func TestRunOfARealServer(t *testing.T) {
	needs.Engine(t)
	c := startServer(t, "nethttp")
	s := specOf(c.Addr, "/simple")
	s.Duration = 2 * time.Second // long enough for two samples of each kind on a busy host
	d := do(t, s)
	r := &d.Run
	if r.Requests.Completed == 0 || r.Requests.Failed != 0 || r.Statuses["200"] != r.Requests.Completed {
		t.Errorf("requests %+v, statuses %v", r.Requests, r.Statuses)
	}
	if math.Abs(r.ElapsedS-2) > 1e-9 {
		t.Errorf("elapsed %v s, want 2", r.ElapsedS)
	}
	if got := float64(r.Requests.Completed) / r.ElapsedS; math.Abs(got-r.Rate.CompletedPerS) > 1e-6 {
		t.Errorf("rate %v, completions over time %v", r.Rate.CompletedPerS, got)
	}
	if r.Subject == nil || len(r.Subject.Processes) != 1 || r.Subject.Processes[0].PID != c.PID {
		t.Errorf("subject %+v, want process %d", r.Subject, c.PID)
	}
	if r.Generator.CPUNsPerRequest <= 0 || r.Generator.BusiestWorker <= 0 || len(r.Generator.Workers) != r.Load.Threads {
		t.Errorf("generator %+v", r.Generator)
	}
	read, series, err := record.Open(d.File)
	if err != nil {
		t.Fatal(err)
	}
	if read.Requests != r.Requests || read.Verdict.Outcome != r.Verdict.Outcome {
		t.Errorf("read back %+v, ran %+v", read.Requests, r.Requests)
	}
	var completed uint64
	for _, row := range series.Load {
		if !row.Warmup {
			completed += row.Completed
		}
	}
	if completed != r.Requests.Completed {
		t.Errorf("the rows of the window hold %d completions, the result %d", completed, r.Requests.Completed)
	}
	if len(series.Observed.Sockets) == 0 || len(series.Observed.Processes) == 0 {
		t.Error("the series holds no rows of the observer")
	}
}

func TestInterruptedRunKeepsWhatItMeasured(t *testing.T) {
	needs.Engine(t)
	c := startServer(t, "nethttp")
	s := specOf(c.Addr, "/simple")
	s.Duration = time.Minute
	ctx, cancel := context.WithCancel(t.Context())
	options := Options{Out: filepath.Join(t.TempDir(), "run")}
	options.Listen(func(e Event) {
		if e.Progress != nil && e.Progress.Completed > 0 {
			cancel()
		}
	})
	d, err := Do(ctx, s, options)
	if err != nil {
		t.Fatal(err)
	}
	if !d.Run.Interrupted || d.Run.Exit != exit.Interrupted || d.Run.Requests.Completed == 0 || d.Run.ElapsedS > 50 {
		t.Errorf("interrupted %v, exit %d, completed %d in %v s", d.Run.Interrupted, d.Run.Exit, d.Run.Requests.Completed, d.Run.ElapsedS)
	}
}

func TestRefusals(t *testing.T) {
	check := func(what string, change func(*spec.Spec), want string) {
		t.Helper()
		s := specOf("127.0.0.1:1", "/")
		change(&s)
		_, err := Do(t.Context(), s, Options{Out: filepath.Join(t.TempDir(), "run")})
		if !errors.Is(err, exit.ErrRefused) || !strings.Contains(err.Error(), want) {
			t.Errorf("%s: error %v, want a refusal with %q", what, err, want)
		}
	}
	check("no connections", func(s *spec.Spec) { s.Connections = 0 }, "-c")
	check("too many connections", func(s *spec.Spec) { s.Connections = 900_000 }, "raise it")
	check("a CPU that is not there", func(s *spec.Spec) { s.PinGenerator = "4000" }, "4000")
	check("nobody to pin", func(s *spec.Spec) { s.PinServer = "0" }, "--pin-server")
}

func TestThreads(t *testing.T) {
	for _, c := range []struct {
		connections, pipelining int
		local                   bool
		pinned                  []int
		most                    int
	}{
		{1, 1, true, nil, 1}, {64, 1, true, []int{0, 1, 2, 3}, 2}, {64, 100, true, []int{0, 1, 2, 3}, 4}, {2, 1000, false, []int{0, 1, 2, 3}, 2},
	} {
		n, err := threads(c.connections, c.pipelining, c.local, c.pinned)
		if err != nil || n < 1 || n > c.most || c.pinned != nil && n != c.most {
			t.Errorf("%+v: %d threads (%v)", c, n, err)
		}
	}
}

func TestOpenLoopIsExact(t *testing.T) {
	needs.Engine(t)
	c := startServer(t, "fasthttp")
	s := specOf(c.Addr, "/simple")
	rate, err := unit.ParseRate("500")
	if err != nil {
		t.Fatal(err)
	}
	s.Rate, s.Arrivals = rate, spec.Constant
	r := do(t, s).Run
	if r.Requests.Due != 200 ||
		r.Requests.Completed+r.Requests.Failed+r.Requests.InFlight+r.Requests.Unsent != 200+r.Requests.InFlightAtStart {
		t.Errorf("asked %d in 0.4 s at 500/s; %+v", r.Requests.Due, r.Requests)
	}
}
