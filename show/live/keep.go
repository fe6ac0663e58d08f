package live

import (
	"context"
	"runtime/metrics"
	"time"

	"ceiling/internal/sys"
)

const (
	// formEvery is the shortest interval between two verdicts, and formPart the share of their
	// data that must be new: the cost grows with the data (0.25 ms of CPU per second of it), so
	// forming takes 0.13 % of one core.
	formEvery = time.Second
	formPart  = 5
	// formShare caps the cost, as a share of one core, on slower machines.
	formShare = 0.002
)

// Keep forms verdicts while there are viewers, until ctx is done.
func (b *Board) Keep(ctx context.Context) {
	timer := time.NewTimer(formEvery)
	defer timer.Stop()
	for {
		select {
		case <-ctx.Done():
			return
		case <-timer.C:
		}
		pause := formEvery
		if b.Lookers() > 0 {
			cost := CPUTime(func() { b.Form() })
			b.Spent(cost)
			pause = max(pause, time.Duration(float64(cost)/formShare), b.stoodOn()/formPart)
		}
		timer.Reset(pause)
	}
}

// stoodOn returns how much of the run the last verdict covers.
func (b *Board) stoodOn() time.Duration {
	b.mu.Lock()
	defer b.mu.Unlock()
	if b.formed == nil {
		return 0
	}
	return time.Duration(b.formed.ElapsedS * float64(time.Second))
}

// CollectedNs returns the whole program's CPU time for garbage collection marking, in
// nanoseconds, as of the last collection. The load engine creates no garbage, so most of it
// belongs to the view and the observers. The runtime derives it from the wall clock: on a busy
// machine it is too high.
func CollectedNs() int64 {
	samples := []metrics.Sample{{Name: "/cpu/classes/gc/mark/dedicated:cpu-seconds"}, {Name: "/cpu/classes/gc/mark/assist:cpu-seconds"}}
	metrics.Read(samples)
	sum := 0.0
	for _, s := range samples {
		if s.Value.Kind() == metrics.KindFloat64 { // otherwise this runtime lacks the figure
			sum += s.Value.Float64()
		}
	}
	return int64(sum * 1e9)
}

// CPUTime returns the CPU time of f on its thread, in nanoseconds. It excludes work on other
// threads (the garbage collector).
func CPUTime(f func()) int64 {
	release := sys.HoldThread()
	defer release()
	before := sys.ThreadCPUNs()
	f()
	return sys.ThreadCPUNs() - before
}
