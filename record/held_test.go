package record

import (
	"testing"

	"ceiling/experiment/spec"
)

// TestHeld: where rate × mean leaves more than a tenth of a closed loop's requests out, the times are lower bounds.
func TestHeld(t *testing.T) {
	point := func(perS, meanNs, target float64) *CurvePoint {
		return &CurvePoint{Condition: spec.Condition{Connections: 1000, Pipelining: 100}, TargetPerS: target, PerS: Estimate{Mid: perS},
			Response: Quantiles{Count: 9, MeanNs: meanNs}}
	}
	for _, c := range []struct {
		perS, meanNs, target, want float64
	}{{1e6, 1e8, 0, 0}, {1e6, 0.95e8, 0, 0}, {1e6, 0.7e8, 0, .5}, {1e6, 0.7e8, 1e6, 0}, {1e6, 0, 0, .5}} {
		if got := point(c.perS, c.meanNs, c.target).Held().BoundFrom; got != c.want {
			t.Errorf("%+v: bound from %v", c, got)
		}
	}
	if q := (&CurvePoint{Condition: spec.Condition{Connections: 9}}).Held(); q.BoundFrom != 0 {
		t.Error("nothing was measured, and has a bound")
	}
}
