//go:build linux

package run

import (
	"context"
	"errors"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"time"

	"ceiling/experiment/plan"
	"ceiling/experiment/spec"
	"ceiling/internal/exit"
	"ceiling/internal/faultserver"
	"ceiling/internal/hist"
	"ceiling/internal/needs"
	"ceiling/record"
	"ceiling/verdict/prose"
)

// sweepOf asks for four short runs of a server.
func sweepOf(t *testing.T, s spec.Server) spec.Experiment {
	t.Helper()
	e := spec.Experiment{
		Kind: spec.KindSweep, Servers: []spec.Server{s},
		Requests: []spec.Mix{{MixRequest: spec.MixRequest{Path: "/simple"}}},
		Load: spec.Load{Lists: spec.Lists{Connections: []spec.Count{1, 4}},
			Duration: spec.Time(100 * time.Millisecond), Timeout: spec.Time(time.Second)},
		Repeats: 2,
	}
	e.Complete(1)
	if err := e.Check(); err != nil {
		t.Fatal(err)
	}
	return e
}

// ownServer is this test binary as a server that a plan starts.
func ownServer(kind string) spec.Server {
	return spec.Server{Serve: "exec '" + os.Args[0] + "'", Env: []string{"RUN_TEST_SERVE=" + kind}}
}

func TestSweepIsMadeAndKept(t *testing.T) {
	needs.Engine(t)
	dir := filepath.Join(t.TempDir(), "plan")
	var told []int
	p, kept, err := Explore(t.Context(), sweepOf(t, ownServer("nethttp")), Options{Out: dir, Version: "test"},
		func(m record.Measured, _ string) { told = append(told, m.Number) })
	if err != nil {
		t.Fatal(err)
	}
	if kept.Path != filepath.Join(dir, p.ID+".ndjson.gz") || p.Ended != record.EndedComplete || len(p.Runs) != 4 ||
		!slices.Equal(told, []int{1, 2, 3, 4}) || p.Exit != exit.Pass {
		t.Fatalf("kept in %s, %s (%s), %d runs, told %v, exit %d", kept, p.Ended, prose.Text(p.Because), len(p.Runs), told, p.Exit)
	}
	if c := p.Sweep.Curves; len(c) != 1 || len(c[0].Points) != 2 || c[0].Points[0].Response.Count == 0 {
		t.Errorf("curves %+v", c)
	}
	back, err := record.OpenPlan(record.File{Path: dir})
	if err != nil || len(back.Runs) != 4 || back.Sweep == nil {
		t.Fatalf("read back: %v, %+v", err, back)
	}
	if err := record.ReadHistograms(record.File{Path: dir}, back.Runs); err != nil {
		t.Fatal(err)
	}
	for i, m := range back.Runs {
		r, _, err := record.Open(record.File{Path: dir, Run: m.Run})
		if err != nil || r.Requests.Completed != m.Completed || m.Completed == 0 || r.Load.Connections != m.Connections {
			t.Errorf("run %d: %v, %d completed of %d", i+1, err, r.Requests.Completed, m.Completed)
		}
		if m.Histogram.Count() != m.Completed+m.Failed {
			t.Errorf("run %d: the histogram has %d of %d", i+1, m.Histogram.Count(), m.Completed)
		}
	}
}

func TestInterruptedPlanIsResumed(t *testing.T) {
	needs.Engine(t)
	dir := filepath.Join(t.TempDir(), "plan")
	ctx, stop := context.WithCancel(t.Context())
	defer stop()
	p, _, err := Explore(ctx, sweepOf(t, ownServer("nethttp")), Options{Out: dir}, func(m record.Measured, _ string) {
		if m.Number == 2 {
			stop()
		}
	})
	if err != nil || p.Ended != record.EndedInterrupted || len(p.Runs) != 2 || p.Exit != exit.Interrupted || p.Sweep == nil {
		t.Fatalf("%v: %s after %d runs, exit %d", err, p.Ended, len(p.Runs), p.Exit)
	}
	q, _, err := Resume(t.Context(), record.File{Path: dir}, Options{}, nil)
	if err != nil || q.Ended != record.EndedComplete || len(q.Runs) != 4 || q.Exit != exit.Pass {
		t.Fatalf("resumed: %v: %s after %d runs", err, q.Ended, len(q.Runs))
	}
	for i := range 2 {
		if p.Runs[i].Run != q.Runs[i].Run {
			t.Errorf("run %d was made again", i+1)
		}
	}
	if _, _, err := Resume(t.Context(), record.File{Path: dir}, Options{}, nil); !errors.Is(err, exit.ErrRefused) {
		t.Errorf("resumed once more: %v", err)
	}
}

// TestResumedComparisonHasItsOwnExit: what the part before the interruption
// ended with is forgotten, on the disk too.
func TestResumedComparisonHasItsOwnExit(t *testing.T) {
	needs.Engine(t)
	e := sweepOf(t, ownServer("nethttp"))
	e.Kind, e.Servers = spec.KindCompare, append(e.Servers, e.Servers[0])
	e.Load.Connections, e.Repeats = e.Load.Connections[:1], 0
	e.Compare = spec.Compare{Blocks: 1, NoiseBlocks: 1}
	if err := e.Check(); err != nil {
		t.Fatal(err)
	}
	dir := filepath.Join(t.TempDir(), "plan")
	ctx, stop := context.WithCancel(t.Context())
	defer stop()
	_, _, err := Explore(ctx, e, Options{Out: dir}, func(m record.Measured, _ string) {
		if m.Number == 3 {
			stop()
		}
	})
	if err != nil {
		t.Fatal(err)
	}
	saved := func(ended string, want int) {
		t.Helper()
		if p, err := record.OpenPlan(record.File{Path: dir}); err != nil || p.Ended != ended || p.Exit != want {
			t.Fatalf("%v: %s (%s), exit %d; want %s, exit %d", err, p.Ended, prose.Text(p.Because), p.Exit, ended, want)
		}
	}
	saved(record.EndedInterrupted, exit.Interrupted)
	if p, _, err := Resume(t.Context(), record.File{Path: dir}, Options{}, nil); err != nil || p.Exit != exit.Pass || p.Comparison == nil {
		t.Fatalf("resumed: %v: %s (%s), exit %d", err, p.Ended, prose.Text(p.Because), p.Exit)
	}
	saved(record.EndedComplete, exit.Pass)
}

// TestKilledPlan: what a kill leaves is a plan without an end and a line that is
// not whole; it is read and resumed.
func TestKilledPlan(t *testing.T) {
	needs.Engine(t)
	dir := filepath.Join(t.TempDir(), "plan")
	ctx, stop := context.WithCancel(t.Context())
	defer stop()
	if _, _, err := Explore(ctx, sweepOf(t, ownServer("nethttp")), Options{Out: dir}, func(record.Measured, string) { stop() }); err != nil {
		t.Fatal(err)
	}
	at, err := record.At(dir)
	if err != nil {
		t.Fatal(err)
	}
	file := at.Path
	lines, err := os.ReadFile(file)
	if err != nil {
		t.Fatal(err)
	}
	if err := os.WriteFile(file, append(lines, `{"kind":"measured","number":2,"run":"2026`...), 0o600); err != nil {
		t.Fatal(err)
	}
	p, _, err := Resume(t.Context(), record.File{Path: dir}, Options{}, nil)
	if err != nil || p.Ended != record.EndedComplete || len(p.Runs) != 4 {
		t.Fatalf("%v: %s after %d runs: %s", err, p.Ended, len(p.Runs), prose.Text(p.Because))
	}
}

func TestServerThatIsGoneEndsThePlan(t *testing.T) {
	needs.Engine(t)
	s, err := faultserver.Listen("tcp4", "127.0.0.1:0", faultserver.Every(faultserver.Answer(faultserver.OK("x"))))
	if err != nil {
		t.Fatal(err)
	}
	defer s.Close()
	dir := filepath.Join(t.TempDir(), "plan")
	p, _, err := Explore(t.Context(), sweepOf(t, spec.Server{URL: "http://" + s.Address()}), Options{Out: dir},
		func(m record.Measured, _ string) { s.Kill() })
	if err != nil || p.Ended != record.EndedFailed || p.Exit != exit.Error || len(p.Runs) != 1 {
		t.Fatalf("%v: %s (%s) after %d runs, exit %d", err, p.Ended, prose.Text(p.Because), len(p.Runs), p.Exit)
	}
	for _, part := range []string{"run 2", "nothing is listening on", "ceiling run --resume " + p.ID} {
		if !strings.Contains(prose.Text(p.Because), part) {
			t.Errorf("%q does not say %q", prose.Text(p.Because), part)
		}
	}
	if err := s.Accept(); err != nil {
		t.Fatal(err)
	}
	if p, _, err = Resume(t.Context(), record.File{Path: dir}, Options{}, nil); err != nil || p.Ended != record.EndedComplete ||
		len(p.Runs) != 4 {
		t.Errorf("resumed: %v: %s (%s)", err, p.Ended, prose.Text(p.Because))
	}
}

func TestServerThatDoesNotStart(t *testing.T) {
	for _, c := range []struct {
		name, serve, want string
	}{
		{"ends", "echo the roof is on fire >&2; exit 1", "the roof is on fire"},
		{"is not there", "/nonexistent/command {addr}", "nonexistent"},
	} {
		p, _, err := Explore(t.Context(), sweepOf(t, spec.Server{Serve: c.serve}), Options{Out: filepath.Join(t.TempDir(), "plan")}, nil)
		because := prose.Text(p.Because)
		if err != nil || p.Ended != record.EndedFailed || !strings.Contains(because, c.want) || strings.Contains(because, "\n") {
			t.Errorf("%s: %v: %q", c.name, err, because)
		}
	}
}

func TestStartServerTellsTheAddress(t *testing.T) {
	needs.Engine(t)
	for _, serve := range []string{
		"RUN_TEST_ADDR={host}:{port} '" + os.Args[0] + "'",
		"RUN_TEST_ADDR={addr} '" + os.Args[0] + "'; echo it ended",
		"RUN_TEST_ADDR={addr} '" + os.Args[0] + "' >/dev/null; echo it ended", // its output does not say when it ends
		"RUN_TEST_ADDR=127.0.0.1:$PORT '" + os.Args[0] + "'",
	} {
		c, base, err := serverOn(t.Context(), &spec.Server{Serve: serve, Env: []string{"RUN_TEST_SERVE=nethttp"}}, nil)
		if err != nil {
			t.Fatal(err)
		}
		if !strings.HasPrefix(base, "http://127.0.0.1:") || !accepts(c.Addr) {
			t.Errorf("%s: base %s", serve, base)
		}
		c.Stop()
		if accepts(c.Addr) {
			t.Errorf("%s: it goes on after Stop", serve)
		}
	}
}

func TestGiveUpEndsTheRun(t *testing.T) {
	needs.Engine(t)
	c := startServer(t, "nethttp")
	s := specOf(c.Addr, "/simple")
	s.Duration = 30 * time.Second
	asked := 0
	d, err := Do(t.Context(), s, Options{Out: filepath.Join(t.TempDir(), "run"), StopEarly: func(row *record.LoadRow, h *hist.Hist) string {
		asked++
		if h.Count() != row.Completed+row.Failed {
			t.Errorf("an interval of %d has %d times", row.Completed, h.Count())
		}
		if row.Warmup {
			return ""
		}
		return "it is hopeless"
	}})
	if err != nil {
		t.Fatal(err)
	}
	if d.Run.StoppedEarly != "it is hopeless" || d.Run.ElapsedS > 20 || d.Response.Count() == 0 {
		t.Errorf("asked %d times, gave up %q after %v s, %d times", asked, d.Run.StoppedEarly, d.Run.ElapsedS, d.Response.Count())
	}
}

func TestTakes(t *testing.T) {
	e := sweepOf(t, spec.Server{URL: "http://127.0.0.1:1"})
	if n := len(plan.Enumerate(&e)); n != 4 || Takes(&e, n) < 4*110*time.Millisecond {
		t.Errorf("%d runs take %v", n, Takes(&e, n))
	}
}

// TestTooShortForTheServer: where the fastest response takes more than half of a run, the plan ends after
// its first instead of making all of them for no answer.
func TestTooShortForTheServer(t *testing.T) {
	needs.Engine(t)
	s, err := faultserver.Listen("tcp4", "127.0.0.1:0", faultserver.Every(faultserver.Loop(faultserver.Request(1),
		func(*faultserver.Conn) error { time.Sleep(600 * time.Millisecond); return nil }, faultserver.Write(faultserver.OK("x")))))
	if err != nil {
		t.Fatal(err)
	}
	defer s.Close()
	e := sweepOf(t, spec.Server{URL: "http://" + s.Address()})
	e.Load.Duration = spec.Time(time.Second) // one response in it, however late
	p, _, err := Explore(t.Context(), e, Options{Out: filepath.Join(t.TempDir(), "plan")}, nil)
	if err != nil || p.Ended != record.EndedEarly || p.Exit != exit.Invalid || len(p.Runs) != 1 ||
		!strings.Contains(prose.Text(p.Because), "give -d of 20 responses or more") {
		t.Errorf("%v: %s (%s) after %d runs", err, p.Ended, prose.Text(p.Because), len(p.Runs))
	}
}
