package planted

import (
	"context"
	"net/http"
	"runtime"
	"time"
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
