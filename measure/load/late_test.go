package load

import (
	"testing"
	"time"

	"ceiling/internal/faultserver"
)

// TestSentAfterTheWindow: a worker that gets no CPU until its window is over sends
// what was due then, and the rows add up all the same (balancedRows).
func TestSentAfterTheWindow(t *testing.T) {
	bothAtOnce(t, func(t *testing.T, engine string) {
		for _, long := range []time.Duration{time.Nanosecond, time.Microsecond, 20 * time.Microsecond, 100 * time.Microsecond, time.Millisecond} {
			c := config(t, serve(t, faultserver.Every(faultserver.Stall())), engine, 0)
			c.Rate, c.Duration, c.Drain, c.Interval = perS(1e9), long, 20*time.Millisecond, 50*time.Millisecond
			if r := runs(t, c); r.Total.Sent+r.Unsent != r.Asked {
				t.Errorf("%v: sent %d, unsent %d of %d", long, r.Total.Sent, r.Unsent, r.Asked)
			}
		}
	})
}
