package planted

import (
	"context"
	"errors"
	"net/http"
	"sync"
)

// servePause stops all requests for a while once in a period, as a collector of
// garbage does that stops the world. Nothing runs meanwhile.
func servePause(ctx context.Context, p *Params, ready func(string)) error {
	if p.Period <= p.Sleep {
		return errors.New("the period has to be longer than the sleep")
	}
	a, err := newAlarm()
	if err != nil {
		return err
	}
	var world sync.RWMutex
	ctx, stop := context.WithCancel(ctx)
	ended := make(chan struct{})
	go func() {
		defer close(ended)
		for a.wait(p.Period-p.Sleep) == nil && ctx.Err() == nil {
			world.Lock()
			err := a.wait(p.Sleep)
			world.Unlock()
			if err != nil {
				return
			}
		}
	}()
	defer func() {
		stop()
		_ = a.close()
		<-ended
	}()
	return serveHTTP(ctx, p, ready, func(w http.ResponseWriter, _ *http.Request) {
		world.RLock()
		burn(p.CPU)
		world.RUnlock()
		ok(w)
	})
}
