//go:build linux

package observe

import (
	"context"
	"math/rand/v2"
	"testing"
	"time"

	"ceiling/internal/needs"
	"ceiling/record"
)

const ms = 1e6

// Rounds stay on their grid, whatever the caller's ticks are.
func TestRoundKeepsItsGrid(t *testing.T) {
	r := round{everyNs: 100 * ms, share: 0.01, plannedMinNs: 100 * ms}
	var read []int64
	for now := int64(0); now < 1000*ms; now += 10 * ms {
		if r.due(now) {
			read = append(read, now)
			r.done(now, 0)
		}
	}
	// A quarter of the interval early counts as due, and does not move the grid.
	for i, at := range read {
		if want := int64(i) * 100 * ms; at > want || at < want-30*ms {
			t.Errorf("reading %d at %d ms", i, at/ms)
		}
	}
	if len(read) != 10 && len(read) != 11 {
		t.Errorf("%d readings", len(read))
	}
}

// Whatever a reading costs, the round uses no more than its share.
func TestRoundStaysInItsBudget(t *testing.T) {
	for _, cost := range []int64{10_000, 300_000, 5 * ms, 50 * ms} {
		for _, jitter := range []*rand.Rand{nil, rand.New(rand.NewPCG(1, 2))} {
			r := round{everyNs: 40 * ms, share: 0.005, jitter: jitter}
			var spent, n int64
			const end = 60_000 * ms
			for now := int64(0); now < end; now += 5 * ms {
				if r.due(now) {
					r.done(now, cost)
					spent += cost
					n++
				}
			}
			// One reading is always allowed, and a second's worth of credit.
			if limit := int64(end*0.005) + cost + 5*ms; spent > limit {
				t.Errorf("readings of %d ns used %d ns, more than %d", cost, spent, limit)
			}
			if cheap := cost == 10_000; cheap && n < 1300 {
				t.Errorf("%d readings of 1500, though they are cheap", n)
			}
		}
	}
}

func TestRoundJumpsOverWhatItMissed(t *testing.T) {
	r := round{everyNs: 100 * ms, share: 1, plannedMinNs: 100 * ms}
	s := source{}
	read := func(now int64) tick {
		if !r.due(now) {
			t.Fatalf("not due at %d ms", now/ms)
		}
		at := s.tick("", now, r.plannedNs)
		r.done(now, 0)
		return at
	}
	if at := read(0); !at.first() || at.late {
		t.Errorf("first %+v", at)
	}
	if at := read(100 * ms); at.late || at.widthNs != 100*ms {
		t.Errorf("second %+v", at)
	}
	if at := read(570 * ms); !at.late || at.widthNs != 470*ms {
		t.Errorf("after a gap %+v", at)
	}
	if r.dueNs != 700*ms { // 600 would be 30 ms after the last
		t.Errorf("due at %d ms", r.dueNs/ms)
	}
	if at := read(700 * ms); at.late {
		t.Errorf("afterwards %+v", at)
	}
}

func TestSharesStayBelowOnePerCent(t *testing.T) {
	o := &Observer{cfg: Config{Interval: defaultInterval}}
	o.planRounds()
	var sum float64
	for _, r := range o.rounds() {
		sum += r.share
	}
	if sum > 0.0093 {
		t.Errorf("%v of a core", sum)
	}
}

// However seldom counters are read, they are read when the window ends: at the
// time that was given, or when the observing ends.
func TestCountersAreReadAtTheEndOfTheWindow(t *testing.T) {
	needs.Time(t)
	const window = 300 * time.Millisecond
	for _, known := range []bool{true, false} {
		cfg := Config{Interval: 10 * time.Second}
		long := window
		if known {
			cfg.Window, long = window, 2*window
		}
		o := newObserver(t, cfg)
		began := time.Now() // before the context's time, which ends the observing
		ctx, cancel := context.WithTimeout(t.Context(), long)
		var cpu []record.ObservedHead
		o.Run(ctx, func() int64 { return int64(time.Since(began)) }, func(row record.ObservedRow) {
			if row.Observed().Kind == record.KindCPU {
				cpu = append(cpu, *row.Observed())
			}
		})
		cancel()
		if len(cpu) != 1 || cpu[0].TNs < int64(window) || cpu[0].TNs-cpu[0].WidthNs > int64(window)/2 {
			t.Errorf("window known: %v: rows %+v, want one that ends with it, at %v", known, cpu, window)
		}
	}
}

// A run of any length looks at the connections to others more than once within its window, and no
// more than ten times a second.
func TestPeersOfAShortRun(t *testing.T) {
	for _, c := range []struct{ window, want time.Duration }{
		{0, time.Second}, {300 * time.Millisecond, defaultInterval}, {900 * time.Millisecond, 150 * time.Millisecond}, {time.Minute, time.Second},
	} {
		o := &Observer{cfg: Config{Interval: defaultInterval, Window: c.window}}
		o.planRounds()
		if r := &o.timetable.peers; r.everyNs != int64(c.want) || r.longestNs != int64(c.want) {
			t.Errorf("window of %v: every %v, %v at most", c.window, time.Duration(r.everyNs), time.Duration(r.longestNs))
		}
	}
}

// Half the effort is half of every budget.
func TestEffortScalesTheBudgets(t *testing.T) {
	whole, half := &Observer{cfg: Config{Interval: defaultInterval, Effort: 1}}, &Observer{cfg: Config{Interval: defaultInterval, Effort: 0.5}}
	whole.planRounds()
	half.planRounds()
	for i, r := range whole.rounds() {
		if h := half.rounds()[i]; h.share != r.share/2 {
			t.Errorf("round %d: %g of a core at half the effort, %g at the whole", i, h.share, r.share)
		}
	}
}

// The server's processes, which may take 60 ms to read, do not use up the budget of the host's CPUs.
func TestProcessesHaveABudgetOfTheirOwn(t *testing.T) {
	o := newObserver(t, Config{})
	for _, s := range o.timetable.counters.sources {
		if s.name == "process" || s.name == "listener" {
			t.Errorf("%s is read in the round of the host's CPUs", s.name)
		}
	}
	if len(o.timetable.members.sources) == 0 || len(o.timetable.counters.sources) == 0 {
		t.Errorf("%d sources of processes, %d counters", len(o.timetable.members.sources), len(o.timetable.counters.sources))
	}
}
