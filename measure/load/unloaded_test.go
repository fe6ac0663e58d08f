//go:build linux

package load

import (
	"context"
	"sync/atomic"
	"testing"
	"time"

	"ceiling/internal/faultserver"
	"ceiling/internal/needs"
)

// crowd counts how many requests a server has at once.
type crowd struct {
	now, most, all atomic.Int64
}

// taking answers each request after a delay and counts them meanwhile.
func (k *crowd) taking(delay time.Duration) func(int) faultserver.Script {
	return faultserver.Every(faultserver.Loop(faultserver.Request(1), func(*faultserver.Conn) error {
		k.all.Add(1)
		for n := k.now.Add(1); ; {
			if most := k.most.Load(); n <= most || k.most.CompareAndSwap(most, n) {
				break
			}
		}
		time.Sleep(delay)
		k.now.Add(-1)
		return nil
	}, faultserver.Write(faultserver.OK("x"))))
}

// loneConfig is a closed loop with unloaded requests before it. The warm-up is long enough for a first
// response on every connection, also where two busy loops have the CPUs.
func loneConfig(t *testing.T, s *faultserver.Server, engine string) Config {
	c := config(t, s, engine, 0)
	c.Connections, c.Unloaded, c.Warmup, c.Duration = 8, 60*time.Millisecond, time.Second, 200*time.Millisecond
	return c
}

// TestLoneRequests: until the load begins the server never has two requests at
// once, whatever the loop is; none of them is in the run's figures; and their
// times are those of the server.
func TestLoneRequests(t *testing.T) {
	needs.Engine(t)
	for name, change := range map[string]func(*Config){
		"plain":           func(*Config) {},
		"one connection":  func(c *Config) { c.Connections, c.Threads = 1, 1 },
		"pipelining":      func(c *Config) { c.Pipelining = 7 },
		"mix":             func(c *Config) { c.Mix = mixOfTwo() },
		"new connections": func(c *Config) { c.NewConnections = 1 },
		"by number":       func(c *Config) { c.Requests, c.Duration = 100, 0 },
		"both":            func(c *Config) { c.Requests, c.Duration, c.NewConnections = 100, time.Minute, 1 },
	} {
		t.Run(name, func(t *testing.T) {
			eachAtOnce(t, func(t *testing.T, engine string) {
				const delay = 2 * time.Millisecond
				var k crowd
				s := serve(t, k.taking(delay))
				c := loneConfig(t, s, engine)
				change(&c)
				sent, before, most := uint64(0), int64(0), int64(0)
				w := &watcher{onRow: func(row *Tally) { sent += row.Sent }}
				began := make(chan time.Time, 1)
				c.Start, c.Ready = began, func(int, int) { before, most = k.all.Load(), k.most.Load(); began <- time.Now() }
				r := start(context.Background(), t, c, w)
				if r.Unloaded == nil {
					t.Fatal("no unloaded requests")
				}
				n := len(r.Unloaded.ServiceNs)
				if n < unloadedMin || n > unloadedMax || int64(n) != before || most != 1 || r.Unloaded.Failed != 0 || r.Unloaded.Bad != 0 {
					t.Errorf("%d unloaded requests, the server had %d, %d at once at most: %+v", n, before, most, r.Unloaded)
				}
				if want := min(loneConnections, c.Connections); c.NewConnections == 0 && r.Unloaded.Connections != want || c.NewConnections > 0 &&
					r.Unloaded.Connections != 1 {
					t.Errorf("over %d connections", r.Unloaded.Connections)
				}
				for i, ns := range r.Unloaded.ServiceNs {
					if ns < int64(delay) {
						t.Errorf("request %d took %v", i, time.Duration(ns))
					}
				}
				if r.Unloaded.ElapsedNs < int64(n)*int64(delay) || len(r.Setup) != 0 {
					t.Errorf("%d requests in %v; faults %v", n, time.Duration(r.Unloaded.ElapsedNs), r.Setup)
				}
				slots := uint64(c.Connections * c.Pipelining) // of these some are unread when the run ends
				if left := uint64(k.all.Load()) - uint64(n); c.NewConnections == 0 && (left > sent || left+slots < sent) {
					t.Errorf("the server had %d requests besides, the rows have %d", left, sent)
				}
				if c.Requests > 0 && (r.Total.Completed != c.Requests || r.Asked != c.Requests) {
					t.Errorf("%d of %d requests completed", r.Total.Completed, r.Asked)
				}
				if r.First == nil || r.First.Count() != uint64(c.Connections) || r.First.Min() < int64(delay) {
					t.Errorf("first answers: %d, the first after %d ns", r.First.Count(), r.First.Min())
				}
			})
		})
	}
}

// TestLoneNone: an open loop sends none, nor a run that does not ask, nor the
// second of two agents; the first does.
func TestLoneNone(t *testing.T) {
	needs.Engine(t)
	t.Parallel()
	s := serve(t, answering())
	c := loneConfig(t, s, "")
	c.Rate = perS(100)
	if r := runs(t, c); r.Unloaded != nil || r.First != nil {
		t.Errorf("open loop: %+v", r.Unloaded)
	}
	c = loneConfig(t, s, "")
	c.Unloaded = 0
	if r := runs(t, c); r.Unloaded != nil || r.First != nil {
		t.Errorf("not asked: %+v", r.Unloaded)
	}
	shares, err := Split([]int{1, 1})
	if err != nil {
		t.Fatal(err)
	}
	r := together(t, shares, loneConfig(t, s, ""))
	if r[0].Unloaded == nil || len(r[0].Unloaded.ServiceNs) < unloadedMin || r[1].Unloaded != nil ||
		r[0].First.Count()+r[1].First.Count() != 8 {
		t.Errorf("of two agents: %+v, %+v", r[0].Unloaded, r[1].Unloaded)
	}
}

// TestLoneSlow: a slow server gets as few as the time allows, and at least one.
func TestLoneSlow(t *testing.T) {
	needs.Engine(t)
	eachAtOnce(t, func(t *testing.T, engine string) {
		var k crowd
		c := loneConfig(t, serve(t, k.taking(250*time.Millisecond)), engine)
		if r := runs(t, c); len(r.Unloaded.ServiceNs) != 1 || r.Unloaded.ServiceNs[0] < 250e6 {
			t.Errorf("%+v", r.Unloaded)
		}
	})
}

// TestLoneFails: whatever the server does to an unloaded request, the load begins and
// what went wrong is said.
func TestLoneFails(t *testing.T) {
	needs.Engine(t)
	for name, script := range map[string]func(int) faultserver.Script{
		"silence":       faultserver.Every(faultserver.Request(1), faultserver.Stall()),
		"reset":         faultserver.Every(faultserver.Request(1), faultserver.Reset()),
		"nonsense":      faultserver.Every(faultserver.Loop(faultserver.Request(1), faultserver.Write("HTTP/1.1 nonsense\r\n\r\n"))),
		"closes unread": faultserver.Every(faultserver.Close()),
	} {
		t.Run(name, func(t *testing.T) {
			eachAtOnce(t, func(t *testing.T, engine string) {
				c := loneConfig(t, serve(t, script), engine)
				c.Timeout = 100 * time.Millisecond
				began := time.Now()
				r := runs(t, c)
				if r.Unloaded != nil && (len(r.Unloaded.ServiceNs) > 0 || r.Unloaded.Failed > 1) || r.Total.Completed > 0 {
					t.Errorf("%+v, %d completed", r.Unloaded, r.Total.Completed)
				}
				if name != "closes unread" && (r.Unloaded == nil || r.Unloaded.Failed != 1 || len(r.Setup) == 0) {
					t.Errorf("%+v, before the window %v", r.Unloaded, r.Setup)
				}
				if took := time.Since(began); took > 20*time.Second {
					t.Errorf("it took %v", took)
				}
			})
		})
	}
}

// TestLoneOneEach: a server that answers once on each connection gets its unloaded
// requests one after the other like any.
func TestLoneOneEach(t *testing.T) {
	needs.Engine(t)
	eachAtOnce(t, func(t *testing.T, engine string) {
		c := loneConfig(t, serve(t, faultserver.Every(faultserver.AnswerTimes(1, faultserver.OK("x")))), engine)
		if r := runs(t, c); len(r.Unloaded.ServiceNs) < unloadedMin || r.Unloaded.Failed > 0 || r.Total.Failed > 0 {
			t.Errorf("%+v, %d failed: %v", r.Unloaded, r.Total.Failed, r.Total.Faults)
		}
	})
}

// TestLoneEnds: a run that is interrupted while an unloaded request has no answer ends
// at once.
func TestLoneEnds(t *testing.T) {
	needs.Engine(t)
	eachAtOnce(t, func(t *testing.T, engine string) {
		s := serve(t, faultserver.Every(faultserver.Request(1), faultserver.Stall()))
		c := loneConfig(t, s, engine)
		ctx, cancel := context.WithCancel(context.Background())
		go func() {
			for s.Requests() == 0 && t.Context().Err() == nil {
				time.Sleep(time.Millisecond)
			}
			cancel()
		}()
		began := time.Now()
		r := start(ctx, t, c, &watcher{})
		if !r.Interrupted || r.Unloaded == nil || r.Total.Sent > 0 || time.Since(began) > c.Timeout {
			t.Errorf("after %v: %+v", time.Since(began), r.Unloaded)
		}
	})
}

// TestLoneRest: of each unloaded request it is known how long the rest of its response took, after its
// first bytes; what arrives on another connection does not count.
func TestLoneRest(t *testing.T) {
	needs.Engine(t)
	eachAtOnce(t, func(t *testing.T, engine string) {
		whole := faultserver.OK("x")
		cut := len(whole) - 1
		s := serve(t, faultserver.Every(faultserver.Loop(faultserver.Request(1), faultserver.Write(whole[:cut]), faultserver.Write(whole[cut:]))))
		r := start(context.Background(), t, loneConfig(t, s, engine), &watcher{})
		if r.Unloaded == nil || len(r.Unloaded.RestNs) != len(r.Unloaded.ServiceNs) {
			t.Fatalf("unloaded requests: %+v", r.Unloaded)
		}
		for i, rest := range r.Unloaded.RestNs {
			if rest < 0 || rest > r.Unloaded.ServiceNs[i] {
				t.Errorf("the rest of request %d took %v of %v", i, time.Duration(rest), time.Duration(r.Unloaded.ServiceNs[i]))
			}
		}
	})
	w := &worker{now: 5, alone: &alone{on: 3, busy: true}}
	for _, step := range []struct {
		on         uint32
		now, first int64
	}{{2, 5, 0}, {3, 7, 7}, {3, 45, 7}} {
		w.now = step.now
		w.arrivedAlone(step.on)
		if w.alone.firstNs != step.first {
			t.Errorf("first bytes at %d, want %d", w.alone.firstNs, step.first)
		}
	}
}

// TestLoneRequestEndsNoConnection: a connection that the server closes after its unloaded request was
// established like the others.
func TestLoneRequestEndsNoConnection(t *testing.T) {
	needs.Engine(t)
	eachAtOnce(t, func(t *testing.T, engine string) {
		s := serve(t, faultserver.Every(faultserver.Answer(faultserver.Response("200 OK", "Connection: close\r\n", "x"))))
		if r := runs(t, loneConfig(t, s, engine)); r.Established != 8 {
			t.Errorf("%d of 8 established", r.Established)
		}
	})
}

// TestEndlessEventStream: a request for one is told from a server that does not answer.
func TestEndlessEventStream(t *testing.T) {
	needs.Engine(t)
	answer := "HTTP/1.1 200 OK\r\nContent-Type: text/event-stream; charset=utf-8\r\n\r\ndata: x\n\n"
	eachAtOnce(t, func(t *testing.T, engine string) {
		s := serve(t, faultserver.Every(faultserver.AnswerTimes(1, answer), faultserver.Stall()))
		c := config(t, s, engine, 0)
		c.Duration = 300 * time.Millisecond
		if n := runs(t, c).Total.Faults[Fault{PhaseOpen, causeEndless}]; n != 4 {
			t.Errorf("%d of 4 requests still receive events", n)
		}
		c.Timeout = 100 * time.Millisecond
		if n := runs(t, c).Total.Faults[Fault{PhaseResponse, causeEndless}]; n == 0 {
			t.Error("no request failed for receiving events without end")
		}
	})
}
