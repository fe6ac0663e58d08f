package observe

import (
	"context"
	"testing"
	"time"

	"ceiling/record"
)

// However seldom counters are read, they are read when the window ends: at the
// time that was given, or when the observing ends.
func TestCountersAreReadAtTheEndOfTheWindow(t *testing.T) {
	const window = 300 * time.Millisecond
	for _, known := range []bool{true, false} {
		cfg := Config{Interval: 10 * time.Second}
		long := window
		if known {
			cfg.Window, long = window, 2*window
		}
		o := newObserver(t, cfg)
		ctx, cancel := context.WithTimeout(t.Context(), long)
		began := time.Now()
		var cpu []record.ObservedHead
		o.Run(ctx, func() int64 { return int64(time.Since(began)) }, func(row record.ObservedRow) {
			if row.Observed().Kind == record.KindCPU {
				cpu = append(cpu, *row.Observed())
			}
		})
		cancel()
		if len(cpu) != 1 || cpu[0].TNs < int64(window) || cpu[0].TNs-cpu[0].WidthNs > int64(window)/2 {
			t.Errorf("window known: %v: rows %+v, want one that ends with it, at %v", known, cpu, window)
		}
	}
}
