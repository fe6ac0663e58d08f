package plan

import (
	"testing"

	"ceiling/experiment/spec"
	"ceiling/record"
)

// TestOwedAnswersAreABrokenRate: what was sent and not answered is no rate that
// can be passed, also where nobody knows where it waited.
func TestOwedAnswersAreABrokenRate(t *testing.T) {
	slo, err := spec.ParseSLO("p99<200ms")
	if err != nil {
		t.Fatal(err)
	}
	s := &survey{slo: slo}
	for _, c := range []struct {
		m    record.Measured
		want classification
	}{
		{record.Measured{Outcome: record.Invalid, Bottleneck: record.Inconclusive, Completed: 100, BacklogShare: 0.05}, classMissed},
		{record.Measured{Outcome: record.Invalid, Bottleneck: record.Inconclusive, Completed: 100, BacklogShare: 0.005}, classUnusable},
		{record.Measured{Outcome: record.Invalid, Bottleneck: record.LoadGenerator, Completed: 100, BacklogShare: 0.05}, classGeneratorLimited},
		{record.Measured{Outcome: record.Invalid, Bottleneck: "server blocked", Completed: 100}, classMissed},
	} {
		if got, broken := s.judge(&c.m); got != c.want || (got == classMissed) != (len(broken) == 1) {
			t.Errorf("%+v: %v, broken %v; want %v", c.m, got, broken, c.want)
		}
	}
}
