package planted

import (
	"context"
	"errors"
	"io"
	"net"
	"net/http"
	"sync"
	"sync/atomic"
	"time"
)

// answer is the response of every kind on net/http.
const answer = "planted\n"

func ok(w http.ResponseWriter) {
	_, _ = io.WriteString(w, answer) // a client that has disconnected needs no response
}

// serveHTTP serves a free or given port with h until ctx ends. No connection is open when it
// returns.
func serveHTTP(ctx context.Context, p *Params, ready func(string), h http.HandlerFunc) error {
	ln, err := listen(ctx, p.Addr, nil)
	if err != nil {
		return err
	}
	if p.Pprof {
		defer recordWaits()()
		h = withProfiles(h)
	}
	return serveOn(ctx, ln, func() { ready(ln.Addr().String()) }, h)
}

// serveOn is serveHTTP on a listener, which it closes.
func serveOn(ctx context.Context, ln net.Listener, ready func(), h http.HandlerFunc) error {
	return serveAs(ctx, &http.Server{Handler: h}, ln, ready)
}

func serveAs(ctx context.Context, s *http.Server, ln net.Listener, ready func()) error {
	ended := make(chan error, 1)
	go func() { ended <- s.Serve(ln) }()
	ready()
	var err error
	select {
	case <-ctx.Done():
		err = s.Close()
		<-ended
	case err = <-ended:
		err = errors.Join(err, s.Close())
	}
	if errors.Is(err, net.ErrClosed) || errors.Is(err, http.ErrServerClosed) {
		return nil
	}
	return err
}

// keptBytes is the memory that each request leaks.
const keptBytes = 4 << 10

// serveGrows slows down with every request: each costs the first's CPU again for every n requests
// before it, as if it scanned all previous ones, and leaks 4 KB.
func serveGrows(ctx context.Context, p *Params, ready func(string)) error {
	var served atomic.Int64
	var mu sync.Mutex
	var kept [][]byte
	return serveHTTP(ctx, p, ready, func(w http.ResponseWriter, _ *http.Request) {
		before := served.Add(1) - 1
		burn(p.CPU + time.Duration(float64(p.CPU)*float64(before)/float64(p.N)))
		page := make([]byte, keptBytes)
		for i := range page {
			page[i] = 1 // uses memory only once written
		}
		mu.Lock()
		kept = append(kept, page)
		mu.Unlock()
		ok(w)
	})
}
