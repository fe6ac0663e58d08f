package verdict

import (
	"slices"
	"testing"

	"ceiling/record"
)

// TestExplanationIsTheVerdict holds the steps of every fixture against its verdict: one
// step decides, it is the first yes, and its sentence is the verdict's.
func TestExplanationIsTheVerdict(t *testing.T) {
	decided := 0
	for _, fixture := range fixtures(t) {
		run, series := fixture.read(t)
		d, v := Explain(run, series)
		all := slices.Concat(d.Validity, d.Bottleneck)
		first := slices.IndexFunc(all, func(s Step) bool { return s.Answer == StepYes })
		at := slices.IndexFunc(all, func(s Step) bool { return s.Decides })
		if at >= 0 {
			decided++
		}
		invalid := at >= 0 && at < len(d.Validity)
		switch {
		case at >= 0 && at != first && at < len(d.Validity), invalid != (v.Outcome == record.Invalid):
			t.Errorf("%s: %s, the deciding step is %d, the first yes %d", fixture.path, v.Outcome, at, first)
		case !invalid && at < 0 != (v.Bottleneck == record.Inconclusive):
			t.Errorf("%s: %s, the deciding step is %d", fixture.path, v.Bottleneck, at)
		}
		if slices.ContainsFunc(all[at+1:], func(s Step) bool { return s.Decides }) {
			t.Errorf("%s: two steps decide", fixture.path)
		}
		for _, s := range all {
			if s.Answer == StepUnknown && s.Why == nil || s.Answer == StepYes && s.Why == nil {
				t.Errorf("%s: %s is %s without a reason", fixture.path, s.Rule, s.Answer)
			}
		}
	}
	if decided < 100 {
		t.Errorf("%d fixtures were decided: the test proves little", decided)
	}
}

func TestRulesHaveNames(t *testing.T) {
	seen := map[string]bool{}
	name := func(name, asks string) {
		if name == "" || asks == "" || seen[name] {
			t.Errorf("rule %q asks %q, or there are two of it", name, asks)
		}
		seen[name] = true
	}
	for _, r := range rules() {
		name(r.name, r.asks)
	}
	for _, c := range validity() {
		name(c.name, c.asks)
	}
}
