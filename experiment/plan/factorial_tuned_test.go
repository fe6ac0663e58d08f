package plan

import (
	"strings"
	"testing"

	"ceiling/internal/needs"
	"ceiling/record"
	"ceiling/verdict/prose"
)

// simulateTuned makes all runs of an experiment whose first factor tunes at its level 1. No metric
// changes; seen says what was seen of the setting in a block.
func simulateTuned(t *testing.T, seen func(block int) string) *record.Plan {
	t.Helper()
	e := factorialOf(t, 5, 2, 2)
	e.Factorial.Within = .5
	m := newMachine(5)
	p := &record.Plan{Experiment: *e}
	for i, s := range Enumerate(e) {
		run := m.run(s, float64(i)/200, planted{1, 1, 1})
		if s.Cell[0] == 1 {
			run.Tuned = []record.Tuned{{What: "eth0 rx-0 rps_cpus", Before: "0", During: "3", Effect: seen(s.Block), Evidence: "the figures"}}
		}
		p.Runs = append(p.Runs, run)
	}
	Conclude(p)
	return p
}

// TestTuningNotSeen: a metric that does not change is no effect of a tuning that was seen to act,
// and not shown of any other. Effects of other factors stay.
func TestTuningNotSeen(t *testing.T) {
	needs.Time(t)
	always := func(effect string) func(int) string { return func(int) string { return effect } }
	for name, c := range map[string]struct {
		seen func(block int) string
		want string // for the factor that tunes
	}{
		"in effect":               {always(record.TuningInEffect), record.NoChange},
		"too few packets":         {always(record.TuningNotShown), record.NotShown},
		"the opposite":            {always(record.TuningNotInEffect), record.NotShown},
		"a program before":        {always(""), record.NoChange},
		"the opposite in a block": {func(b int) string { return pick(b == 3, record.TuningNotInEffect, record.TuningInEffect) }, record.NotShown},
		"seen in most blocks":     {func(b int) string { return pick(b%3 == 0, record.TuningNotShown, record.TuningInEffect) }, record.NoChange},
		"seen in few blocks":      {func(b int) string { return pick(b%3 == 0, record.TuningInEffect, record.TuningNotShown) }, record.NotShown},
	} {
		p := simulateTuned(t, c.seen)
		for _, of := range []struct{ factor, with, want string }{{"a", "", c.want}, {"a", "b", c.want}, {"b", "", record.NoChange}} {
			x := effect(t, p, metricRPS, of.factor, of.with)
			if x.Decision != of.want || x.MoreBlocks > 0 {
				t.Errorf("%s: %s %s is %s (%+v), want %s", name, of.factor, of.with, x.Decision, x.Relative, of.want)
			}
			text := prose.Text(x.Says)
			if of.want == record.NotShown && (!strings.Contains(text, "not shown, because eth0 rx-0 rps_cpus was not seen to act: the figures") ||
				strings.Contains(text, "no effect")) {
				t.Errorf("%s: %s", name, text)
			}
		}
		answer := prose.Text(p.Factorial.Answer[0])
		if not := strings.Contains(answer, " not shown"); not != (c.want == record.NotShown) {
			t.Errorf("%s: %s", name, answer)
		}
	}
}

func pick(first bool, a, b string) string {
	if first {
		return a
	}
	return b
}

// TestTuningSetBack: a run in which another program undid the tuning does not count.
func TestTuningSetBack(t *testing.T) {
	p := simulateTuned(t, func(b int) string { return pick(b == 2, record.TuningSetBack, record.TuningInEffect) })
	if x := effect(t, p, metricRPS, "a", ""); x.Blocks >= p.Factorial.Blocks || x.Decision != record.NoChange {
		t.Errorf("%d of %d blocks, %s", x.Blocks, p.Factorial.Blocks, x.Decision)
	}
	if all := strings.Join(prose.Texts(p.Factorial.Caveats), "\n"); !strings.Contains(all, "1 of 20 runs are invalid (eth0 rx-0 rps_cpus: the figures)") {
		t.Error(all)
	}
	p = simulateTuned(t, func(int) string { return record.TuningSetBack })
	if x := effect(t, p, metricRPS, "a", ""); x.Blocks > 0 || x.Decision != record.CannotTell {
		t.Errorf("set back in all: %d blocks, %s", x.Blocks, x.Decision)
	}
}
