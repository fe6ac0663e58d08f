package live

import (
	"context"
	"time"

	"ceiling/internal/sys"
)

const (
	// formEvery is how often a verdict is formed at most.
	formEvery = time.Second
	// formShare of one core is what forming may take: a dear one comes seldom.
	formShare = 0.002
)

// Keep forms a verdict again and again while somebody looks, until ctx is done.
// It takes at most 0.2 % of one core.
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
			pause = max(pause, time.Duration(float64(cost)/formShare))
		}
		timer.Reset(pause)
	}
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
