package report

import (
	"bytes"
	"strings"
	"testing"

	"ceiling/experiment/spec"
	"ceiling/record"
	"ceiling/record/recordtest"
	"ceiling/show/layout"
)

// TestSweepWithoutALoadThatDiffers: one table for a mix, the caveats that all
// share once.
func TestSweepWithoutALoadThatDiffers(t *testing.T) {
	of := func(server, mix string, rate float64, caveats ...string) record.Curve {
		return record.Curve{Server: server, Mix: mix, Fixed: recordtest.Says("64 connections"), Caveats: recordtest.Says(caveats...), Says: recordtest.Say("x"),
			Points: []record.CurvePoint{{Runs: 3, PerS: record.Estimate{Mid: rate, Low: rate * .9, High: rate * 1.1}, Outcome: record.Valid,
				Bottleneck: "server CPU"}}}
	}
	p := &record.Plan{ID: "x", Ending: record.Ending{Ended: record.EndedComplete,
		Sweep: &record.Sweep{Curves: []record.Curve{
			of("one", "/a", 1000, "noise"), of("another", "/a", 500, "noise", "few"), of("one", "/b", 100, "noise"),
			of("another", "/b", 50, "noise"),
		}}}, Runs: make([]record.Measured, 5), Experiment: spec.Experiment{Question: "Which?"}}
	var b bytes.Buffer
	if err := Plan(&b, p, Layout{}); err != nil {
		t.Fatal(err)
	}
	text := b.String()
	for want, times := range map[string]int{
		"Which?": 1, "/a, 64 connections": 1, "/b, 64 connections": 1, "one ": 2, "another ": 2, "noise": 1, "another: few": 1, "server CPU": 4,
		strings.Repeat("█", layout.BarWidth) + "\n": 2, " " + strings.Repeat("█", layout.BarWidth/2) + "\n": 2,
	} {
		if got := strings.Count(text, want); got != times {
			t.Errorf("%q stands %d times, want %d:\n%s", want, got, times, text)
		}
	}
}

func TestBar(t *testing.T) {
	for _, c := range []struct {
		value, most float64
		want        string
	}{{1, 1, strings.Repeat("█", 12)}, {0.5, 12, "▌"}, {0, 1, ""}, {1, 0, ""}, {2.125, 12, "██▏"}} {
		if got := layout.Bar(c.value, c.most, layout.BarWidth); got != c.want {
			t.Errorf("bar(%v, %v) = %q, want %q", c.value, c.most, got, c.want)
		}
	}
}

// TestColumnsOfPages: a page has what text has no room for.
func TestColumnsOfPages(t *testing.T) {
	f := &record.Factorial{Effects: []record.Effect{{Metric: "rps", Says: recordtest.Say("it helps")}}}
	d := &record.ProfileDifference{Functions: []record.FunctionDifference{{Name: "f", File: "/a/b.go", Line: 3}}}
	for want, table := range map[string]*layout.Table{"it helps": EffectTable(f, "rps"), "/a/b.go:3": FunctionTable(d, 1)} {
		if row := table.Rows[0]; row[len(row)-1] != want || table.Columns[len(row)-1].Drop != layout.Hidden {
			t.Errorf("%q lacks %q", row, want)
		}
	}
}

// TestUndecidedEffects: an effect that so few blocks cannot show is told from one that noise hides.
func TestUndecidedEffects(t *testing.T) {
	for want, confidence := range map[string]float64{"too few blocks: needs about 6 more": 0, "inconclusive: ±5% needs about 6 more blocks": .95} {
		x := record.Effect{Decision: record.CannotTell, Blocks: 3, MoreBlocks: 6, Within: .05, Relative: record.Estimate{Confidence: confidence}}
		if got := EffectDecision(&x); got != want {
			t.Errorf("%q, want %q", got, want)
		}
	}
}
