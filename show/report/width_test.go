package report

import (
	"fmt"
	"strings"
	"testing"
	"time"

	"github.com/charmbracelet/x/ansi"

	"ceiling/experiment/spec"
	"ceiling/record"
	"ceiling/record/recordtest"
	"ceiling/show/layout"
	"ceiling/show/path"
)

// wordyRun has more of everything than fits.
func wordyRun() *record.Run {
	says := recordtest.Says(strings.Repeat("a sentence that goes on, with 12.5 ms and https://example.test/without-a-space, ", 4))
	r := fleetRun()
	r.Agents, r.Fleet = nil, nil
	r.Target = "http://service.example.test:8080/" + strings.Repeat("long/", 20)
	r.Latency.Response = record.Quantiles{Count: 1_000_000, P50Ns: 12_500_000, P90Ns: 23_600_000, P99Ns: 123_000_000, P999Ns: 1_230_000_000,
		MaxNs: 9_990_000_000, MeanNs: 14_200_000}
	r.Statuses = map[string]uint64{"200": 123_456_789, "404": 12_345_678, "503": 1_234_567}
	r.Rate.CompletedPerS = 123_456_789.12
	r.Rate.Spread = record.Spread{Samples: 600, WidthS: 1, MinPerS: 1e8, P50PerS: 1.2e8, MaxPerS: 1.5e8, Late: 12}
	r.Bytes.Read, r.Bytes.Written = 1<<40, 1<<39
	r.Verdict.Because = says
	for range 9 {
		r.Verdict.Caveats = append(r.Verdict.Caveats, says...)
		r.Verdict.Evidence = append(r.Verdict.Evidence, record.Evidence{Says: says[0]})
		r.Errors = append(r.Errors, record.Error{Phase: "connect", Cause: "ECONNREFUSED", Count: 1_234_567})
		r.ByTarget = append(r.ByTarget, record.TargetResult{Target: "GET " + r.Target, Completed: 1_234_567})
	}
	return r
}

func wideEntries() []record.Entry {
	return []record.Entry{
		{ID: "20261123-123356-ibg2", Short: "ibg2", Started: time.Date(2026, 11, 23, 12, 33, 0, 0, time.UTC), CompletedPerS: 123_456, P99Ns: 12_300_000,
			Target: "http://service.example.test:8080/a/long/path", Condition: spec.Condition{Connections: 1024, Pipelining: 16},
			TargetPerS: 123_000, Outcome: record.Invalid,
			Bottleneck: "single-threaded server"},
		{ID: "20250101-000000-aaaa", Short: "aaaa", Kind: "factorial", Runs: 123, Target: "a and 3 more", Result: "no change"},
		{ID: "notes.txt", Unreadable: strings.Repeat("what is wrong with it ", 9)},
	}
}

// TestNothingFolds: on a terminal no line is wider than it is, whatever is shown; in a
// pipe no cell is cut.
func TestNothingFolds(t *testing.T) {
	long := strings.Repeat("an answer ", 20)
	curve := record.Curve{Server: "http://127.0.0.1:8080", Mix: "/read", Over: "connections", Says: recordtest.Say(long),
		Bottleneck: "server CPU"}
	for x := range 5 {
		curve.Points = append(curve.Points, record.CurvePoint{X: float64(int(1) << (4 * x)),
			PerS:     record.Estimate{Mid: 1_234_567, Low: 1_111_111, High: 1_333_333},
			Response: record.Quantiles{Count: 1, P50Ns: 123_000_000, P99Ns: 1_230_000_000}, ServerCPUNs: record.Estimate{Mid: 12_300},
			GeneratorCPUNs: record.Estimate{Mid: 12_300}, Outcome: record.Invalid, Bottleneck: "single-threaded server"})
	}
	e := spec.Experiment{Kind: spec.KindFind, Servers: []spec.Server{{URL: "http://127.0.0.1:8080"}},
		Requests: []spec.Mix{{MixRequest: spec.MixRequest{Path: "/" + strings.Repeat("x", 90)}}}}
	plan := &record.Plan{Runs: make([]record.Measured, 1), Ending: record.Ending{Ended: record.EndedComplete}, Experiment: e}
	sweep, search := *plan, *plan
	sweep.Sweep = &record.Sweep{Curves: []record.Curve{curve}}
	search.Search = &record.Search{SLO: "p99<5ms", Says: curve.Says, Rates: []record.TriedRate{{PerS: 1_234_567, Runs: 12, Fail: 12, StoppedEarly: 12,
		MissedP99Ns: 123_000_000, MissedAtLeast: true, Bottleneck: record.TargetRate}}}
	early := record.Measured{Step: record.Step{Number: 123, Condition: spec.Condition{Connections: 12_345}}, CompletedPerS: 1_234_567,
		Outcome: record.Fail, Bottleneck: "single-threaded server", StoppedEarly: long, P99AtLeastNs: 123_000_000}
	texts := map[string]func(Layout) string{
		"run": func(l Layout) string {
			return written(t, func(b *strings.Builder) error { return Text(b, wordyRun(), l) })
		},
		"agents": func(l Layout) string {
			return written(t, func(b *strings.Builder) error { return Text(b, fleetRun(), l) })
		},
		"sweep": func(l Layout) string { return written(t, func(b *strings.Builder) error { return Plan(b, &sweep, l) }) },
		"search": func(l Layout) string {
			return written(t, func(b *strings.Builder) error { return Plan(b, &search, l) })
		},
		"factorial": func(l Layout) string {
			return written(t, func(b *strings.Builder) error {
				p := &printer{w: b, Layout: l}
				factorial(p, wideFactorial(long))
				return p.err
			})
		},
		"rows": func(l Layout) string {
			g := layout.NewGrid(l.Output, []layout.Column{{Name: "server", Width: 13}, {Name: "p50", Width: 30, Drop: 1}, {Name: "bottleneck", Width: 30, Least: 14}})
			return g.Head() + "\n" + g.Row("fiber prefork", "1.23 ms", "single-threaded server")
		},
		"list": func(l Layout) string {
			return written(t, func(b *strings.Builder) error { return List(b, wideEntries(), time.Now(), l) })
		},
		"progress": func(l Layout) string {
			g := NewProgress(&e, l)
			return strings.Join(append(g.Head(), g.Run(&early)...), "\n")
		},
	}
	for name, text := range texts {
		for _, columns := range []int{60, 80, 120} {
			for _, verbose := range []bool{false, true} {
				got := text(Layout{Output: layout.Output{Columns: columns, Screen: true}, Verbose: verbose})
				for line := range strings.SplitSeq(got, "\n") {
					if n := ansi.StringWidth(line); n > columns {
						t.Errorf("%s has %d of %d columns: %s", name, n, columns, line)
					}
				}
			}
		}
		if got := text(Layout{}); strings.Contains(got, "…\n") || strings.Contains(got, "…  ") || strings.Contains(got, "\x1b") {
			t.Errorf("%s is cut or painted in a pipe:\n%s", name, got)
		}
	}
	if got := texts["search"](Layout{}); !strings.Contains(got, "≥ 123 ms, ended early  none (SLO missed)") {
		t.Errorf("a rate that failed:\n%s", got)
	}
	if got := texts["progress"](Layout{}); !strings.Contains(got, "≥ 123 ms  fail, early  single-threaded server") {
		t.Errorf("a run that ended early:\n%s", got)
	}
}

// wideFactorial has three factors with long levels.
func wideFactorial(long string) *record.Factorial {
	f := &record.Factorial{Answer: recordtest.Says(long), Caveats: recordtest.Says(long)}
	for _, name := range []string{"GOMAXPROCS", "keep-alive", "answer"} {
		f.Factors = append(f.Factors, record.FactorLevels{Name: name, Levels: []string{"a level with a long name", "another one"}})
	}
	f.Cells = []record.FactorialCell{{Levels: []int{0, 1, 0}, Runs: 12, Invalid: 3,
		PerS:  record.Estimate{Mid: 1_234_567, Low: 1_111_111, High: 1_333_333},
		P99Ns: record.Estimate{Mid: 123_000_000}, ServerCPUNs: record.Estimate{Mid: 12_300}, Bottleneck: "single-threaded server"}}
	f.Effects = []record.Effect{{Metric: "rps", Factor: "GOMAXPROCS", Level: 1, Blocks: 12, Decision: record.CannotTell,
		Relative: record.Estimate{Low: -.1234, Mid: .0123, High: .1456}}}
	return f
}

func written(t *testing.T, write func(*strings.Builder) error) string {
	t.Helper()
	var b strings.Builder
	if err := write(&b); err != nil {
		t.Fatal(err)
	}
	return b.String()
}

// TestRunFitsAScreen: a run has at most 22 lines, says how many are missing, and ends
// with its rate and its verdict, where the caveats are counted.
func TestRunFitsAScreen(t *testing.T) {
	run := wordyRun()
	for _, columns := range []int{60, 80, 120} {
		all := written(t, func(b *strings.Builder) error {
			return Text(b, run, Layout{Output: layout.Output{Columns: columns, Screen: true}, Verbose: true})
		})
		got := written(t, func(b *strings.Builder) error {
			return Text(b, run, Layout{Output: layout.Output{Columns: columns, Screen: true}})
		})
		lines := strings.Split(strings.TrimSuffix(got, "\n"), "\n")
		if len(lines) > linesMost {
			t.Errorf("%d lines at %d columns:\n%s", len(lines), columns, got)
		}
		if !strings.Contains(got, "more lines with -v") || strings.Contains(all, "with -v") || strings.Count(all, "\n") < 40 {
			t.Errorf("what is missing at %d columns:\n%s", columns, got)
		}
		end := fmt.Sprint(ansi.Strip(lines[len(lines)-2])[:13], "|", lines[len(lines)-1])
		if want := "Requests/sec:|\x1b[1mverdict         valid · server CPU · 9 caveats\x1b[m"; end != want {
			t.Errorf("the end is %q, want %q", end, want)
		}
	}
}

// The boxes of a request's path are shown whole where other blocks are cut: on a narrow
// screen the last of their lines has the times of the way back.
func TestPathIsShownWhole(t *testing.T) {
	run := wordyRun()
	run.Latency.Service.MeanNs = 14_100_000
	run.Verdict.Because = recordtest.Says(strings.Repeat("as long as four lines are at most ", 4))
	run.Verdict.Next = recordtest.Says(strings.Repeat("as long as three lines are at most ", 3))
	for i, share := range []float64{.02, .03, .6, .1, .05, .2} {
		run.Verdict.Stations = append(run.Verdict.Stations, record.Station{Name: record.PlaceNames()[i], Share: share, Low: share, High: share})
	}
	for _, columns := range []int{60, 80, 120} {
		got := ansi.Strip(written(t, func(b *strings.Builder) error {
			return Text(b, run, Layout{Output: layout.Output{Columns: columns, Screen: true}})
		}))
		for _, line := range path.Lines(run.Path(), columns-column, path.Style{}) {
			if line.Name != "busy" && !strings.Contains(got, line.Text+"\n") {
				t.Errorf("the path at %d columns lacks %q:\n%s", columns, line.Text, got)
			}
		}
	}
}

// A rate's quantiles are of the same runs, so that none is above a higher one; a load of which every run
// is invalid does not count them twice.
func TestRowsOfTheSameRuns(t *testing.T) {
	passed := record.Quantiles{Count: 9, P50Ns: 5e6, P99Ns: 6e6, P999Ns: 8e6}
	rates := SearchTable([]record.TriedRate{{PerS: 1265, Runs: 3, Pass: 1, Fail: 2, StoppedEarly: 2, Response: passed,
		MissedP99Ns: 35e6, MissedAtLeast: true}})
	if got := strings.Join(rates.Rows[0][6:9], " | "); got != "- | ≥ 35.0 ms, ended early | -" {
		t.Error(got)
	}
	points := PointTable(layout.Column{Name: "rate"})
	AddPoint(points, &record.CurvePoint{Runs: 3, Invalid: 3, Outcome: record.Invalid}, "1600")
	AddPoint(points, &record.CurvePoint{Runs: 2, Invalid: 1, Outcome: record.Valid}, "800")
	for i, want := range []string{"3 invalid", "2 + 1 invalid"} {
		if row := points.Rows[i]; row[len(row)-2] != want {
			t.Errorf("%q, want %q", row[len(row)-2], want)
		}
	}
}

// At 60 columns the runs of a plan say whole what each is for, and what limited it.
func TestProgressOnANarrowScreen(t *testing.T) {
	measured := func(step record.Step, of record.Bottleneck) *record.Measured {
		step.Number, step.Block, step.Connections = 104, 26, 64
		return &record.Measured{Step: step, CompletedPerS: 1_234_567, Outcome: record.Valid, Bottleneck: of,
			Response: record.Quantiles{Count: 1, P99Ns: 123_000_000}}
	}
	failed := measured(record.Step{}, record.TargetRate)
	failed.Outcome, failed.StoppedEarly, failed.P99AtLeastNs = record.Fail, "p99<5ms cannot be met", 123_000_000
	for _, c := range []struct {
		kind string
		run  *record.Measured
		want []string
	}{
		{spec.KindProve, measured(record.Step{Perturb: record.Perturbation{Resource: record.PerturbConcurrency, Share: .25}}, record.SharedCPU),
			[]string{"−25% concurrency", "1,234,567", "CPU contention"}},
		{spec.KindCompare, measured(record.Step{Side: "B", Noise: true}, record.SharedCPU), []string{"A/A", "1,234,567", "123 ms", "CPU contention"}},
		{spec.KindSweep, measured(record.Step{Condition: spec.Condition{Threads: 17}}, record.SharedCPU), []string{" 17 ", "CPU contention"}},
		{spec.KindFind, failed, []string{"≥ 123 ms", "fail, early", "none (SLO missed)"}},
	} {
		e := &spec.Experiment{Kind: c.kind, Servers: []spec.Server{{URL: "http://a"}, {URL: "http://b"}}, Requests: []spec.Mix{{}}}
		if c.kind != spec.KindCompare {
			e.Servers = e.Servers[:1]
		}
		e.Load.Connections, e.Load.Threads = []spec.Count{64}, []spec.Count{1, 17}[:map[bool]int{true: 2, false: 1}[c.kind == spec.KindSweep]]
		line := NewProgress(e, Layout{Output: layout.Output{Columns: 60, Screen: true}}).Run(c.run)[0]
		for _, text := range c.want {
			if !strings.Contains(line, text) || ansi.StringWidth(line) > 60 {
				t.Errorf("%s: %q is not in %d columns: %s", c.kind, text, ansi.StringWidth(line), line)
			}
		}
	}
}

// A row of the list says what the entry's own table does: a bound, and what a missed SLO is no bottleneck of.
func TestListAgreesWithTheEntry(t *testing.T) {
	got := written(t, func(b *strings.Builder) error {
		return List(b, []record.Entry{{ID: "a", Target: "http://h:1 vs http://h:2", CompletedPerS: 300, P99Ns: 2_020_000_000, P99AtLeast: true,
			Outcome: record.Fail, Bottleneck: record.TargetRate}}, time.Now(), Layout{Output: layout.Output{Columns: 120}})
	})
	for _, want := range []string{" h:1 vs h:2 ", " ≥ 2.02 s ", "none (SLO missed)"} {
		if !strings.Contains(got, want) {
			t.Errorf("no %q:\n%s", want, got)
		}
	}
}

// A comparison's table is whole at 60 columns, and the answer of a long search is one
// screen with the rates around it.
func TestPlansOnANarrowScreen(t *testing.T) {
	l := Layout{Output: layout.Output{Columns: 60, Screen: true}}
	c := &record.Comparison{A: "a", B: "b", Says: recordtest.Say("B is better than A")}
	for _, metric := range []string{"rps", "server_cpu"} {
		c.Changes = append(c.Changes, record.Change{Metric: metric, A: 29_180, B: 41_894, Floor: .034,
			Relative: record.Estimate{Mid: .444, Low: .305, High: .596}, Decision: record.NoChange, Says: recordtest.Say("requests per second: no change within 5%")})
	}
	got := written(t, func(b *strings.Builder) error { return Comparison(b, c, l) })
	if strings.Contains(got, "%…\n") || strings.Count(got, "+44.4%  +30.5% to +59.6%") != 2 || strings.Count(got, record.NoChange+"\n") != 2 {
		t.Errorf("comparison:\n%s", got)
	}
	c.Changes[0].Relative = record.Estimate{Mid: -.416, Low: -.416, High: -.416} // of single runs, without an interval
	if got = written(t, func(b *strings.Builder) error { return Comparison(b, c, l) }); strings.Contains(got, "−41.6% to") {
		t.Errorf("an interval of nothing:\n%s", got)
	}
	s := &record.Search{SLO: "p99<5ms", Capacity: record.Estimate{Mid: 20_000}, Says: recordtest.Say("highest rate: 20,000 req/s. No answer within 3%.")}
	for i := range 27 {
		s.Rates = append(s.Rates, record.TriedRate{PerS: float64(1000 * (i + 1)), Runs: 2, Pass: 2, Bottleneck: record.TargetRate})
		s.Caveats = append(s.Caveats, recordtest.Say(fmt.Sprintf("caveat %d", i)))
	}
	p := &record.Plan{Runs: make([]record.Measured, 1), Ending: record.Ending{Search: s, Ended: record.EndedEarly, Because: recordtest.Say("no answer within 3%")}}
	got = written(t, func(b *strings.Builder) error { return Plan(b, p, l) })
	if n := strings.Count(got, "\n"); n > 22 || !strings.Contains(got, "\n20,000 ") || !strings.Contains(got, "24 more caveats and 18 more rates with -v") ||
		!strings.HasSuffix(strings.TrimSpace(ansi.Strip(got)), "3%.") {
		t.Errorf("a search of %d lines:\n%s", n, got)
	}
	l.Verbose = true
	if got = written(t, func(b *strings.Builder) error { return Plan(b, p, l) }); !strings.Contains(got, "\n 1,000 ") || !strings.Contains(got, "caveat 26") {
		t.Errorf("with -v:\n%s", got)
	}
}
