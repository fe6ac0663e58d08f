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
)

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
