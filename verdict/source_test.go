package verdict

import (
	"testing"

	"ceiling/experiment/spec"
	"ceiling/record"
)

// TestSourcesThatSetThePace: for and against.
func TestSourcesThatSetThePace(t *testing.T) {
	for name, c := range map[string]struct {
		script  record.ComposeCost
		lagNs   float64
		want    record.Bottleneck
		because string
	}{
		"its thread always runs":       {record.ComposeCost{Requests: 1e6, CPUNs: 99e8, Busy: .99, WaitedShare: .9}, 1000, record.LoadGenerator, "source.slow"},
		"requests wait for its answer": {record.ComposeCost{Requests: 1e6, CPUNs: 2e9, Busy: .2, WaitedShare: .8}, 400_000, record.LoadGenerator, "source.slow"},
		"its delays are the time":      {record.ComposeCost{Requests: 1e6, CPUNs: 2e9, Busy: .2, DelayedNs: 600e9}, 0, record.Concurrency, "source.delays"},
		"it is ahead":                  {record.ComposeCost{Requests: 1e6, CPUNs: 60e8, Busy: .6, WaitedShare: .05}, 1000, "", ""},
		"it is busy, and ahead":        {record.ComposeCost{Requests: 1e6, CPUNs: 97e8, Busy: .97, WaitedShare: .1}, 1000, "", ""},
	} {
		run := closedRun()
		run.Generator.Source, run.Latency.Lag.MeanNs = &c.script, c.lagNs
		f := newFacts(run, &record.Series{})
		got := ruleSource(f.base)
		matches := got.answer == matched
		if matches != (c.want != "") || matches && (got.bottleneck != c.want || got.because[0].Code != c.because) {
			t.Errorf("%s: %v %s %v", name, got.answer, got.bottleneck, got.because)
		}
	}
	for what, next := range map[string]string{spec.OriginScript: "source.next.script", spec.OriginData: "source.next.data", spec.OriginSession: "source.next.session"} {
		run := closedRun()
		run.Generator.Source = &record.ComposeCost{What: what, Requests: 1e6, CPUNs: 99e8, Busy: .99, WaitedShare: .9}
		if got := ruleSource(newFacts(run, &record.Series{}).base); got.next[0].Code != next {
			t.Errorf("%s: %v", what, got.next)
		}
	}
	run := closedRun()
	if got := ruleSource(newFacts(run, &record.Series{}).base); got.answer == matched || len(got.pro) > 0 {
		t.Errorf("without a script: %+v", got)
	}
	run.Requests.Completed, run.Generator.Source = 0, &record.ComposeCost{WaitedShare: 1}
	if got := ruleSource(newFacts(run, &record.Series{}).base); got.answer != matched || got.because[0].Code != "source.none" {
		t.Errorf("a script that returns nothing: %+v", got)
	}
}
