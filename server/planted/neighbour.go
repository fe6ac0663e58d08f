package planted

import (
	"context"
	"runtime"
	"sync"
	"time"
)

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
