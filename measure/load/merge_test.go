//go:build linux

package load

import (
	"context"
	"fmt"
	"math/rand/v2"
	"testing"

	"pgregory.net/rapid"
)

// TestMerge plays workers that deliver at random: each ends its tallies on the
// common grid, now and then skips some, and stops anywhere. Whatever the order,
// every tally is in exactly one row, rows follow each other, the warm-up and the
// window are never mixed, nobody runs out of tallies, and nothing is left over.
func TestMerge(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		const interval, opens = 100, 1000 // ns on the run's clock, and 700 is the start
		n := rapid.IntRange(1, 4).Draw(t, "workers")
		w := &watcher{sum: newTally(1)}
		r := &coordinator{
			shared: &shared{Config: Config{Threads: n, Interval: interval, Warmup: 300, Mix: get()}}, observer: w, ctx: context.Background(),
		}
		r.merge()
		r.shared.startNs.Store(700)
		r.result.Total, r.result.Setup, r.result.Workers = *newTally(1), map[Fault]uint64{}, make([]WorkerReport, n)
		last := int64(opens + rapid.IntRange(1, 15).Draw(t, "length")*interval/2)
		players := make([]*player, n)
		for id := range players {
			free := make(chan *Tally, spareTallies)
			for range spareTallies - 1 {
				free <- newTally(1)
			}
			r.free = append(r.free, free)
			players[id] = &player{id: id, at: 700, tally: newTally(1), end: last}
			players[id].tally.StartNs, players[id].tally.Warmup = 700, true
			if rapid.Bool().Draw(t, "stops early") {
				players[id].end = rapid.Int64Range(opens, last).Draw(t, "end")
			}
		}
		warm, counted, peak := uint64(0), uint64(0), 0
		w.onRow = func(k *Tally) {
			if k.Warmup {
				warm += k.Sent
			}
		}
		for left := n; left > 0; {
			p := players[rapid.IntRange(0, n-1).Draw(t, "next")]
			if p.done {
				continue
			}
			before := p.sent
			if p.step(t, r, interval, opens) {
				left--
			}
			counted += p.sent - before
			for id := range r.rows.pending {
				peak = max(peak, len(r.rows.pending[id]))
			}
		}
		if peak > 2 {
			t.Fatalf("%d tallies of one worker were kept", peak)
		}
		for id := range r.rows.pending {
			if len(r.rows.pending[id]) > 0 {
				t.Fatalf("worker %d: %d tallies were left over", id, len(r.rows.pending[id]))
			}
		}
		if got := warm + r.result.Total.Sent; got != counted || w.sum.Sent != r.result.Total.Sent {
			t.Fatalf("%d in the rows of the warm-up and %d in the total, of %d; %d in the window's rows", warm, r.result.Total.Sent, counted,
				w.sum.Sent)
		}
		for i, row := range w.rows {
			if i > 0 && row.start != w.rows[i-1].end || row.warmup != (row.start < 0) || row.warmup && row.end > 0 || row.end <= row.start {
				t.Fatalf("row %d is %+v after %+v", i, row, w.rows[max(i-1, 0)])
			}
			if row.late != (row.end-row.start > 150) {
				t.Fatalf("row %d of %d ns, late: %v", i, row.end-row.start, row.late)
			}
		}
		if first, end := w.rows[0], w.rows[len(w.rows)-1]; first.start != 700-opens || end.end != maxEnd(players)-opens {
			t.Fatalf("rows from %d to %d", first.start, end.end)
		}
	})
}

func maxEnd(players []*player) (end int64) {
	for _, p := range players {
		end = max(end, p.end)
	}
	return end
}

// player is a worker as the coordinator sees it.
type player struct {
	id    int
	at    int64 // the last boundary it has passed
	end   int64
	sent  uint64
	tally *Tally
	done  bool
}

// step goes on by an interval, or a few, and delivers what a worker would.
func (p *player) step(t *rapid.T, r *coordinator, interval, opens int64) (done bool) {
	n := rapid.Uint64Range(0, 9).Draw(t, "sent")
	p.sent += n
	p.tally.Sent += n
	to := p.at + interval*rapid.SampledFrom([]int64{1, 1, 1, 2, 6}).Draw(t, "intervals")
	if p.at < opens {
		to = min(to, opens)
	}
	if to >= p.end {
		p.tally.EndNs = max(p.end, p.tally.StartNs)
		p.done = true
		r.take(delivery{worker: p.id, tally: p.tally, over: true})
		return true
	}
	p.at = to
	var next *Tally
	select {
	case next = <-r.free[p.id]:
	default:
		t.Fatalf("worker %d has no free tally", p.id)
	}
	p.tally.EndNs = to
	r.take(delivery{worker: p.id, tally: p.tally})
	next.clear()
	next.StartNs, next.Warmup = to, to < opens
	p.tally = next
	return false
}

// TestTallyMerge: what add, extend and clear do to each field.
func TestTallyMerge(t *testing.T) {
	sample := func(k uint64, start, end int64) *Tally {
		a := newTally(2)
		a.StartNs, a.EndNs = start, end
		a.Sent, a.Completed, a.Failed, a.Bad, a.Read, a.Written, a.Reconnects, a.Resent = k, 2*k, 3*k, 4*k, 5*k, 6*k, 7*k, 8*k
		a.InFlight, a.Behind, a.Connected = 9*k, 10*k, int(11*k)
		a.Batches, a.Waits, a.BatchNs, a.BatchMaxNs, a.GatherNs = 12*k, 13*k, int64(14*k), int64(15*k), int64(16*k)
		a.CPUNs, a.Busy = int64(17*k), float64(k)/10
		a.Statuses[200] = k
		a.Faults[Fault{PhaseConnect, "x"}] = k
		a.Response.RecordN(1000, k)
		a.ByTarget[1].Completed, a.ByTarget[1].Statuses[200] = k, k
		return a
	}
	added := sample(1, 0, 10)
	added.add(sample(2, 0, 10))
	extended := sample(1, 0, 10)
	extended.extend(sample(2, 10, 40))
	for _, k := range []*Tally{added, extended} {
		if k.Sent != 3 || k.Completed != 6 || k.Failed != 9 || k.Bad != 12 || k.Read != 15 || k.Written != 18 || k.Reconnects != 21 ||
			k.Resent != 24 ||
			k.Batches != 36 || k.Waits != 39 || k.BatchNs != 42 || k.BatchMaxNs != 30 || k.GatherNs != 32 || k.Statuses[200] != 3 ||
			k.Faults[Fault{PhaseConnect, "x"}] != 3 || k.Response.Count() != 3 || k.ByTarget[1].Completed != 3 || k.ByTarget[1].Statuses[200] != 3 {
			t.Errorf("%+v", k.Faults)
		}
	}
	if added.InFlight != 27 || added.Behind != 30 || added.Connected != 33 || added.CPUNs != 34 || added.Busy != 0.2 {
		t.Errorf("added: in flight %d, behind %d, connected %d, CPU %d, busy %g", added.InFlight, added.Behind, added.Connected, added.CPUNs,
			added.Busy)
	}
	if extended.InFlight != 18 || extended.Behind != 20 || extended.Connected != 22 || extended.CPUNs != 51 || extended.EndNs != 40 ||
		extended.Busy < 0.1749 || extended.Busy > 0.1751 {
		t.Errorf("extended: in flight %d, behind %d, connected %d, CPU %d, busy %g, to %d", extended.InFlight, extended.Behind,
			extended.Connected, extended.CPUNs, extended.Busy, extended.EndNs)
	}
	added.clear()
	added.add(newTally(2))
	empty := newTally(2)
	if added.Sent != 0 || added.Statuses != empty.Statuses || len(added.Faults) != 0 || added.Response.Count() != 0 ||
		added.ByTarget[1].Completed != 0 || len(added.ByTarget[1].Statuses) != 0 || added.CPUNs != 0 || added.InFlight != 0 {
		t.Error("clear leaves something")
	}
	if testing.AllocsPerRun(10, func() { extended.clear() }) > 0 {
		t.Error("clear allocates")
	}
}

// BenchmarkRow is what the coordinator does in one interval: every worker's tally, with 10,000
// response times around 100 µs, becomes part of a row and of the total.
func BenchmarkRow(b *testing.B) {
	for _, workers := range []int{1, 16, 128} {
		b.Run(fmt.Sprint(workers, " workers"), func(b *testing.B) {
			random := rand.New(rand.NewPCG(1, 2))
			var result Result
			m := newRowMerger(workers, 2, 1)
			m.taken, m.free, m.closed = func(_ int, t *Tally) { result.include(t) }, func(int, *Tally) {}, func(*Tally) {}
			tallies := make([]*Tally, workers)
			for id := range tallies {
				t := newTally(1)
				t.Completed, t.Statuses[200] = 10_000, 10_000
				for range 10_000 {
					ns := int64(80e3 + random.ExpFloat64()*40e3)
					t.Response.Record(ns)
					t.Service.Record(ns)
					t.Lag.Record(ns / 20)
				}
				tallies[id] = t
			}
			for at := int64(0); b.Loop(); at += 1e8 {
				for id, t := range tallies {
					t.StartNs, t.EndNs = at, at+1e8
					m.add(id, t)
				}
			}
		})
	}
}
