package planted

import (
	"context"
	"net/http"
	"sync"
	"sync/atomic"
	"time"
)

// keptBytes is what each request leaves behind for good.
const keptBytes = 4 << 10

// serveGrows slows down with every request: each costs as much again as the
// first for every n before it, as one does that looks through all that came
// before, and keeps 4 KB for good.
func serveGrows(ctx context.Context, p *Params, ready func(string)) error {
	var served atomic.Int64
	var mu sync.Mutex
	var kept [][]byte
	return serveHTTP(ctx, p, ready, func(w http.ResponseWriter, _ *http.Request) {
		before := served.Add(1) - 1
		burn(p.CPU + time.Duration(float64(p.CPU)*float64(before)/float64(p.N)))
		page := make([]byte, keptBytes)
		for i := range page {
			page[i] = 1 // it takes memory only when it is written
		}
		mu.Lock()
		kept = append(kept, page)
		mu.Unlock()
		ok(w)
	})
}
