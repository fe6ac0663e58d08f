//go:build linux

package run

import (
	"fmt"
	"math"
	"math/rand/v2"
	"net"
	"net/http"
	"os"
	"strings"
	"sync"
	"testing"
	"time"

	"ceiling/internal/needs"
	"ceiling/record"
	"ceiling/verdict/prose"
)

// waits are servers whose requests wait for what is known, by name; each makes
// the wait of one server.
func waits() map[string]func() func() {
	const ms = time.Millisecond
	return map[string]func() func(){
		// 19 of 20 take 3 ms, one takes 100 times as long: nothing is shared.
		"tail": func() func() {
			return func() {
				if rand.IntN(20) == 0 {
					time.Sleep(300 * ms)
				} else {
					time.Sleep(3 * ms)
				}
			}
		},
		"nothing": func() func() { return func() { time.Sleep(10 * ms) } },
		"lock": func() func() {
			var lock sync.Mutex
			return func() {
				lock.Lock()
				time.Sleep(5 * ms)
				lock.Unlock()
			}
		},
		"pool":    func() func() { return places(5, 10*ms) },
		"workers": func() func() { return places(40, 40*ms) },
		// A pool that gives a place to whom came last, as some do.
		"last come": func() func() {
			var lock sync.Mutex
			free, stack := 5, []chan struct{}(nil)
			return func() {
				lock.Lock()
				if free == 0 {
					turn := make(chan struct{})
					stack = append(stack, turn)
					lock.Unlock()
					<-turn
				} else {
					free--
					lock.Unlock()
				}
				time.Sleep(10 * ms)
				lock.Lock()
				if n := len(stack); n > 0 {
					close(stack[n-1])
					stack = stack[:n-1]
				} else {
					free++
				}
				lock.Unlock()
			}
		},
	}
}

// places are n of which a request keeps one for a time.
func places(n int, held time.Duration) func() {
	free := make(chan struct{}, n)
	return func() {
		free <- struct{}{}
		time.Sleep(held)
		<-free
	}
}

// serveWaits makes this process one of them, until it is ended.
func serveWaits(kind string) {
	wait := waits()[kind]()
	l, err := net.Listen("tcp", "127.0.0.1:0")
	if err == nil {
		fmt.Printf("%s serves on %s\n", kind, l.Addr())
		err = http.Serve(l, http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) {
			wait()
			fmt.Fprint(w, "ok")
		}))
	}
	fmt.Fprintln(os.Stderr, err)
	os.Exit(1)
}

// TestLittleOfShortRuns: a closed loop of a heavy tail is never void by Little's
// law, however short; that the edges of its windows weigh far more than the
// tolerance is what makes it a test.
func TestLittleOfShortRuns(t *testing.T) {
	needs.Quiet(t)
	c := startAs(t, "RUN_TEST_WAITS", "tail")
	apart := 0
	for range 20 {
		s := specOf(c.Addr, "/")
		s.Connections, s.Duration = 64, 100*time.Millisecond
		r := &do(t, s).Run
		if strings.Contains(prose.Sentence(r.Verdict.Because), "Little's law") || r.Edges == nil {
			t.Fatalf("%s: %s (edges %+v)", r.Verdict.Outcome, r.Verdict.Because, r.Edges)
		}
		if r.Verdict.Outcome == record.Invalid || r.Requests.Completed == 0 {
			continue // for want of answers, which is its own reason
		}
		if n := r.Rate.CompletedPerS * r.Latency.Response.MeanNs / 1e9; n < 0.9*64 || n > 1.1*64 {
			apart++
		}
	}
	if apart < 5 {
		t.Errorf("the rate times the mean was apart from the slots in %d of 20 runs", apart)
	}
}

// TestLoneTellsQueues: on servers whose waits are known, what an unloaded request takes
// tells how many requests are served at a time, whatever the queue's order, and
// where none waits for another it does not say so. Twice the connections are the
// proof: they give twice the rate, or the same. On a machine that others fill it
// may be undecided, never wrong.
func TestLoneTellsQueues(t *testing.T) {
	needs.Quiet(t)
	for _, k := range []struct {
		kind        string
		connections int
		at          float64
		ceiling     record.Bottleneck
		says        string
	}{
		{"pool", 64, 5, record.ServerBlocked, "effective concurrency about 5 "},
		{"last come", 64, 5, record.ServerBlocked, "effective concurrency about 5 "},
		{"lock", 64, 1, record.ServerBlocked, "effective concurrency about 1 "},
		{"workers", 160, 40, record.ServerBlocked, "effective concurrency about "},
		{"nothing", 16, 16, record.Concurrency, "an unloaded request takes about as long"},
		{"tail", 64, 64, record.Concurrency, ""},
	} {
		t.Run(k.kind, func(t *testing.T) {
			c := startAs(t, "RUN_TEST_WAITS", k.kind)
			s := specOf(c.Addr, "/")
			s.Connections, s.Duration, s.Warmup, s.Timeout = k.connections, 1500*time.Millisecond, 800*time.Millisecond, 10*time.Second
			once := &do(t, s).Run
			s.Connections, s.NoLone, s.Warmup = 2*k.connections, true, 400*time.Millisecond
			twice := &do(t, s).Run
			v, a := &once.Verdict, once.Verdict.Concurrency
			if a == nil {
				t.Fatalf("nothing of unloaded requests in %s", v.Because)
			}
			t.Logf("%s: %s; %.3g (%.3g to %.3g) at a time; %.0f and %.0f /s; others had %.2g and %.2g cores",
				v.Bottleneck, v.Because, a.Requests, a.Low, a.High, once.Rate.CompletedPerS, twice.Rate.CompletedPerS, v.OtherCores,
				twice.Verdict.OtherCores)
			wrong, means := record.ServerBlocked, record.EachItsTime
			if k.ceiling == record.ServerBlocked {
				wrong, means = record.Concurrency, record.InTurn
			}
			if v.Bottleneck == wrong || a.Means != "" && a.Means != means {
				t.Errorf("%s (%s): %s", v.Bottleneck, a.Means, v.Because)
			}
			if v.OtherCores > 0.3 || twice.Verdict.OtherCores > 0.3 {
				return
			}
			if k.kind == "tail" && v.Bottleneck == record.Inconclusive && a.Low == 0 {
				return // the few unloaded requests met the tail, or did not: they say nothing, and the verdict says so
			}
			if v.Bottleneck != k.ceiling || !strings.Contains(prose.Sentence(v.Because), k.says) {
				t.Errorf("%s: %s", v.Bottleneck, v.Because)
			}
			if k.kind != "tail" && math.Abs(a.Requests-k.at) > 0.2*k.at { // of a tail a few requests have no mean
				t.Errorf("%.3g at a time, %v planted", a.Requests, k.at)
			}
			if grew := twice.Rate.CompletedPerS / once.Rate.CompletedPerS; grew > 1.5 != (k.ceiling == record.Concurrency) {
				t.Errorf("twice the connections gave %.2f times the rate", grew)
			}
		})
	}
}
