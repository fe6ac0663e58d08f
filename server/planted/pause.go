package planted

import (
	"context"
	"errors"
	"net/http"
	"sync"
	"sync/atomic"
	"time"

	"ceiling/internal/sys"
)

// servePause stops all requests once per period, like a stop-the-world garbage collector. Nothing
// runs in the pause.
func servePause(ctx context.Context, p *Params, ready func(string)) error {
	if p.Period <= p.Sleep {
		return errors.New("the period has to be longer than the sleep")
	}
	a, err := sys.NewAlarm()
	if err != nil {
		return err
	}
	var world sync.RWMutex
	ctx, stop := context.WithCancel(ctx)
	ended := make(chan struct{})
	go func() {
		defer close(ended)
		for a.Wait(p.Period-p.Sleep) == nil && ctx.Err() == nil {
			world.Lock()
			err := a.Wait(p.Sleep)
			world.Unlock()
			if err != nil {
				return
			}
		}
	}()
	defer func() {
		stop()
		a.Close()
		<-ended
	}()
	return serveHTTP(ctx, p, ready, func(w http.ResponseWriter, _ *http.Request) {
		world.RLock()
		burn(p.CPU)
		world.RUnlock()
		ok(w)
	})
}

// serveTail makes every n-th request wait before it works, so that the wait determines the
// quantiles beyond 1 - 1/n and no others. The share is exact.
//
// It uses Go's timer, up to 1 ms late, which is acceptable for waits of about 20 ms; a timerfd
// for every concurrently waiting request would mean thousands.
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
