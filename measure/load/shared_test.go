//go:build linux

package load

import (
	"context"
	"strings"
	"sync"
	"testing"
	"time"

	"pgregory.net/rapid"

	"ceiling/internal/faultserver"
	"ceiling/internal/needs"
	"ceiling/internal/unit"
)

// TestUnionOfAgents: what the workers of 1 to 16 agents send is exactly the one
// schedule, whatever its shape and the weights, each in its own order, and each
// counts rightly how much is left.
func TestUnionOfAgents(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		c := Config{
			Rate:     unit.Rate{From: perSecond(rapid.Uint64Range(1, 100_000).Draw(t, "from"))},
			Duration: time.Second, Poisson: rapid.Bool().Draw(t, "poisson"), Seed: rapid.Uint64().Draw(t, "seed"),
		}
		c.Rate.To = c.Rate.From
		if rapid.Bool().Draw(t, "ramp") {
			c.Rate.To = perSecond(rapid.Uint64Range(0, 100_000).Draw(t, "to"))
		}
		shares, err := Split(rapid.SliceOfN(rapid.IntRange(1, 5), 1, 16).Draw(t, "weights"))
		if err != nil {
			t.Fatal(err)
		}
		const n = 300
		var want [n]int64
		var times [n]int
		s := newSchedule(&c)
		whole := s.arrivals(0, 1)
		for i := range want {
			want[i] = whole.due()
			whole.next()
		}
		for agent, share := range shares {
			c.Share = share
			s := newSchedule(&c)
			threads := 1 + 2*rapid.Uint64Range(0, 3).Draw(t, "half the threads")
			for w := range threads {
				part := s.arrivals(w, threads)
				left := part.before(n)
				for part.number < n {
					if part.passed(w) != part.own/threads || part.number != share.Number(part.own) {
						t.Fatalf("agent %d, worker %d of %d: %+v", agent, w, threads, part)
					}
					if got := part.due(); got != want[part.number] {
						t.Fatalf("agent %d: request %d is due at %d, of one agent at %d", agent, part.number, got, want[part.number])
					}
					times[part.number]++
					part.next()
					left--
				}
				if left != 0 || part.before(n) != 0 {
					t.Fatalf("agent %d, worker %d of %d: %d more were to come", agent, w, threads, int64(left))
				}
			}
		}
		for number, k := range times {
			if k != 1 {
				t.Fatalf("request %d was sent %d times", number, k)
			}
		}
	})
}

// together runs one engine for each share, started at the same time, and answers
// their results.
func together(t *testing.T, shares []Share, c Config) []*Result {
	t.Helper()
	results := make([]*Result, len(shares))
	errs := make([]error, len(shares))
	starts := make([]chan time.Time, len(shares))
	var ready, all sync.WaitGroup
	for i, share := range shares {
		starts[i] = make(chan time.Time, 1)
		c := c
		c.Share, c.Start = share, starts[i]
		ready.Add(1)
		c.Ready = func(established, asked int) {
			defer ready.Done()
			if want := int(share.Part(uint64(c.Connections))); established != want || asked != want {
				t.Errorf("agent %d: %d of %d connections stand, want %d", i, established, asked, want)
			}
		}
		all.Go(func() {
			w := &watcher{t: t, sum: newTally(len(c.Mix))}
			results[i], errs[i] = Run(context.Background(), c, w)
		})
	}
	ready.Wait()
	at := time.Now().Add(20 * time.Millisecond)
	for _, start := range starts {
		start <- at
	}
	all.Wait()
	for i, err := range errs {
		if err != nil {
			t.Fatalf("agent %d: %v", i, err)
		}
		if r := results[i]; r.Total.Sent > 0 && r.StartLateNs < 0 || r.StartLateNs > int64(10*time.Second) {
			t.Errorf("agent %d: the first request left %d ns late", i, r.StartLateNs)
		}
	}
	return results
}

// TestAgentsDoWhatOneDoes: a number of requests, in a closed and in an open loop
// of either kind, is sent by three agents exactly once, from as many connections
// as were asked for.
func TestAgentsDoWhatOneDoes(t *testing.T) {
	needs.Engine(t)
	shares, err := Split([]int{1, 2, 4})
	if err != nil {
		t.Fatal(err)
	}
	for name, change := range map[string]func(*Config){
		"closed":  func(*Config) {},
		"open":    func(c *Config) { c.Rate = perS(5000) },
		"poisson": func(c *Config) { c.Rate, c.Poisson = perS(5000), true },
		"mix":     func(c *Config) { c.Mix, c.Pipelining = mixOfTwo(), 4 },
		"few":     func(c *Config) { c.Requests = 2 }, // none for the third
		"new":     func(c *Config) { c.NewConnections, c.Requests = 1, 101 },
	} {
		t.Run(name, func(t *testing.T) {
			eachAtOnce(t, func(t *testing.T, engine string) {
				s := serve(t, faultserver.Every(faultserver.Answer(faultserver.OK("x"))))
				c := config(t, s, engine, 1003)
				c.Connections, c.Threads = 17, 2
				change(&c)
				n := c.Requests
				done, asked, opened := uint64(0), uint64(0), 0
				for i, r := range together(t, shares, c) {
					if want := shares[i].Part(n); r.Asked != want || r.Total.Completed != want || r.Unsent != 0 {
						t.Errorf("agent %d was asked for %d and completed %d, its share is %d", i, r.Asked, r.Total.Completed, want)
					}
					done, asked, opened = done+r.Total.Completed, asked+r.Asked, opened+r.Opened
				}
				if done != n || asked != n || opened != 17 && c.NewConnections == 0 {
					t.Errorf("%d of %d completed over %d connections", done, asked, opened)
				}
			})
		})
	}
}

// TestScheduleOfAgents: over a time, a ramp as well, the agents are asked for as
// many as one alone is, also of a server that does not answer.
func TestScheduleOfAgents(t *testing.T) {
	needs.Engine(t)
	t.Parallel()
	silent := serve(t, faultserver.Every(faultserver.Stall()))
	c := config(t, silent, "", 0)
	c.Connections, c.Threads, c.Duration, c.Drain, c.Timeout = 9, 3, 200*time.Millisecond, time.Millisecond, time.Second
	c.Rate = unit.Rate{From: perSecond(5_000), To: perSecond(15_000)}
	shares, err := Split([]int{1, 1, 1})
	if err != nil {
		t.Fatal(err)
	}
	alone := together(t, []Share{{}}, c)[0]
	asked, late := uint64(0), uint64(0)
	for _, r := range together(t, shares, c) {
		asked, late = asked+r.Asked, late+r.LateAtEnd
	}
	if asked < 2000 || asked != alone.Asked || late != alone.LateAtEnd || late != asked-9 {
		t.Errorf("%d were due and %d of them late; to one alone %d and %d", asked, late, alone.Asked, alone.LateAtEnd)
	}
}

// TestShareTooSmall: a share without a connection for each thread is refused.
func TestShareTooSmall(t *testing.T) {
	s := serve(t, faultserver.Every(faultserver.Answer(faultserver.OK("x"))))
	c := config(t, s, "", 10)
	c.Share = Share{First: 1, Count: 1, Of: 3} // of 4 connections one
	if _, err := Run(context.Background(), c, &watcher{}); err == nil ||
		!strings.Contains(err.Error(), "1 connections are too few for 2 threads") {
		t.Errorf("the error is %v", err)
	}
	c.Share = Share{First: 3, Count: 1, Of: 3}
	if _, err := Run(context.Background(), c, &watcher{}); err == nil || !strings.Contains(err.Error(), "cannot be") {
		t.Errorf("the error is %v", err)
	}
}

// TestStartIsWaitedFor: nothing is sent before the start, and the window opens
// where it was said to.
func TestStartIsWaitedFor(t *testing.T) {
	needs.Engine(t)
	eachAtOnce(t, func(t *testing.T, engine string) {
		s := serve(t, faultserver.Every(faultserver.Answer(faultserver.OK("x"))))
		c := config(t, s, engine, 100)
		start := make(chan time.Time, 1)
		c.Start = start
		var at time.Time
		c.Ready = func(int, int) {
			at = time.Now().Add(150 * time.Millisecond)
			start <- at
		}
		w := &watcher{t: t, sum: newTally(1)}
		r, err := Run(context.Background(), c, w)
		if err != nil {
			t.Fatal(err)
		}
		clean(t, r, 100)
		if !r.Started.Equal(at) || time.Now().Before(at) {
			t.Errorf("the window opened at %v, the start was %v", r.Started, at)
		}
	})
}

// TestStartIsPast: a start in the past begins at once, with the schedule it was
// to have; one that is further back than the run is long is no run.
func TestStartIsPast(t *testing.T) {
	needs.Engine(t)
	t.Parallel()
	s := serve(t, faultserver.Every(faultserver.Answer(faultserver.OK("x"))))
	ago := func(c Config, past time.Duration) (*Result, error) {
		start := make(chan time.Time, 1)
		start <- time.Now().Add(-past)
		c.Start = start
		return Run(context.Background(), c, &watcher{t: t, sum: newTally(1)})
	}
	r, err := ago(config(t, s, "", 100), time.Hour)
	if err != nil {
		t.Fatal(err)
	}
	clean(t, r, 100)
	if late := time.Duration(r.StartLateNs); late < time.Hour || late > 2*time.Hour {
		t.Errorf("it says %v", late)
	}
	open := config(t, s, "", 0)
	open.Rate, open.Duration = perS(100), time.Minute
	open.Requests = 200
	if r, err = ago(open, 30*time.Second); err != nil {
		t.Fatal(err)
	}
	if late := time.Duration(r.StartLateNs); r.Total.Completed != 200 || late < 30*time.Second {
		t.Errorf("completed %d; it says %v", r.Total.Completed, late)
	}
	open.Duration = time.Second
	if _, err = ago(open, time.Minute); err == nil || !strings.Contains(err.Error(), "the start was 1m") {
		t.Errorf("the error is %v", err)
	}
}

// TestWaitingEnds: a context that ends, and a start that never comes, end the
// waiting with an orderly result.
func TestWaitingEnds(t *testing.T) {
	needs.Engine(t)
	eachAtOnce(t, func(t *testing.T, engine string) {
		s := serve(t, faultserver.Every(faultserver.Answer(faultserver.OK("x"))))
		for name, end := range map[string]func(cancel func(), start chan time.Time){
			"context": func(cancel func(), _ chan time.Time) { cancel() },
			"channel": func(_ func(), start chan time.Time) { close(start) },
		} {
			c := config(t, s, engine, 100)
			ctx, cancel := context.WithCancel(context.Background())
			start := make(chan time.Time)
			c.Start, c.Ready = start, func(int, int) { end(cancel, start) }
			r, err := Run(ctx, c, &watcher{t: t, sum: newTally(1)})
			cancel()
			if err != nil || !r.Interrupted || r.Total.Sent != 0 || r.Established != 4 || r.StartLateNs != -1 {
				t.Errorf("%s: %+v, %v", name, r, err)
			}
		}
	})
}

// TestIdleConnectionIsOpenedAgain: a server that closes who says nothing is no
// fault before the start, and there is a connection when it comes.
func TestIdleConnectionIsOpenedAgain(t *testing.T) {
	needs.Engine(t)
	eachAtOnce(t, func(t *testing.T, engine string) {
		s := serve(t, func(n int) faultserver.Script {
			if n < 4 {
				return faultserver.Script{faultserver.Close()}
			}
			return faultserver.Script{faultserver.Answer(faultserver.OK("x"))}
		})
		c := config(t, s, engine, 100)
		start := make(chan time.Time, 1)
		c.Start, c.Ready = start, func(int, int) { start <- time.Now().Add(time.Second / 2) }
		r, err := Run(context.Background(), c, &watcher{t: t, sum: newTally(1)})
		if err != nil {
			t.Fatal(err)
		}
		clean(t, r, 100)
		if r.Opened != 8 {
			t.Errorf("%d connections were opened, want 8", r.Opened)
		}
	})
}
