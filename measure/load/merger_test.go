//go:build linux

package load

import (
	"fmt"
	"reflect"
	"testing"
	"time"

	"pgregory.net/rapid"

	"ceiling/internal/needs"
)

// TestMerger plays agents that deliver at random, in pieces of any number of
// intervals, now and then wider ones, are silent for long, end anywhere or are
// lost. Whatever the order: rows follow each other and none crosses the window's
// opening, the rows and the result hold exactly what was delivered, histograms
// and all, and what waits is bounded.
func TestMerger(t *testing.T) {
	needs.Engine(t)
	rapid.Check(t, func(t *rapid.T) {
		const interval = 100
		n := rapid.IntRange(1, 5).Draw(t, "agents")
		w := &watcher{sum: newTally(2)}
		m := NewMerger(n, 2, interval, w)
		all, warm := newTally(2), newTally(2)
		rowsWarm := newTally(2)
		w.onRow = func(k *Tally) {
			if k.Warmup {
				rowsWarm.count(k)
			}
		}
		agents := make([]*deliverer, n)
		for i := range agents {
			agents[i] = &deliverer{
				id: i, at: -300, end: rapid.Int64Range(1, 60).Draw(t, "intervals") * interval / 2,
				lost: rapid.IntRange(0, 3).Draw(t, "lost") == 0, own: NewResult(2),
			}
		}
		for left := n; left > 0; {
			a := agents[rapid.IntRange(0, n-1).Draw(t, "next")]
			for range rapid.SampledFrom([]int{1, 10, 50}).Draw(t, "pieces") {
				if !a.done && a.step(t, m, interval, all, warm) {
					left--
				}
			}
			for i := range m.rows.pending {
				if len(m.rows.pending[i]) > mergerKeeps {
					t.Fatalf("%d rows of one agent wait", len(m.rows.pending[i]))
				}
			}
		}
		for i, p := range m.rows.pending {
			if len(p) > 0 {
				t.Fatalf("agent %d: %d rows are left over", i, len(p))
			}
		}
		for i, row := range w.rows {
			if row.end <= row.start || row.warmup != (row.start < 0) || row.warmup && row.end > 0 || i > 0 && row.start != w.rows[i-1].end ||
				row.late != (row.end-row.start > 150) {
				t.Fatalf("row %d is %+v after %+v", i, row, w.rows[max(i-1, 0)])
			}
		}
		same(t, "rows of the window", w.sum, all)
		same(t, "rows of the warm-up", rowsWarm, warm)
		r := m.Result()
		same(t, "the result", &r.Total, all)
		if !reflect.DeepEqual(r.Setup, warm.Faults) {
			t.Fatalf("before the window %v, want %v", r.Setup, warm.Faults)
		}
		workers, end := 0, int64(0)
		for i, a := range agents {
			end = max(end, m.Agent(i).WindowNs)
			if !a.lost {
				workers++
			}
		}
		if len(r.Workers) != workers || r.WindowNs != end {
			t.Fatalf("%d workers of %d, window of %d ns, want %d", len(r.Workers), workers, r.WindowNs, end)
		}
	})
}

// same holds the counts and histograms of two against each other.
func same(t *rapid.T, what string, got, want *Tally) {
	a, b := newTally(2), newTally(2)
	a.count(got)
	b.count(want)
	if !reflect.DeepEqual(a, b) {
		t.Fatalf("%s hold %d sent and %d latencies, want %d and %d", what, a.Sent, a.Response.Count(), b.Sent, b.Response.Count())
	}
}

// deliverer is an agent as the Merger sees it.
type deliverer struct {
	id      int
	at, end int64
	lost    bool
	done    bool
	own     *Result
}

// step delivers a row, or the end.
func (a *deliverer) step(t *rapid.T, m *Merger, interval int64, all, warm *Tally) (done bool) {
	if a.at >= a.end {
		a.done = true
		if a.lost {
			m.Lost(a.id)
			return true
		}
		a.own.WindowNs = a.end
		a.own.Workers = []WorkerReport{{}}
		if err := m.End(a.id, a.own); err != nil {
			t.Fatal(err)
		}
		return true
	}
	to := a.at + interval*rapid.SampledFrom([]int64{1, 1, 1, 2, 7}).Draw(t, "width")
	if a.at < 0 {
		to = min(to, 0)
	}
	to = min(to, a.end)
	k := m.Spare()
	if k.Sent != 0 || k.Response.Count() != 0 {
		t.Fatal("a spare one is not empty")
	}
	k.StartNs, k.EndNs, k.Warmup = a.at, to, a.at < 0
	a.at = to
	k.Sent = rapid.Uint64Range(0, 9).Draw(t, "sent")
	k.Completed, k.Statuses[200] = k.Sent, k.Sent
	k.Response.RecordN(rapid.Int64Range(0, 1<<40).Draw(t, "latency"), k.Sent)
	k.ByTarget[1].Completed, k.ByTarget[1].Statuses[200] = k.Sent, k.Sent
	k.ByTarget[1].Response.RecordN(5, k.Sent)
	if rapid.IntRange(0, 5).Draw(t, "fault") == 0 {
		k.Faults[Fault{PhaseConnect, fmt.Sprint("agent ", a.id)}] = 1
	}
	into := all
	if k.Warmup {
		into = warm
	}
	into.count(k)
	a.own.include(k)
	if err := m.Take(a.id, k); err != nil {
		t.Fatal(err)
	}
	return false
}

// TestMergerOfTheSilent: while an agent says nothing the others wait, within
// bounds; the row that ends the waiting is wide and says so, and those after it
// are not.
func TestMergerOfTheSilent(t *testing.T) {
	w := &watcher{t: t, sum: newTally(1)}
	m := NewMerger(3, 1, 100, w)
	row := func(agent int, k int64) {
		tally := m.Spare()
		tally.StartNs, tally.EndNs, tally.Sent = k*100, k*100+100, 1
		if err := m.Take(agent, tally); err != nil {
			t.Fatal(err)
		}
	}
	const n = 200
	for k := range int64(n) {
		row(0, k)
		row(1, k)
	}
	if len(w.rows) != 0 || len(m.rows.pending[0]) != mergerKeeps {
		t.Fatalf("%d rows, %d wait", len(w.rows), len(m.rows.pending[0]))
	}
	for k := range int64(n) {
		row(2, k)
	}
	if want := mergerKeeps; len(w.rows) != want || !w.rows[0].late || w.rows[1].late || w.sum.Sent != 3*n {
		t.Errorf("%d rows, want %d; %+v; %d sent", len(w.rows), want, w.rows[:2], w.sum.Sent)
	}
	m.Lost(2)
	row(0, n)
	row(1, n)
	if last := w.rows[len(w.rows)-1]; last.end != n*100+100 || last.late {
		t.Errorf("after the loss: %+v", last)
	}
}

// TestMergerRefuses: rows that came twice or too late, or of another run, change
// nothing.
func TestMergerRefuses(t *testing.T) {
	w := &watcher{t: t, sum: newTally(1)}
	m := NewMerger(2, 1, 100, w)
	k := func(from, to int64, warmup bool) *Tally {
		t := newTally(1)
		t.StartNs, t.EndNs, t.Warmup, t.Sent = from, to, warmup, 1
		return t
	}
	if err := m.Take(0, k(0, 100, false)); err != nil {
		t.Fatal(err)
	}
	for what, tally := range map[string]*Tally{
		"twice": k(0, 100, false), "backwards": k(200, 100, false), "wrong side": k(-100, 0, false),
		"both sides": k(100, 200, true), "targets": {StartNs: 100, EndNs: 200, ByTarget: make([]TargetTally, 2)},
	} {
		if m.Take(0, tally) == nil {
			t.Errorf("%s: accepted", what)
		}
	}
	if m.End(0, NewResult(2)) == nil {
		t.Error("an account of two targets was accepted")
	}
	m.Lost(1)
	if m.Agent(1) != nil || m.Take(1, k(100, 200, false)) == nil || m.End(1, NewResult(1)) == nil {
		t.Error("something came of one that is lost")
	}
	if err := m.End(0, NewResult(1)); err != nil {
		t.Error(err)
	}
	if m.End(0, NewResult(1)) == nil || m.Take(0, k(100, 200, false)) == nil {
		t.Error("something came after the end")
	}
	m.Lost(0) // says nothing of one that has ended
	if r := m.Result(); r.Total.Sent != 0 || m.Agent(0) == nil || len(w.rows) != 1 {
		t.Errorf("%d sent, %d rows", r.Total.Sent, len(w.rows))
	}
}

// TestMergerSums: each figure of the result by itself.
func TestMergerSums(t *testing.T) {
	m := NewMerger(3, 1, 100, &watcher{t: t, sum: newTally(1)})
	early, late := time.Unix(100, 0), time.Unix(200, 0)
	account := func(k uint64, at time.Time, engine string, features ...string) *Result {
		r := NewResult(1)
		r.Total.InFlight, r.Total.CPUNs, r.Total.Busy, r.Total.BatchMaxNs = k, int64(k), float64(k)/10, int64(k)
		r.Started, r.WindowNs, r.StartLateNs = at, int64(k), int64(k)
		r.Carried, r.Asked, r.Unsent, r.LateAtEnd, r.Opened, r.Established = k, k, k, k, int(k), int(k)
		r.UserNs, r.SystemNs, r.AllocatedBytes, r.Interrupted = int64(k), int64(k), k, k == 4
		r.Engine, r.EngineWhy, r.EngineFeatures = engine, "why "+engine, features
		r.Workers = []WorkerReport{{Thread: int(k)}}
		return r
	}
	for i, r := range []*Result{account(1, late, "uring", "a", "b"), account(2, early, "uring", "b", "c"), account(4, late, "epoll", "b")} {
		if err := m.End(i, r); err != nil {
			t.Fatal(err)
		}
	}
	r := m.Result()
	for what, ok := range map[string]bool{
		"sums": r.Carried == 7 && r.Asked == 7 && r.Unsent == 7 && r.LateAtEnd == 7 && r.Opened == 7 && r.Established == 7 && r.UserNs == 7 &&
			r.SystemNs == 7 && r.AllocatedBytes == 7 && r.Total.InFlight == 7,
		"peaks":   r.WindowNs == 4 && r.StartLateNs == 4 && r.Total.CPUNs == 4 && r.Total.Busy == .4 && r.Total.BatchMaxNs == 4,
		"started": r.Started.Equal(early), "interrupted": r.Interrupted,
		"engine": r.Engine == "uring, epoll" && r.EngineWhy == "why uring; why epoll" && len(r.EngineFeatures) == 1 &&
			r.EngineFeatures[0] == "b",
		"workers": len(r.Workers) == 3 && r.Workers[2].Agent == 2 && r.Workers[2].Thread == 4,
	} {
		if !ok {
			t.Errorf("%s: %+v", what, r.Workers)
		}
	}
}
