package planted

import (
	"context"
	"net/http"
	"sync/atomic"
	"time"
)

// serveTail has every n-th request wait before it works, so that the quantiles
// beyond 1 - 1/n are the wait's and those below are not. The share is exact.
//
// The timer is Go's, late by up to 1 ms; waits of some 20 ms do not mind, and a
// timerfd for every request that may wait at once would be thousands.
func serveTail(ctx context.Context, p *Params, ready func(string)) error {
	var count atomic.Int64
	return serveHTTP(ctx, p, ready, func(w http.ResponseWriter, r *http.Request) {
		if count.Add(1)%int64(p.Every) == 0 {
			t := time.NewTimer(p.Sleep)
			defer t.Stop()
			select {
			case <-t.C:
			case <-r.Context().Done():
				return
			}
		}
		burn(p.CPU)
		ok(w)
	})
}
