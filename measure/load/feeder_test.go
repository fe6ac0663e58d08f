//go:build linux

package load

import (
	"context"
	"errors"
	"fmt"
	"net"
	"net/http"
	"net/http/httptest"
	"strings"
	"sync"
	"testing"
	"time"

	"ceiling/internal/needs"
)

// numbers is a source whose requests are numbered, from a start in steps.
type numbers struct {
	at, step int
	delay    time.Duration
	fails    int // from this number on; 0: never
	pause    time.Duration
	seen     func(Answer)
}

func (n *numbers) Next(answers []Answer, count int) (list []Composed, err error) {
	for _, a := range answers {
		n.seen(a)
	}
	time.Sleep(n.pause)
	for range count {
		if n.fails > 0 && n.at >= n.fails {
			return list, errors.New("the script says no")
		}
		list = append(list, Composed{Bytes: fmt.Appendf(nil, "GET /%d HTTP/1.1\r\nHost: x\r\n\r\n", n.at), Delay: n.delay})
		n.at += n.step
	}
	return list, nil
}

func (n *numbers) Interrupt()   {}
func (n *numbers) Close() error { return nil }

// asked is a server that counts the paths it is asked for.
type asked struct {
	*httptest.Server
	mu    sync.Mutex
	paths map[string]int
}

func serveAsked(t *testing.T, most int) *asked {
	t.Helper()
	a := &asked{paths: map[string]int{}}
	served := map[net.Conn]int{}
	a.Server = httptest.NewUnstartedServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		a.mu.Lock()
		defer a.mu.Unlock()
		a.paths[r.URL.Path]++
		conn := r.Context().Value(connKey{}).(net.Conn)
		if served[conn]++; most > 0 && served[conn] == most {
			w.Header().Set("Connection", "close")
		}
		fmt.Fprintln(w, "you asked for", r.URL.Path)
	}))
	a.Config.ConnContext = func(ctx context.Context, c net.Conn) context.Context {
		return context.WithValue(ctx, connKey{}, c)
	}
	a.Start()
	t.Cleanup(a.Close)
	return a
}

type connKey struct{}

func fed(t *testing.T, a *asked, engine string, requests uint64, source func(worker int) *numbers) Config {
	t.Helper()
	return Config{
		To: addressOf(t, a.Listener.Addr().String()), Connections: 4, Threads: 2, Pipelining: 1, Requests: requests,
		Timeout: 10 * time.Second, Engine: engine, Seed: 1, Mix: []Request{{Weight: 1, Compose: &Composing{
			New: func(worker int) (Source, error) { return source(worker), nil }, Ahead: 16,
		}}},
	}
}

// TestComposedRequestsAreSentOnce: each request of a source leaves once and in its order, also where
// requests share a send, and where the server ends connections.
func TestComposedRequestsAreSentOnce(t *testing.T) {
	needs.Engine(t)
	each(t, func(t *testing.T, engine string) {
		for _, c := range []struct{ pipelining, closes, ahead int }{{1, 0, 16}, {1, 3, 16}, {8, 0, 16}, {8, 0, 0}, {8, 20, 64}, {1, 0, 0}} {
			a := serveAsked(t, c.closes)
			cfg := fed(t, a, engine, 600, func(worker int) *numbers { return &numbers{at: worker, step: 2} })
			cfg.Pipelining, cfg.Mix[0].Compose.Ahead = c.pipelining, c.ahead
			r := runs(t, cfg)
			if r.Total.Completed != 600 || r.Total.Failed != 0 || MergeCompose(r.Workers) == nil || MergeCompose(r.Workers).Requests < 600 {
				t.Errorf("%+v: %d completed, %d failed: %v; composed %+v", c, r.Total.Completed, r.Total.Failed, r.Total.Faults, MergeCompose(r.Workers))
			}
			for n := range 600 {
				if got := a.paths[fmt.Sprintf("/%d", n)]; got != 1 && (c.closes == 0 || got == 0) {
					t.Errorf("%+v: request %d was sent %d times", c, n, got)
				}
			}
		}
	})
}

// TestAnswersComeBack: a source sees every response, whole, before it makes the requests after it.
func TestAnswersComeBack(t *testing.T) {
	needs.Engine(t)
	each(t, func(t *testing.T, engine string) {
		a := serveAsked(t, 0)
		var mu sync.Mutex
		seen := map[string]int{}
		cfg := fed(t, a, engine, 200, func(worker int) *numbers {
			return &numbers{at: worker, step: 2, seen: func(answer Answer) {
				mu.Lock()
				defer mu.Unlock()
				_, body, _ := strings.Cut(string(answer.Bytes), "\r\n\r\n")
				seen[strings.TrimSpace(body)]++
			}}
		})
		cfg.Mix[0].Compose.Ahead, cfg.Mix[0].Compose.Answers = 0, true
		runs(t, cfg)
		if len(seen) < 190 { // those of the last requests may find the run over
			t.Errorf("%d responses of 200 came back", len(seen))
		}
		for body, n := range seen {
			if n != 1 || !strings.HasPrefix(body, "you asked for /") {
				t.Errorf("%q came back %d times", body, n)
			}
		}
	})
}

// TestDelaysAreNoResponseTime: what a source delays leaves later, and its delay does not count.
func TestDelaysAreNoResponseTime(t *testing.T) {
	needs.Engine(t)
	each(t, func(t *testing.T, engine string) {
		a := serveAsked(t, 0)
		cfg := fed(t, a, engine, 20, func(int) *numbers { return &numbers{step: 1, delay: 30 * time.Millisecond} })
		began := time.Now()
		r := runs(t, cfg)
		if took := time.Since(began); took < 150*time.Millisecond { // five for each of four connections
			t.Errorf("20 requests over 4 connections took %v", took)
		}
		if p50 := r.Total.Response.Quantile(0.5); r.Total.Completed != 20 || p50 > 20e6 {
			t.Errorf("%d completed, half of them within %d ns", r.Total.Completed, p50)
		}
	})
}

// TestASlowSourceIsSeen: what a source takes is lag of the requests, and reported.
func TestASlowSourceIsSeen(t *testing.T) {
	needs.Engine(t)
	each(t, func(t *testing.T, engine string) {
		a := serveAsked(t, 0)
		cfg := fed(t, a, engine, 20, func(int) *numbers { return &numbers{step: 1, pause: 20 * time.Millisecond} })
		cfg.Mix[0].Compose.Ahead = 0
		r := runs(t, cfg)
		if r.Total.Completed != 20 || MergeCompose(r.Workers).WaitedNs < 50e6 || r.Total.Lag.Max() < 15e6 {
			t.Errorf("%d completed, waited %d ns, lag up to %d ns", r.Total.Completed, MergeCompose(r.Workers).WaitedNs, r.Total.Lag.Max())
		}
	})
}

// TestASourceThatFails ends the run with its words.
func TestASourceThatFails(t *testing.T) {
	each(t, func(t *testing.T, engine string) {
		a := serveAsked(t, 0)
		cfg := fed(t, a, engine, 1000, func(int) *numbers { return &numbers{at: 1, step: 1, fails: 50} })
		w := &watcher{t: t, sum: newTally(1)}
		if _, err := Run(t.Context(), cfg, w); err == nil || !strings.Contains(err.Error(), "the script says no") {
			t.Errorf("%v", err)
		}
		cfg.Mix[0].Compose.New = func(int) (Source, error) { return nil, errors.New("no such script") }
		if _, err := Run(t.Context(), cfg, w); err == nil || !strings.Contains(err.Error(), "no such script") {
			t.Errorf("%v", err)
		}
	})
}
