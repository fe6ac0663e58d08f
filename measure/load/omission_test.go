//go:build linux

package load

import (
	"context"
	"fmt"
	"math"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"ceiling/internal/faultserver"
	"ceiling/internal/needs"
	"ceiling/internal/ring"
	"ceiling/internal/unit"
)

func answering() func(int) faultserver.Script {
	return faultserver.Every(faultserver.Answer(faultserver.OK("x")))
}

// TestEveryConnectionCounts: connections that do not divide by the threads are
// all opened, and spread as evenly as they can be.
func TestEveryConnectionCounts(t *testing.T) {
	needs.Engine(t)
	for _, n := range []struct{ connections, threads int }{{1, 1}, {7, 3}, {100, 12}, {1000, 120}} {
		t.Run(fmt.Sprintf("%d over %d", n.connections, n.threads), func(t *testing.T) {
			each(t, func(t *testing.T, engine string) {
				s := serve(t, answering())
				c := config(t, s, engine, 0)
				c.Connections, c.Threads, c.Duration = n.connections, n.threads, 200*time.Millisecond
				w := &watcher{}
				r := start(context.Background(), t, c, w)
				if w.asked != n.connections || w.established != n.connections || r.Established != n.connections || r.Opened != n.connections ||
					s.Accepted() != n.connections {
					t.Errorf("asked %d, established %d and %d, opened %d, the server accepted %d", w.asked, w.established, r.Established, r.Opened,
						s.Accepted())
				}
				sum := 0
				for _, k := range r.Workers {
					sum += k.Connections
					if k.Connections != n.connections/n.threads && k.Connections != n.connections/n.threads+1 {
						t.Errorf("a worker has %d connections", k.Connections)
					}
				}
				if len(r.Workers) != n.threads || sum != n.connections || r.Total.InFlight != uint64(n.connections) {
					t.Errorf("%d workers with %d connections, %d in flight at the end", len(r.Workers), sum, r.Total.InFlight)
				}
				clean(t, r, r.Total.Completed)
			})
		})
	}
}

// TestTooFewConnections is refused, as are other things that cannot be.
func TestRefused(t *testing.T) {
	s := serve(t, answering())
	for name, change := range map[string]func(*Config){
		"threads over connections": func(c *Config) { c.Threads = 5 },
		"no threads":               func(c *Config) { c.Threads = 0 },
		"no timeout":               func(c *Config) { c.Timeout = 0 },
		"no end":                   func(c *Config) { c.Requests = 0 },
		"negative warm-up":         func(c *Config) { c.Warmup = -1 },
		"ramp without a length":    func(c *Config) { c.Rate = unit.Rate{From: perSecond(1), To: perSecond(2)} },
		"no requests":              func(c *Config) { c.Mix = nil },
		"weight 0":                 func(c *Config) { c.Mix[0].Weight = 0 },
		"absurd weights": func(c *Config) {
			c.Mix = []Request{{Bytes: []byte("x"), Weight: 1}, {Bytes: []byte("y"), Weight: math.MaxInt}}
		},
		"unknown engine": func(c *Config) { c.Engine = "select" },
	} {
		c := config(t, s, "", 10)
		change(&c)
		if r, err := Run(context.Background(), c, &watcher{}); err == nil || r != nil {
			t.Errorf("%s: %v, %v", name, r, err)
		}
	}
}

// TestLateIntervals: while the observer blocks, intervals get wider and say so;
// none is lost, and none is counted as if it had its asked width.
func TestLateIntervals(t *testing.T) {
	needs.Engine(t)
	each(t, func(t *testing.T, engine string) {
		s := serve(t, answering())
		c := config(t, s, engine, 0)
		c.Duration, c.Interval = 900*time.Millisecond, 20*time.Millisecond
		w := &watcher{}
		w.onRow = func(*Tally) {
			if len(w.rows) == 5 {
				time.Sleep(400 * time.Millisecond)
			}
		}
		r := start(context.Background(), t, c, w)
		clean(t, r, r.Total.Completed)
		late := 0
		for _, row := range w.rows {
			if wide := row.end-row.start > 30e6; wide != row.late {
				t.Errorf("a row of %d ns, late: %v", row.end-row.start, row.late)
			}
			if row.late {
				late++
			}
			if row.busy < 0 || row.busy > 1.5 {
				t.Errorf("a row was busy for %.2f of its time", row.busy)
			}
		}
		if late == 0 {
			t.Error("no interval was late")
		}
		if !w.closed {
			t.Error("the window never closed")
		}
	})
}

// TestFrozenServer is the truth test: while the server stands still for F, the
// requests that come due wait 0 to F, so at 1000/s for 2 s the 99th percentile
// is the 20th longest wait, F − 20 ms. F is measured by the server. A machine
// that itself stands still for a moment adds to that, but not three times.
func TestFrozenServer(t *testing.T) {
	needs.Quiet(t)
	each(t, func(t *testing.T, engine string) {
		for left := 2; ; left-- {
			p99, longest, frozen := freeze(t, engine)
			want := frozen - 20*time.Millisecond
			// The generator itself was held up no longer than the server was.
			if math.Abs(float64(p99-want)) <= 0.05*float64(want) && longest <= frozen+frozen/10 {
				return
			}
			report := t.Logf
			if left == 0 {
				report = t.Fatalf
			}
			report("p99 is %v and the longest response took %v; frozen for %v, so %v is true", p99, longest, frozen, want)
		}
	})
}

func freeze(t *testing.T, engine string) (p99, longest, frozen time.Duration) {
	s := serve(t, answering())
	c := config(t, s, engine, 0)
	c.Connections, c.Rate, c.Duration = 16, perS(1000), 2*time.Second
	took := make(chan time.Duration, 1)
	w := &watcher{}
	w.onRow = func(*Tally) {
		if len(w.rows) == 5 {
			go func() {
				thaw := s.Freeze()
				time.Sleep(200 * time.Millisecond)
				took <- thaw()
			}()
		}
	}
	r := start(context.Background(), t, c, w)
	clean(t, r, 2000)
	if r.Asked != 2000 || r.Unsent != 0 {
		t.Errorf("asked %d, unsent %d", r.Asked, r.Unsent)
	}
	return time.Duration(r.Total.Response.Quantile(0.99)), time.Duration(r.Total.Response.Max()), <-took
}

// TestArrivalsAreEven is the truth test of pacing: the variance of the requests
// that a server sees in 10 ms, over their mean, is 0 for a metronome and 1 for
// chance. A machine that itself stands still for a moment adds to it, but not
// three times.
func TestArrivalsAreEven(t *testing.T) {
	needs.Quiet(t)
	needs.LockedMemory(t)
	least := math.Inf(1)
	for i := 0; i < 3 && least > 0.5; i++ {
		least = min(least, dispersion(t, 1000))
	}
	if least > 0.5 {
		t.Errorf("variance over mean %.2f", least)
	}
}

func dispersion(t *testing.T, rate uint64) float64 {
	var bins [100]atomic.Int64
	begin := sync.OnceValue(time.Now) // with the first request
	seen := func(*faultserver.Conn) error {
		bins[min(int(time.Since(begin())/(10*time.Millisecond)), len(bins)-1)].Add(1)
		return nil
	}
	s := serve(t, faultserver.Every(faultserver.Loop(faultserver.Request(1), seen, faultserver.Write(faultserver.OK("x")))))
	c := config(t, s, ring.Uring, 0)
	c.Connections, c.Rate, c.Duration = 50, perS(rate), time.Second
	clean(t, runs(t, c), rate)
	mean, variance := float64(rate)/100, 0.0
	middle := bins[10:90]
	for i := range middle {
		off := float64(middle[i].Load()) - mean
		variance += off * off / float64(len(middle))
	}
	return variance / mean
}

// TestLittle: in a closed loop N = X·R, up to what the ends of the window cut
// off: at the beginning nothing, for the slots are full, and at the end, when no
// request is left, each slot is empty for less than the longest response.
func TestLittle(t *testing.T) {
	needs.Engine(t)
	each(t, func(t *testing.T, engine string) {
		for _, p := range []int{1, 8} {
			s := serve(t, answering())
			c := config(t, s, engine, uint64(15_000*p))
			c.Threads, c.Connections, c.Pipelining, c.Warmup = 1, 24, p, 50*time.Millisecond
			r := runs(t, c)
			clean(t, r, c.Requests)
			slots := float64(24 * p)
			n := float64(r.Total.Completed) / float64(r.WindowNs) * r.Total.Response.Mean()
			if most := 0.01 + float64(r.Total.Response.Max())/float64(r.WindowNs); math.Abs(n/slots-1) > most {
				t.Errorf("X·R is %.2f with %.0f slots; %.1f%% off is possible", n, slots, 100*most)
			}
			if r.Carried != uint64(slots) || r.Total.InFlight != 0 {
				t.Errorf("%d carried into the window, %d in flight at the end, of %.0f slots", r.Carried, r.Total.InFlight, slots)
			}
		}
	})
}

// TestAskedIsSent: on a schedule that can be held, exactly its requests are sent,
// and none waits for another.
func TestAskedIsSent(t *testing.T) {
	needs.Engine(t)
	for name, change := range map[string]func(*Config){
		"constant": func(c *Config) { c.Rate = perS(2000) },
		"warm":     func(c *Config) { c.Rate, c.Warmup = perS(2000), 130*time.Millisecond },
		"odd": func(c *Config) {
			f := unit.Frequency{Count: 7919, PerNs: 3_000_000_017}
			c.Rate = unit.Rate{From: f, To: f}
		},
		"poisson":      func(c *Config) { c.Rate, c.Poisson, c.Seed = perS(2000), true, 42 },
		"ramp":         func(c *Config) { c.Rate = unit.Rate{From: perSecond(100), To: perSecond(3000)} },
		"ramp from 0":  func(c *Config) { c.Rate, c.Warmup = unit.Rate{To: perSecond(3000)}, 60*time.Millisecond },
		"ramp to 0":    func(c *Config) { c.Rate = unit.Rate{From: perSecond(3000), To: perSecond(0)} },
		"poisson ramp": func(c *Config) { c.Rate, c.Poisson = unit.Rate{From: perSecond(100), To: perSecond(3000)}, true },
		"nearly none":  func(c *Config) { f := unit.Frequency{Count: 1, PerNs: 3600e9}; c.Rate = unit.Rate{From: f, To: f} },
		"poisson, none": func(c *Config) {
			f := unit.Frequency{Count: 1, PerNs: 3600e9}
			c.Rate, c.Poisson = unit.Rate{From: f, To: f}, true
		},
		"short": func(c *Config) { c.Rate, c.Duration = perS(2000), 7*time.Millisecond },
	} {
		t.Run(name, func(t *testing.T) {
			eachAtOnce(t, func(t *testing.T, engine string) {
				s := serve(t, answering())
				c := config(t, s, engine, 0)
				c.Threads, c.Connections, c.Duration = 3, 64, 300*time.Millisecond
				change(&c)
				want := uint64(0)
				plan := newSchedule(&c)
				for a := plan.arrivals(0, 1); a.due() < int64(c.Duration); a.next() {
					want++
				}
				r := runs(t, c)
				clean(t, r, want+r.Carried)
				if r.Asked != want || r.Total.Sent != want || r.Unsent != 0 || r.Total.InFlight != 0 {
					t.Errorf("want %d: asked %d, sent %d, unsent %d, in flight %d", want, r.Asked, r.Total.Sent, r.Unsent, r.Total.InFlight)
				}
				if r.Total.Response.Count() != want || r.Total.Lag.Count() != want {
					t.Errorf("want %d: %d response times, %d lags", want, r.Total.Response.Count(), r.Total.Lag.Count())
				}
				if c.Warmup == 0 && s.Requests() != want {
					t.Errorf("the server had %d, want %d", s.Requests(), want)
				}
			})
		})
	}
}

// TestMissedSchedule: what was due and did not leave is counted to the last
// request, whether slots, the server, or the rate itself stand in the way.
func TestMissedSchedule(t *testing.T) {
	needs.Engine(t)
	for name, k := range map[string]struct {
		rate    uint64
		poisson bool
		script  faultserver.Step
		large   bool
	}{
		"no answers":        {1000, false, faultserver.Stall(), false},
		"no answers, seeds": {1000, true, faultserver.Stall(), false},
		"absurd":            {1e9, false, faultserver.Answer(faultserver.OK("x")), false},
		"absurd, no answer": {1e9, false, faultserver.Stall(), false},
		"too much, seeds":   {5e6, true, faultserver.Answer(faultserver.OK("x")), false},
		"nobody reads":      {1000, false, faultserver.Deaf(), true},
	} {
		t.Run(name, func(t *testing.T) {
			eachAtOnce(t, func(t *testing.T, engine string) {
				s := serve(t, faultserver.Every(k.script))
				c := config(t, s, engine, 0)
				c.Rate, c.Poisson, c.Duration, c.Drain = perS(k.rate), k.poisson, 200*time.Millisecond, 50*time.Millisecond
				if k.large { // three slots of each connection wait for the first to be read
					c.Mix[0].Bytes, c.Pipelining = append([]byte("POST / HTTP/1.1\r\nHost: x\r\nContent-Length: 8000000\r\n\r\n"), make([]byte, 8e6)...), 4
				}
				want := k.rate / 5
				if k.poisson {
					want = 0
					plan := newSchedule(&c)
					for a := plan.arrivals(0, 1); a.due() < int64(c.Duration); a.next() {
						want++
					}
				}
				r := runs(t, c)
				if r.Asked != want || r.Total.Sent+r.Unsent != want || r.LateAtEnd < r.Unsent {
					t.Errorf("asked %d of %d, sent %d, unsent %d, late at the end %d", r.Asked, want, r.Total.Sent, r.Unsent, r.LateAtEnd)
				}
				if s := r.Total.Sent; s < 4 || !k.large && r.Total.Completed == 0 && (s != 4 || r.Total.InFlight != 4) {
					t.Errorf("sent %d, in flight %d", s, r.Total.InFlight)
				}
			})
		})
	}
}

// TestNoConnectionStands: while the server is gone requests stay due; after its
// return those that can still leave do, late by what they waited.
func TestNoConnectionStands(t *testing.T) {
	needs.Quiet(t)
	each(t, func(t *testing.T, engine string) {
		s := serve(t, answering())
		c := config(t, s, engine, 0)
		c.Rate, c.Duration = perS(1000), 800*time.Millisecond
		w := &watcher{}
		w.onRow = func(*Tally) {
			switch len(w.rows) {
			case 2:
				s.Kill()
			case 5:
				if err := s.Accept(); err != nil {
					t.Error(err)
				}
			}
		}
		r := start(context.Background(), t, c, w)
		if r.Asked != 800 || r.Total.Sent+r.Unsent != 800 || r.Unsent != 0 {
			t.Errorf("asked %d, sent %d, unsent %d", r.Asked, r.Total.Sent, r.Unsent)
		}
		if r.Total.Faults[Fault{PhaseConnect, "ECONNREFUSED"}] == 0 {
			t.Errorf("faults %v", r.Total.Faults)
		}
		// Some 300 ms without a server: who was due at its beginning left at its end.
		if lag := time.Duration(r.Total.Lag.Max()); lag < 200*time.Millisecond {
			t.Errorf("the largest lag is %v", lag)
		}
		if r.Total.Completed < 700 {
			t.Errorf("completed %d", r.Total.Completed)
		}
	})
}

// TestWarmupIsLeftOut: a server that hangs in the warm-up shows in no figure of
// the window, and the warm-up's requests are none of those asked for.
func TestWarmupIsLeftOut(t *testing.T) {
	needs.Quiet(t)
	each(t, func(t *testing.T, engine string) {
		for _, open := range []bool{true, false} {
			s := serve(t, answering())
			c := config(t, s, engine, 200)
			c.Warmup, c.Interval = 250*time.Millisecond, 50*time.Millisecond
			if open {
				c.Rate = perS(1000)
			}
			var thaw func() time.Duration
			all := uint64(0)
			w := &watcher{}
			w.onRow = func(k *Tally) {
				all += k.Sent
				if len(w.rows) == 1 {
					thaw = s.Freeze()
				}
			}
			w.onOpen = func() { thaw() }
			r := start(context.Background(), t, c, w)
			if all != s.Requests() {
				t.Errorf("open %v: %d sent in all rows, the server had %d", open, all, s.Requests())
			}
			if !open { // what was in flight then is among the 200, and took so long
				clean(t, r, 200)
				continue
			}
			clean(t, r, 200+r.Carried)
			if max := time.Duration(r.Total.Response.Max()); r.Carried == 0 || r.Total.Response.Count() != 200 || max > 100*time.Millisecond {
				t.Errorf("carried %d, %d response times, the longest %v", r.Carried, r.Total.Response.Count(), max)
			}
		}
	})
}

// TestOwnCost: the generator says what it cost.
func TestOwnCost(t *testing.T) {
	needs.Engine(t)
	each(t, func(t *testing.T, engine string) {
		for _, n := range []uint64{1, 20_000} {
			s := serve(t, answering())
			w := &watcher{}
			r := start(context.Background(), t, config(t, s, engine, n), w)
			clean(t, r, n)
			if w.openedAt.IsZero() || !w.closed || r.Engine != engine ||
				r.EngineWhy == "" || (len(r.EngineFeatures) == 0) != (engine == ring.Portable) {
				t.Errorf("opened %v, closed %v, engine %s (%s) with %v", w.openedAt, w.closed, r.Engine, r.EngineWhy, r.EngineFeatures)
			}
			if n == 1 {
				continue
			}
			if r.UserNs+r.SystemNs <= 0 || r.Total.Batches == 0 || r.Total.Waits < r.Total.Batches || r.Total.BatchNs <= 0 ||
				r.Total.BatchMaxNs > r.Total.BatchNs {
				t.Errorf("CPU %d + %d ns, %d batches of %d waits took %d ns, the longest %d", r.UserNs, r.SystemNs, r.Total.Batches, r.Total.Waits,
					r.Total.BatchNs, r.Total.BatchMaxNs)
			}
			for _, k := range r.Workers {
				if k.Busy <= 0 || k.Busy > 1.1 || k.Thread == 0 || k.Completed == 0 {
					t.Errorf("worker %+v", k)
				}
			}
		}
	})
}

// TestTimeAndNumber: what comes first ends the run.
func TestTimeAndNumber(t *testing.T) {
	needs.Engine(t)
	eachAtOnce(t, func(t *testing.T, engine string) {
		s := serve(t, answering())
		c := config(t, s, engine, 1<<60)
		c.Duration = 300 * time.Millisecond
		r := runs(t, c)
		clean(t, r, r.Total.Completed)
		if r.WindowNs != 300e6 || r.Asked != 1<<60 || r.Total.Sent+r.Unsent != 1<<60 || r.Total.Completed == 0 {
			t.Errorf("window %d ns, asked %d, sent %d, unsent %d", r.WindowNs, r.Asked, r.Total.Sent, r.Unsent)
		}
	})
}

// TestSentAfterTheWindow: a worker that gets no CPU until its window is over sends
// what was due then, and the rows add up all the same (balancedRows).
func TestSentAfterTheWindow(t *testing.T) {
	needs.Engine(t)
	eachAtOnce(t, func(t *testing.T, engine string) {
		for _, long := range []time.Duration{time.Nanosecond, time.Microsecond, 20 * time.Microsecond, 100 * time.Microsecond, time.Millisecond} {
			c := config(t, serve(t, faultserver.Every(faultserver.Stall())), engine, 0)
			c.Rate, c.Duration, c.Drain, c.Interval = perS(1e9), long, 20*time.Millisecond, 50*time.Millisecond
			if r := runs(t, c); r.Total.Sent+r.Unsent != r.Asked {
				t.Errorf("%v: sent %d, unsent %d of %d", long, r.Total.Sent, r.Unsent, r.Asked)
			}
		}
	})
}
