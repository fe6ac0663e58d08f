package planted

import (
	"context"
	"errors"
	"net/http"
	"sync"
	"time"

	"ceiling/internal/sys"
)

// serveMutex has every request take one lock and keep it: asleep, as over a
// slow call, or at work, which uses one core but any thread.
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

// reply says what went wrong where something did: a wait that was cut short
// must not pass for one that was not.
func reply(w http.ResponseWriter, err error) {
	if err != nil {
		http.Error(w, err.Error(), http.StatusInternalServerError)
		return
	}
	ok(w)
}

// servePool has n places.
func servePool(ctx context.Context, p *Params, ready func(string)) error {
	places, err := newAlarms(p.N)
	if err != nil {
		return err
	}
	defer closeAlarms(places)
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

// serveSleep has as many places as there are requests: nothing is scarce, each
// takes its time. Go's timers do: 1 ms late is little beside what is slept.
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
