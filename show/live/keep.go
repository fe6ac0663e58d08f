package live

import (
	"context"
	"runtime/metrics"
	"time"

	"ceiling/internal/sys"
)

const (
	// formEvery is how often a verdict is formed at most, and formPart the part
	// of what it stands on that has to be new: what it takes grows with that too
	// (0.25 ms of CPU a second of it), so forming takes 0.13 % of one core.
	formEvery = time.Second
	formPart  = 5
	// formShare of one core is what it takes at most, where it is dearer.
	formShare = 0.002
)

// Keep forms a verdict again and again while somebody looks, until ctx is done.
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

// stoodOn is how much of the run the last verdict stands on.
func (b *Board) stoodOn() time.Duration {
	b.mu.Lock()
	defer b.mu.Unlock()
	if b.formed == nil {
		return 0
	}
	return time.Duration(b.formed.OverS * float64(time.Second))
}

// CollectedNs is the CPU time that marking for the garbage collection of the
// whole program has taken, nanoseconds, as of the last one. The load engine
// leaves no garbage, so most of it is the view's and the observers'. The runtime
// reckons it by the wall clock: on a busy machine it is too large.
func CollectedNs() int64 {
	samples := []metrics.Sample{{Name: "/cpu/classes/gc/mark/dedicated:cpu-seconds"}, {Name: "/cpu/classes/gc/mark/assist:cpu-seconds"}}
	metrics.Read(samples)
	sum := 0.0
	for _, s := range samples {
		if s.Value.Kind() == metrics.KindFloat64 { // else this runtime has no such figure
			sum += s.Value.Float64()
		}
	}
	return int64(sum * 1e9)
}

// CPUTime is the CPU time that f takes on its thread, nanoseconds. What f
// leaves to others (the garbage collector) is not in it.
func CPUTime(f func()) int64 {
	release := sys.HoldThread()
	defer release()
	before := sys.ThreadCPUNs()
	f()
	return sys.ThreadCPUNs() - before
}
