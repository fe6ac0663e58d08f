package quorum

import (
	"slices"
	"testing"
	"time"

	"ceiling/internal/needs"
)

// A delay costs a write one round trip, and not two; a replica that nobody waits for costs none. Every commit takes two delays at
// least, whatever else the machine does, and the one in the middle less than four.
func TestDelayIsOneRoundTrip(t *testing.T) {
	needs.Quiet(t)
	t.Parallel()
	const delay = 25 * time.Millisecond
	for _, test := range []struct {
		name, options string
		trips         int
	}{
		{"a quorum of three", "replicas=3,delay=25ms,net=loopback", 1},
		{"a mirror", "mirror=yes,delay=25ms,net=loopback", 0},
	} {
		t.Run(test.name, func(t *testing.T) {
			t.Parallel()
			b := started(t, test.options)
			until(t, "the leader is known", func() bool { b.look(); return b.lead.changes.Load() > 0 || b.lead.at.Load() == 0 })
			for name, do := range map[string]func() error{
				"write": func() error { _, err := b.Put(t.Context(), Any(1), nil); return err },
				"read":  func() error { _, err := b.Get(t.Context(), Any(1)); return err },
			} {
				var took []time.Duration
				for range 15 {
					begun := time.Now()
					if err := do(); err != nil {
						t.Fatal(err)
					}
					took = append(took, time.Since(begun))
				}
				slices.Sort(took)
				least, median := took[0], took[len(took)/2]
				trip := time.Duration(2*test.trips) * delay
				if least < trip || median >= trip+2*delay {
					t.Errorf("a %s takes %v at least and %v in the middle; a round trip is %v, and %d are wanted", name, least, median, 2*delay, test.trips)
				}
				t.Logf("%s: %v at least, %v in the middle", name, least, median)
			}
		})
	}
}
