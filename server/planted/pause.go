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

// servePause stops all requests for a while once in a period, as a collector of
// garbage does that stops the world. Nothing runs meanwhile.
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
