package planted

import (
	"context"
	"net/http"
	"runtime"
	"sync"
	"time"

	"ceiling/internal/sys"
)

// serveCPU burns CPU on the connection's goroutine: work that spreads over all cores.
func serveCPU(ctx context.Context, p *Params, ready func(string)) error {
	return serveHTTP(ctx, p, ready, func(w http.ResponseWriter, _ *http.Request) {
		burn(p.CPU)
		ok(w)
	})
}

// serveThread does the work of all requests on a single thread. The others read and write the
// sockets, so requests wait inside the process.
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

// workAlone is the single thread: it ends with ctx, after finishing its current work.
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

// burn spends CPU time of the calling thread, by the thread's own clock: time waiting for a CPU,
// and steal (which a paravirtual kernel excludes from that clock), do not count. It overshoots by
// one round, at most 2 µs.
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

// round is about a microsecond of work that accesses no memory.
func round(end int64) uint64 {
	x := uint64(end) | 1
	for range 600 {
		x ^= x << 13
		x ^= x >> 7
		x ^= x << 17
	}
	return x
}

// serveNeighbour burns CPU until ctx ends. It has no address; it calls ready with the number of
// burning threads.
func serveNeighbour(ctx context.Context, p *Params, ready func(string)) error {
	// One more thread, for the goroutine that waits for the end.
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
