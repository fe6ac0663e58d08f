package spec

import (
	"testing"
	"time"

	"ceiling/internal/unit"
)

// TestLone: requests one at a time belong to a closed loop with a warm-up, and
// take a bounded part of its time.
func TestLone(t *testing.T) {
	rate := unit.Rate{From: unit.Frequency{Count: 1, PerNs: 1}, To: unit.Frequency{Count: 1, PerNs: 1}}
	for _, k := range []struct {
		of   Spec
		want time.Duration
	}{
		{Spec{}, 0},
		{Spec{Warmup: 400 * time.Millisecond}, 100 * time.Millisecond},
		{Spec{Warmup: time.Hour}, LoneMost},
		{Spec{Warmup: time.Second, Settings: Settings{NoLone: true}}, 0},
		{Spec{Warmup: time.Second, Condition: Condition{Rate: rate}}, 0},
	} {
		if got := k.of.Unloaded(); got != k.want {
			t.Errorf("%+v: %v, want %v", k.of, got, k.want)
		}
	}
	e := Experiment{Servers: []Server{{URL: "http://127.0.0.1:1"}}, Requests: []Mix{{MixRequest: MixRequest{Path: "/"}}},
		Load: Load{Settings: Settings{NoLone: true}}}
	if s, err := e.Spec("http://127.0.0.1:1", 0, &Condition{Connections: 1, Pipelining: 1}); err != nil || !s.NoLone {
		t.Errorf("of an experiment: %v, %v", s.NoLone, err)
	}
}
