package main

import (
	"container/heap"
	"context"
	"fmt"
	"io"
	"math"
	"math/rand/v2"
	"time"

	"ceiling/record"
	"ceiling/verdict/prose"
)

// SearchTrial is a kind of search that `ceiling find` ran repeatedly against a server of known
// capacity.
type SearchTrial struct {
	SLO string `json:"slo"`
	// TruthPerS of each search, AnswerPerS, and the number of its runs.
	TruthPerS  []float64 `json:"truth_per_s"`
	AnswerPerS []float64 `json:"answer_per_s"`
	Runs       []int     `json:"runs"`
	TookS      []float64 `json:"took_s"`
	// WorstError is the largest |answer - truth| / truth.
	WorstError float64 `json:"worst_error_share"`
}

// The planted server processes foundPlaces requests concurrently, each for foundService. The
// truth is measured before each search, since sleeps last slightly longer than requested: a
// closed loop that keeps all places busy reaches places / service.
const (
	foundPlaces  = 8
	foundService = 10 * time.Millisecond
	foundRun     = "3s"
	foundError   = 0.05 // target
)

// searchKind is an SLO and the rate at which a given capacity meets it.
type searchKind struct {
	slo   string
	args  []string
	truth func(capacity float64, seed uint64) float64
}

// searchKinds cut on both sides of the knee. With evenly spaced arrivals and equal service times
// the queue stays empty up to the capacity, so a loose SLO holds up to there; under Poisson
// arrivals a tight one fails well below it.
func searchKinds() []searchKind {
	const tight = 17 * time.Millisecond
	return []searchKind{
		{"p99<200ms", nil, func(capacity float64, _ uint64) float64 { return capacity }},
		{fmt.Sprintf("p99<%s", tight), []string{"--arrivals", "poisson", "-c", "256"}, func(capacity float64, seed uint64) float64 {
			return queueRate(foundPlaces, foundPlaces/capacity, tight.Seconds(), seed)
		}},
	}
}

// found runs `ceiling find` where the answer is known.
func (b *bench) found(ctx context.Context, e *Entry) {
	for _, k := range searchKinds() {
		row := SearchTrial{SLO: k.slo}
		for i := range b.rounds {
			if ctx.Err() != nil {
				return
			}
			b.progress("search %d of %d for %s", i+1, b.rounds, k.slo)
			if err := b.findOnce(ctx, &k, b.seed+uint64(i), &row); err != nil {
				b.failed(ctx, "find "+k.slo, err)
			}
		}
		if len(row.AnswerPerS) == 0 {
			continue
		}
		e.Found = append(e.Found, row)
		e.Targets = append(e.Targets, target(fmt.Sprintf("find %s: worst error of %d searches", k.slo, len(row.AnswerPerS)), row.WorstError,
			foundError, "share"))
	}
}

func (b *bench) findOnce(ctx context.Context, k *searchKind, seed uint64, row *SearchTrial) error {
	s, err := serveCommand(ctx, b.binary, "planted", "pool", "--n", fmt.Sprint(foundPlaces), "--sleep", foundService.String())
	if err != nil {
		return err
	}
	defer s.stop()
	var closed record.Run
	if err := b.decode(ctx, &closed, "run", "-c", "64", "-d", "4s", "--json", s.url("/")); err != nil {
		return err
	}
	truth := k.truth(closed.Rate.CompletedPerS, seed)
	var p record.Plan
	begin := time.Now()
	args := append([]string{"find", "--slo", k.slo, "-d", foundRun, "--pause", "0s", "--seed", fmt.Sprint(seed), "--json"}, k.args...)
	if err := b.decode(ctx, &p, append(args, s.url("/"))...); err != nil {
		return err
	}
	if p.Search == nil {
		return fmt.Errorf("the plan is %s: %s", p.Ended, prose.Text(p.Because))
	}
	row.TruthPerS, row.AnswerPerS = append(row.TruthPerS, truth), append(row.AnswerPerS, p.Search.Capacity.Mid)
	row.Runs, row.TookS = append(row.Runs, len(p.Runs)), append(row.TookS, time.Since(begin).Seconds())
	row.WorstError = max(row.WorstError, math.Abs(p.Search.Capacity.Mid-truth)/truth)
	return nil
}

// queueArrivals of a simulated queue: p99 rests on 4,000 of them.
const queueArrivals = 400_000

// queueRate returns the rate of Poisson arrivals, per second, at which the p99 of the time in a
// queue with equal service times reaches a limit (seconds): by simulation, with the same arrivals
// scaled to every rate, so that p99 grows monotonically.
func queueRate(places int, service, limit float64, seed uint64) float64 {
	low, high := 0.0, float64(places)/service
	for range 14 {
		middle := (low + high) / 2
		if queueP99(places, service, middle, seed) <= limit {
			low = middle
		} else {
			high = middle
		}
	}
	return low
}

func queueP99(places int, service, perS float64, seed uint64) float64 {
	chance := rand.New(rand.NewPCG(seed, 99))
	free := make(times, places) // when each place becomes free
	var now float64
	slow := make(times, 0, queueArrivals/100+1) // the slowest hundredth, smallest first
	for range queueArrivals {
		now += chance.ExpFloat64() / perS
		start := max(now, free[0])
		free[0] = start + service
		heap.Fix(&free, 0)
		heap.Push(&slow, start+service-now)
		if len(slow) > queueArrivals/100 {
			heap.Pop(&slow)
		}
	}
	return slow[0]
}

// times is a min-heap.
type times []float64

func (t times) Len() int           { return len(t) }
func (t times) Less(i, j int) bool { return t[i] < t[j] }
func (t times) Swap(i, j int)      { t[i], t[j] = t[j], t[i] }
func (t *times) Push(x any)        { *t = append(*t, x.(float64)) }
func (t *times) Pop() any {
	last := (*t)[len(*t)-1]
	*t = (*t)[:len(*t)-1]
	return last
}

func printFound(w io.Writer, e *Entry) {
	if len(e.Found) == 0 {
		return
	}
	head(w, "Searches: the highest rate that meets the SLO, of a server whose capacity is known", "slo", "truth /s", "answer /s", "error", "runs",
		"took")
	for _, f := range e.Found {
		for i := range f.AnswerPerS {
			fmt.Fprintf(w, "%s\t%.0f\t%.0f\t%+.1f%%\t%d\t%.0f s\t\n", f.SLO, f.TruthPerS[i], f.AnswerPerS[i],
				100*(f.AnswerPerS[i]/f.TruthPerS[i]-1), f.Runs[i], f.TookS[i])
		}
	}
}
