//go:build linux

package load

import (
	"testing"
	"time"

	"ceiling/internal/faultserver"
	"ceiling/internal/needs"
)

// stalling answers some requests of a connection, and no more.
func stalling(n int) func(int) faultserver.Script {
	return faultserver.Every(faultserver.AnswerTimes(n, faultserver.OK("x")), faultserver.Stall())
}

// TestWaitingRequestsCount: of requests without a response the age is known, by due time and by
// sent time, and by target; the sum is that of the window's edge.
func TestWaitingRequestsCount(t *testing.T) {
	needs.Engine(t)
	for name, change := range map[string]func(*Config){
		"closed":         func(*Config) {},
		"pipelined":      func(c *Config) { c.Pipelining = 8 },
		"with a warm-up": func(c *Config) { c.Warmup = 100 * time.Millisecond },
		"two targets":    func(c *Config) { c.Mix = mixOfTwo() },
	} {
		t.Run(name, func(t *testing.T) {
			eachAtOnce(t, func(t *testing.T, engine string) {
				c := config(t, serve(t, stalling(3)), engine, 0)
				c.Duration = 400 * time.Millisecond
				change(&c)
				r := runs(t, c)
				w := r.Waiting
				slots := uint64(c.Connections * c.Pipelining)
				if r.Total.InFlight != slots || w.Service.Count() != slots || w.Response.Count() != slots {
					t.Fatalf("%d in flight, %d waiting since they left, %d since they were due", r.Total.InFlight, w.Service.Count(), w.Response.Count())
				}
				if int64(w.Response.Sum()) != r.Edges.InFlightNs || w.Service.Max() == 0 {
					t.Errorf("they waited for %d ns, %d at the edge; the oldest for %d", w.Response.Sum(), r.Edges.InFlightNs, w.Service.Max())
				}
				if ofTargets := sumOf(w.Targets); len(c.Mix) > 1 && ofTargets != w.Response.Count() || len(c.Mix) == 1 && w.Targets != nil {
					t.Errorf("%d belong to targets", ofTargets)
				}
			})
		})
	}
}

func sumOf(list []TargetWaiting) (n uint64) {
	for _, w := range list {
		n += w.Count
	}
	return n
}

// TestWaitingOfTheBacklog: in an open loop all that was due waits, sent or not, for the whole drain
// at least.
func TestWaitingOfTheBacklog(t *testing.T) {
	needs.Engine(t)
	for name, poisson := range map[string]bool{"even": false, "poisson": true} {
		t.Run(name, func(t *testing.T) {
			eachAtOnce(t, func(t *testing.T, engine string) {
				c := config(t, serve(t, stalling(3)), engine, 0)
				c.Rate, c.Poisson, c.Duration, c.Drain = perS(1000), poisson, 300*time.Millisecond, 100*time.Millisecond
				r := runs(t, c)
				w := r.Waiting
				if w.Service.Count() != r.Total.InFlight || w.Response.Count() != r.Total.InFlight+r.Unsent || r.Unsent == 0 {
					t.Errorf("%d in flight and %d unsent; %d wait, %d of them since they left", r.Total.InFlight, r.Unsent,
						w.Response.Count(), w.Service.Count())
				}
				if w.Response.Min() < int64(c.Drain) || w.Response.Max() < int64(c.Duration) {
					t.Errorf("they have waited for %d to %d ns", w.Response.Min(), w.Response.Max())
				}
			})
		})
	}
}

// TestLongBacklogIsBounded: of a backlog too long to walk, several count with the youngest's age.
func TestLongBacklogIsBounded(t *testing.T) {
	const n = 3*behindSteps + 7
	c := Config{Rate: perS(1e9), Duration: n}
	s := &shared{Config: c, schedule: newSchedule(&c)}
	s.Threads = 1
	w := &worker{shared: s, openLoop: true, phase: measuring, left: &Waiting{}, now: 2 * n}
	w.mainSchedule()
	w.addBehind(w.now)
	if got := &w.left.Response; got.Count() != n || got.Min() != n+1 || got.Max() > 2*n || got.Max() < 2*n-4 {
		t.Errorf("%d have waited for %d to %d ns", got.Count(), got.Min(), got.Max())
	}
}
