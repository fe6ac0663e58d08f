package planted

import (
	"runtime"
	"time"

	"ceiling/internal/sys"
)

// burn spends CPU time of the calling thread, by the thread's own clock: what
// the thread waits for a CPU meanwhile, and what the hypervisor takes away
// (which that clock of a paravirtual kernel leaves out), does not count. It
// overshoots by one round, 2 µs at most.
func burn(d time.Duration) {
	if d <= 0 {
		return
	}
	runtime.LockOSThread() // the clock is the thread's: stay on it
	defer runtime.UnlockOSThread()
	for end := sys.ThreadCPUNs() + int64(d); sys.ThreadCPUNs() < end; {
		runtime.KeepAlive(round(end))
	}
}

// round is about a microsecond of work that touches no memory.
func round(end int64) uint64 {
	x := uint64(end) | 1
	for range 600 {
		x ^= x << 13
		x ^= x >> 7
		x ^= x << 17
	}
	return x
}
