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

func TestDatabaseIsALine(t *testing.T) {
	d := Database{Product: "SQLite 3", Settings: []DatabaseSetting{{"journal_mode", "wal"}, {"synchronous", "FULL"}}}
	if got := d.String(); got != "SQLite 3: journal_mode wal, synchronous FULL" {
		t.Error(got)
	}
	d.Use = &DatabaseUse{Pool: 4, Cached: true}
	if got := d.String(); got != "SQLite 3, pool of 4, statements not prepared, rows cached: journal_mode wal, synchronous FULL" {
		t.Error(got)
	}
	if got := d.Brief(); got != "SQLite 3, pool of 4, statements not prepared, rows cached" {
		t.Error(got)
	}
	if s := (&Downstream{Slots: 4, WorkNs: 1e7}); s.CapacityPerS() != 400 || (*Downstream)(nil).CapacityPerS() != 0 {
		t.Error(s.CapacityPerS())
	}
}

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
