package record

import (
	"testing"

	"ceiling/experiment/spec"
)

// TestSweepInOneRow: the row has the rate that the answer has, of a point that counts; and not the response
// times of one that counts for its rate alone.
func TestSweepInOneRow(t *testing.T) {
	q := Quantiles{Count: 9, P50Ns: 1e6, P99Ns: 2e6, MeanNs: 1e6}
	at := func(perS, target float64, outcome Outcome, of Bottleneck) CurvePoint {
		return CurvePoint{X: 1, Condition: spec.Condition{Connections: 1}, PerS: Estimate{Mid: perS}, TargetPerS: target, Outcome: outcome,
			Bottleneck: of, Response: q}
	}
	met, slow := at(800, 800, Valid, TargetRate), at(700, 0, Valid, ServerCPU)
	slow.Response.MeanNs = 1e3 // of one request at a time: the others are missing
	for name, c := range map[string]struct {
		points []CurvePoint
		want   Summary
	}{
		"invalid above":    {[]CurvePoint{met, at(1400, 1600, Invalid, Inconclusive)}, Summary{800, 2e6, false, Valid, ServerCPU, ""}},
		"rate not reached": {[]CurvePoint{met, at(900, 1600, Invalid, ServerCPU)}, Summary{CompletedPerS: 900, Outcome: Valid, Bottleneck: ServerCPU}},
		"bound":            {[]CurvePoint{slow}, Summary{700, 2e6, true, Valid, ServerCPU, ""}},
		"all invalid":      {[]CurvePoint{at(1400, 1600, Invalid, Inconclusive)}, Summary{Outcome: Invalid, Bottleneck: ServerCPU}},
	} {
		s := &Sweep{Curves: []Curve{{Points: c.points, Bottleneck: ServerCPU}}}
		if got := s.Summary(); got != c.want {
			t.Errorf("%s: %+v, want %+v", name, got, c.want)
		}
	}
}
