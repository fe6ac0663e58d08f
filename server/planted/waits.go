package planted

import (
	"context"
	"errors"
	"net/http"
	"sync"
	"time"

	"ceiling/internal/sys"
)

// serveMutex makes every request take one lock and hold it: asleep, as during a slow call, or
// working, which uses one core but any thread.
func serveMutex(ctx context.Context, p *Params, ready func(string)) error {
	if (p.Sleep > 0) == (p.CPU > 0) {
		return errors.New("give sleep or cpu, one of them")
	}
	a, err := sys.NewAlarm()
	if err != nil {
		return err
	}
	defer a.Close()
	var lock sync.Mutex
	return serveHTTP(ctx, p, ready, func(w http.ResponseWriter, _ *http.Request) {
		lock.Lock()
		burn(p.CPU)
		err := a.Wait(p.Sleep)
		lock.Unlock()
		reply(w, err)
	})
}

// reply reports an error if there is one: an interrupted wait must not pass for a complete one.
func reply(w http.ResponseWriter, err error) {
	if err != nil {
		http.Error(w, err.Error(), http.StatusInternalServerError)
		return
	}
	ok(w)
}

// servePool has n places, each an alarm: a timer of Go's runtime would not hold for the configured time.
func servePool(ctx context.Context, p *Params, ready func(string)) error {
	places := make(chan sys.Alarm, p.N)
	for range p.N {
		a, err := sys.NewAlarm()
		if err != nil {
			return err
		}
		defer a.Close()
		places <- a
	}
	return serveHTTP(ctx, p, ready, func(w http.ResponseWriter, r *http.Request) {
		select {
		case a := <-places:
			err := a.Wait(p.Sleep)
			places <- a
			reply(w, err)
		case <-r.Context().Done():
		}
	})
}

// serveSleep has a place for every request: nothing is scarce, each takes its time. Go's timers
// are accurate enough: 1 ms late is little compared with the sleep.
func serveSleep(ctx context.Context, p *Params, ready func(string)) error {
	return serveHTTP(ctx, p, ready, func(w http.ResponseWriter, r *http.Request) {
		t := time.NewTimer(p.Sleep)
		defer t.Stop()
		select {
		case <-t.C:
			ok(w)
		case <-r.Context().Done():
		}
	})
}
