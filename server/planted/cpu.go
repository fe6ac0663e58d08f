package planted

import (
	"context"
	"net/http"
	"runtime"
	"sync"
	"time"

	"ceiling/internal/sys"
)

// serveCPU burns on the goroutine of the connection: work that spreads over
// all cores.
func serveCPU(ctx context.Context, p *Params, ready func(string)) error {
	return serveHTTP(ctx, p, ready, func(w http.ResponseWriter, _ *http.Request) {
		burn(p.CPU)
		ok(w)
	})
}

// serveThread has one thread do the work of all requests. The others read and
// write the sockets, so requests wait inside the process.
func serveThread(ctx context.Context, p *Params, ready func(string)) error {
	ctx, stop := context.WithCancel(ctx)
	defer stop()
	work := make(chan chan struct{})
	ended := make(chan struct{})
	go func() {
		defer close(ended)
		workAlone(ctx, p.CPU, work)
	}()
	defer func() {
		stop()
		<-ended
	}()
	return serveHTTP(ctx, p, ready, func(w http.ResponseWriter, r *http.Request) {
		done := make(chan struct{})
		select {
		case work <- done:
			<-done
			ok(w)
		case <-r.Context().Done():
		case <-ctx.Done():
		}
	})
}

// workAlone is the one thread: it ends with ctx, once it has done what it took.
func workAlone(ctx context.Context, cpu time.Duration, work <-chan chan struct{}) {
	runtime.LockOSThread()
	defer runtime.UnlockOSThread()
	for {
		select {
		case done := <-work:
			burn(cpu)
			close(done)
		case <-ctx.Done():
			return
		}
	}
}

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

// serveNeighbour burns until ctx ends. It has no address; what it calls ready
// with says how many threads burn.
func serveNeighbour(ctx context.Context, p *Params, ready func(string)) error {
	// One more than burn, for who waits for the end.
	defer runtime.GOMAXPROCS(runtime.GOMAXPROCS(p.N + 1))
	var threads sync.WaitGroup
	for range p.N {
		threads.Go(func() {
			for ctx.Err() == nil {
				burn(time.Millisecond)
			}
		})
	}
	ready("nobody")
	threads.Wait()
	return nil
}
