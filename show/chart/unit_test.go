package chart

import (
	"strings"
	"testing"

	"ceiling/experiment/spec"
	"ceiling/record"
)

// The axes of a run of events or messages have their unit.
func TestRateIsInTheUnitOfTheRun(t *testing.T) {
	for _, kind := range []spec.LoadKind{spec.Requests, spec.Messages} {
		rows := []record.LoadRow{{TNs: 1e8, WidthNs: 1e8, Completed: 10}, {TNs: 2e8, WidthNs: 1e8, Completed: 20}}
		r := Run{Run: &record.Run{}, Series: &record.Series{Load: rows}}
		r.Spec.Kind = kind
		p, ok := Rate([]Run{r}, 100)
		if !ok || p.Y.Name != kind.Many()+"/s" || !strings.HasPrefix(strings.ToLower(p.Says), kind.Many()+" per second") {
			t.Errorf("%s: %q, %q", kind, p.Y.Name, p.Says)
		}
	}
}
