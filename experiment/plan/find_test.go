package plan

import (
	"math"
	"math/rand/v2"
	"reflect"
	"slices"
	"strings"
	"testing"
	"time"

	"pgregory.net/rapid"

	"ceiling/experiment/spec"
	"ceiling/internal/hist"
	"ceiling/internal/needs"
	"ceiling/internal/unit"
	"ceiling/record"
	"ceiling/record/recordtest"
	"ceiling/verdict/prose"
)

// searching is a search for the given SLO.
func searching(t testing.TB, slo, arrivals string) *spec.Experiment {
	t.Helper()
	terms, err := spec.ParseSLO(slo)
	if err != nil {
		t.Fatal(err)
	}
	e := &spec.Experiment{
		Kind: spec.KindFind, SLO: terms,
		Servers:  []spec.Server{{URL: "http://127.0.0.1:1"}},
		Requests: []spec.Mix{{MixRequest: spec.MixRequest{Path: "/"}}},
		Load:     spec.Load{Settings: spec.Settings{Arrivals: arrivals}},
	}
	e.Complete(1)
	if err := e.Check(); err != nil {
		t.Fatal(err)
	}
	return e
}

// search drives Next to its end and concludes.
func search(t testing.TB, e *spec.Experiment, do func(*record.Step) record.Measured) *record.Plan {
	t.Helper()
	return searchDeciding(t, e, func(d *Decision) record.Measured { return do(d.Next) })
}

// searchDeciding is search for runs that may stop early.
func searchDeciding(t testing.TB, e *spec.Experiment, do func(*Decision) record.Measured) *record.Plan {
	t.Helper()
	p := &record.Plan{Experiment: *e}
	for {
		d := Next(e, p.Runs)
		if d.Next == nil {
			p.Ended, p.Because = d.Ended, d.Because
			Conclude(p)
			onePercentile(t, p.Search)
			return p
		}
		if len(p.Runs) > spec.RunsMax {
			t.Fatal("the search does not end")
		}
		if d.Left < 1 {
			t.Fatalf("a run is to come and %d are left", d.Left)
		}
		p.Runs = append(p.Runs, do(&d))
	}
}

// onePercentile: the p99 in an answer is that of its row in the table.
func onePercentile(t testing.TB, s *record.Search) {
	t.Helper()
	for _, broken := range s.Failed {
		if strings.HasPrefix(broken.Term, "p99<") && !slices.ContainsFunc(s.Rates, func(r record.TriedRate) bool {
			return r.MissedAtLeast == broken.AtLeast && float64(r.MissedP99Ns) == broken.Value
		}) {
			t.Errorf("the answer has a p99 of %.0f ns, the table %+v", broken.Value, s.Rates)
		}
	}
}

// truth is the highest rate at which the undisturbed queue holds p99 within
// limit, from one long run for each rate.
func truth(q queue, limit time.Duration, arrivals string) float64 {
	q.disturbed = 0
	low, high := 0., 1.
	for i := 0; i < 12; i++ {
		mid := (low + high) / 2
		perS := mid * q.capacity()
		t := q.serve(perS, 400_000/perS/20, 400_000/perS, arrivals, 1, nil)
		if t.response.Quantile(.99) <= int64(limit) {
			low = mid
		} else {
			high = mid
		}
	}
	return low * q.capacity()
}

func TestFindWithinFivePercentOfTheTruth(t *testing.T) {
	needs.Time(t)
	us := 1e3
	for _, c := range []struct {
		name     string
		q        queue
		arrivals string
		limit    time.Duration
		truth    float64 // where it is known by reasoning
	}{
		// One exponential worker under Poisson arrivals: P(response > t) = e^−(µ−λ)t,
		// so p99 is ln(100)/(µ−λ).
		{"tight, M/M/1", queue{workers: 1, meanNs: 200 * us, exponential: true}, spec.Poisson, 2 * time.Millisecond, 5000 - math.Log(100)/.002},
		{"loose, M/M/1", queue{workers: 1, meanNs: 200 * us, exponential: true}, spec.Poisson, 50 * time.Millisecond, 5000 - math.Log(100)/.05},
		{"tight, D/M/4", queue{workers: 4, meanNs: 800 * us, exponential: true}, spec.Constant, 4 * time.Millisecond, 0},
		{"tight, M/D/2", queue{workers: 2, meanNs: 400 * us}, spec.Poisson, time.Millisecond, 0},
		// Fixed work at even distances has its knee at the capacity itself,
		// whatever the limit.
		{"D/D/4", queue{workers: 4, meanNs: 800 * us}, spec.Constant, 2 * time.Millisecond, 5000},
		{"beyond the knee, D/M/4", queue{workers: 4, meanNs: 800 * us, exponential: true}, spec.Constant, time.Second, 5000},
	} {
		t.Run(c.name, func(t *testing.T) {
			t.Parallel()
			if c.truth == 0 {
				c.truth = truth(c.q, c.limit, c.arrivals)
			}
			e := searching(t, "p99<"+c.limit.String()+",errors<0.1%", c.arrivals)
			var runs, took, inside, worst float64
			seeds := 10.
			if testing.Short() {
				seeds = 3
			}
			for seed := uint64(1); float64(seed) <= seeds; seed++ {
				c.q.seed, c.q.disturbed, c.q.slower = seed, .1, 1.2
				p := searchDeciding(t, e, func(d *Decision) record.Measured { return c.q.measured(e, d) })
				holds := p.Search.Capacity
				off := holds.Mid/c.truth - 1
				worst = math.Max(worst, math.Abs(off))
				if math.Abs(off) > .05 || p.Ended != record.EndedConverged || p.Exit != 0 || p.Search.Limit != record.LimitServer {
					t.Errorf("seed %d: %s; the truth is %.0f (%+.1f%%); %s, %s, exit %d", seed, prose.Text(p.Search.Says), c.truth, 100*off, p.Ended, prose.Text(p.Because),
						p.Exit)
					for _, r := range p.Search.Rates {
						t.Logf("  %+v", r)
					}
				}
				runs += float64(len(p.Runs)) / seeds
				for _, m := range p.Runs {
					took += m.TookS / seeds
				}
				if holds.Low <= c.truth && c.truth <= holds.High {
					inside += 1. / seeds
				}
			}
			t.Logf("truth %.0f/s (%.1f%% of the capacity): worst %.1f%% off, truth inside the interval in %.0f%%, %.1f runs, %.0f s", c.truth,
				100*c.truth/c.q.capacity(), 100*worst, 100*inside, runs, took)
		})
	}
}

// ideal is a server with a sharp limit.
func ideal(e *spec.Experiment, capacity float64) func(*record.Step) record.Measured {
	return func(s *record.Step) record.Measured {
		return fake(e, s, s.Rate.PerSecond() <= capacity, capacity)
	}
}

// fake is a run that passed or failed every latency term.
func fake(e *spec.Experiment, s *record.Step, holds bool, capacity float64) record.Measured {
	m := record.Measured{Step: *s, Outcome: record.Valid, Bottleneck: record.TargetRate, ElapsedS: 5, TookS: 5.5,
		TargetPerS: s.Rate.PerSecond()}
	m.CompletedPerS = math.Min(s.Rate.PerSecond(), capacity)
	if s.Rate.IsZero() {
		m.CompletedPerS = capacity
	}
	m.Completed = uint64(m.CompletedPerS*5) + 1
	m.Histogram = &hist.Hist{}
	ns := int64(1e6)
	if !holds {
		ns, m.Outcome, m.Bottleneck = 100e6, record.Fail, "single-threaded server"
	}
	m.Histogram.RecordN(ns, m.Completed)
	m.Response = record.QuantilesOf(m.Histogram)
	return m
}

func TestFindTriesEveryRateMoreThanOnce(t *testing.T) {
	e := searching(t, "p99<5ms", "")
	p := search(t, e, ideal(e, 48_300))
	s := p.Search
	if p.Ended != record.EndedConverged || s.Limit != record.LimitServer || s.Bottleneck != "single-threaded server" || p.Exit != 0 {
		t.Fatalf("%s %q %q, exit %d: %s", p.Ended, s.Limit, s.Bottleneck, p.Exit, prose.Text(s.Says))
	}
	if s.Capacity.Low > 48_300 || s.Capacity.High < 48_300 || s.Capacity.High/s.Capacity.Low > 1.03 || s.Capacity.Mid != s.Capacity.Low {
		t.Errorf("%+v", s.Capacity)
	}
	for _, r := range s.Rates {
		if r.Runs < 2 || r.Pass > 0 && r.Fail > 0 {
			t.Errorf("%+v", r)
		}
	}
	if len(s.Failed) != 1 || s.Failed[0].Term != "p99<5ms" || s.Failed[0].Met || math.Abs(s.Failed[0].Value/100e6-1) > .01 {
		t.Errorf("breaks %+v", s.Failed)
	}
	if want := "p99 is 100 ms (p99<5ms); bottleneck there: single-threaded server."; !strings.HasSuffix(prose.Text(s.Says), want) {
		t.Errorf("says %q", prose.Text(s.Says))
	}
	if len(p.Runs) > 16 {
		t.Errorf("%d runs for a server without noise", len(p.Runs))
	}
}

func TestFindEnds(t *testing.T) {
	needs.Time(t)
	check := func(name, slo string, change func(*spec.Experiment), do func(*spec.Experiment, *record.Step) record.Measured,
		ended, limit string, exit, mostRuns int, holds func(record.Estimate) bool) {
		t.Helper()
		e := searching(t, slo, "")
		if change != nil {
			change(e)
		}
		p := search(t, e, func(s *record.Step) record.Measured { return do(e, s) })
		if p.Ended != ended || p.Search.Limit != limit || p.Exit != exit || len(p.Runs) > mostRuns || !holds(p.Search.Capacity) {
			t.Errorf("%s: %s, limit %q, exit %d, %d runs, %+v\n%s\n%s", name, p.Ended, p.Search.Limit, p.Exit, len(p.Runs), p.Search.Capacity,
				prose.Text(p.Because), prose.Text(p.Search.Says))
		}
		t.Logf("%s: %d runs: %s", name, len(p.Runs), prose.Text(p.Search.Says))
	}
	near := func(rate float64) func(record.Estimate) bool {
		return func(e record.Estimate) bool { return e.Low <= rate && e.Low >= .95*rate }
	}
	none := func(e record.Estimate) bool { return e.Mid == 0 }
	capacity := func(c float64) func(*spec.Experiment, *record.Step) record.Measured {
		return func(e *spec.Experiment, s *record.Step) record.Measured { return ideal(e, c)(s) }
	}
	never := func(e *spec.Experiment, s *record.Step) record.Measured { return fake(e, s, false, 1e5) }
	generator := func(e *spec.Experiment, s *record.Step) record.Measured {
		m := fake(e, s, true, 1e6)
		if m.TargetPerS > 70_000 {
			m.Outcome, m.Bottleneck = record.Invalid, record.LoadGenerator
		}
		if s.WarmupRun {
			m.CompletedPerS, m.Bottleneck = 60_000, record.LoadGenerator
		}
		return m
	}
	check("most", "p99<5ms", func(e *spec.Experiment) { e.Find.Most = 20_000 }, capacity(50_000), record.EndedConverged, record.LimitAsked, 0,
		5, near(20_000))
	check("start", "p99<5ms", func(e *spec.Experiment) { e.Find.Start = 100 }, capacity(50_000), record.EndedConverged, record.LimitServer, 0,
		28, near(50_000))
	check("start above", "p99<5ms", func(e *spec.Experiment) { e.Find.Start = 1_000_000 }, capacity(50_000), record.EndedConverged,
		record.LimitServer, 0, 28, near(50_000))
	check("low capacity", "p99<5ms", nil, capacity(7), record.EndedConverged, record.LimitServer, 0, 20,
		func(e record.Estimate) bool { return e.Low == 7 && e.High == 8 })
	check("no rate", "p99<5ms", nil, never, record.EndedEarly, record.LimitNone, 3, 13, none)
	check("generator", "p99<5ms", nil, generator, record.EndedEarly, record.LimitGenerator, 4, 16,
		func(e record.Estimate) bool { return e.Low <= 70_000 && e.Low > 60_000 && e.High > 70_000 })
	check("rate term passed", "p99<5ms,rate>10k", nil, capacity(50_000), record.EndedConverged, record.LimitServer, 0, 24, near(50_000))
	check("rate term not passed", "p99<5ms,rate>100k", nil, capacity(50_000), record.EndedConverged, record.LimitServer, 3, 24, near(50_000))
	check("all fail at once", "p99<5ms,errors<0.1%", nil, func(e *spec.Experiment, s *record.Step) record.Measured {
		m := fake(e, s, true, 1e5)
		m.BadShare, m.Failed, m.Bottleneck = 1, m.Completed, "errors"
		return m
	}, record.EndedEarly, record.LimitNone, 3, 13, none)
	check("nothing answers", "p99<5ms,errors<0.1%", nil, func(e *spec.Experiment, s *record.Step) record.Measured {
		return record.Measured{Step: *s, Outcome: record.Invalid, Failed: 100, BadShare: 1, Because: recordtest.Says("no request was answered")}
	}, record.EndedEarly, record.LimitNone, 4, silentEver, none)
	check("always invalid", "p99<5ms", nil, func(e *spec.Experiment, s *record.Step) record.Measured {
		m := fake(e, s, true, 1e5)
		m.Outcome, m.Bottleneck, m.Because = record.Invalid, record.Inconclusive, recordtest.Says("the CPU rows do not add up")
		return m
	}, record.EndedEarly, record.LimitNone, 4, voidsInRow+1, none)
	check("invalid above", "errors<0.1%", nil, func(e *spec.Experiment, s *record.Step) record.Measured {
		m := fake(e, s, true, 1e5)
		if m.TargetPerS > 80_000 {
			m.Outcome, m.Bottleneck = record.Invalid, record.Inconclusive
		}
		return m
	}, record.EndedEarly, record.LimitUnproved, 4, 20, func(e record.Estimate) bool { return e.Low > 70_000 && e.Low <= 80_000 })
	check("dies", "p99<5ms", nil, func(e *spec.Experiment, s *record.Step) record.Measured {
		if s.Number < 6 {
			return ideal(e, 50_000)(s)
		}
		return record.Measured{Step: *s, Outcome: record.Invalid, Failed: 100, BadShare: 1}
	}, record.EndedEarly, record.LimitServer, 4, 6+silentInRow, func(e record.Estimate) bool { return e.Low > 0 })
}

// TestFindSurvivesAFalseBreak breaks every run of one rate that would hold, up
// to the second: the confirmation has to find out.
func TestFindSurvivesAFalseBreak(t *testing.T) {
	e := searching(t, "p99<5ms", "")
	e.Find.Start = 10_000
	for wrong := 1; wrong <= 2; wrong++ {
		seen := 0
		p := search(t, e, func(s *record.Step) record.Measured {
			m := ideal(e, 48_300)(s)
			if s.Rate.PerSecond() == 40_000 && seen < wrong {
				seen++
				m = fake(e, s, false, 40_000)
			}
			return m
		})
		if h := p.Search.Capacity; seen != wrong || h.Low > 48_300 || h.High < 48_300 || h.High/h.Low > 1.03 {
			t.Errorf("%d false outcomes (%d asked for): %+v after %d runs: %s", seen, wrong, h, len(p.Runs), prose.Text(p.Search.Says))
		}
		if len(p.Search.Caveats) == 0 {
			t.Error("two runs of one rate contradicted each other, and there is no doubt")
		}
	}
	// Of rates that contradict each other, the answer is below all that failed, and the lowest of them runs again.
	p := &record.Plan{Experiment: *e, Ending: record.Ending{Ended: record.EndedEarly}}
	for perS, votes := range map[string]string{"1200": "++", "1265": "-+-", "1300": "--+", "1400": "+++", "1410": "---"} {
		rate, _ := unit.ParseRate(perS)
		for _, vote := range votes {
			p.Runs = append(p.Runs, fake(e, &record.Step{Condition: spec.Condition{Rate: rate, Connections: 64}}, vote == '+', 1400))
		}
	}
	Conclude(p)
	s, d := p.Search, Next(e, p.Runs)
	if s.Capacity.Mid != 1200 || s.Capacity.High < 1400 || s.Says.With["failing_per_s"] != 1265. || d.Next == nil || d.Next.Rate.PerSecond() != 1265 {
		t.Errorf("%+v: %s; next %+v", s.Capacity, prose.Text(s.Says), d.Next)
	}
}

// TestFindWidensWhereItCannotTell: between 44,000 and 48,000 the coin decides.
func TestFindWidensWhereItCannotTell(t *testing.T) {
	needs.Time(t)
	e := searching(t, "p99<5ms", "")
	for seed := uint64(1); seed <= 10; seed++ {
		chance := rand.New(rand.NewPCG(seed, 1))
		p := search(t, e, func(s *record.Step) record.Measured {
			perS := s.Rate.PerSecond()
			return fake(e, s, perS < 44_000 || perS < 48_000 && chance.IntN(2) == 0, 46_000)
		})
		h := p.Search.Capacity
		if h.Low > 48_000 || h.High < 44_000 || h.High/h.Low > 1.25 {
			t.Errorf("seed %d: %s %+v: %s", seed, p.Ended, h, prose.Text(p.Search.Says))
		}
		if wide := h.High/h.Low > 1.03; wide != (len(h.Warnings) > 0) || len(p.Search.Caveats) == 0 {
			t.Errorf("seed %d: %+v, doubts %q", seed, h, p.Search.Caveats)
		}
	}
}

// TestFindPoolsShortRuns: 200 requests of a run do not tell a p99, those of two
// or three do better together.
func TestFindPoolsShortRuns(t *testing.T) {
	e := searching(t, "p99<5ms", "")
	at := func(slow uint64) record.Measured {
		rate, _ := unit.ParseRate("40")
		m := record.Measured{Step: record.Step{Condition: spec.Condition{Rate: rate, Connections: 64}},
			Outcome: record.Valid, Completed: 200, Histogram: &hist.Hist{}}
		m.Histogram.RecordN(1e6, 200-slow)
		m.Histogram.RecordN(50e6, slow)
		return m
	}
	check := func(want rateState, slow ...uint64) {
		t.Helper()
		var done []record.Measured
		for _, n := range slow {
			done = append(done, at(n))
		}
		s := surveyOf(e, done)
		if got := s.standing(&s.rates[0]); got != want {
			t.Errorf("%v slow ones: %d, want %d", slow, got, want)
		}
	}
	check(passed, 0, 0)
	check(failed, 3, 0, 30) // 33 of 600
	check(passed, 3, 1)     // 4 of 400, though one of them alone breaks
	check(failed, 1, 5)
	check(failed, 30, 40)
	d := Next(e, []record.Measured{fake(e, &record.Step{WarmupRun: true}, true, 80)})
	if d.Next == nil || d.MayStopEarly {
		t.Errorf("a step of 200 requests may give up at the third slow one: %+v", d.Next)
	}
}

// TestEarlyEndIsABound: of runs that were stopped early a quantile is what the whole runs would have had at
// least, had the rest been fast: not the quantile of their beginnings.
func TestEarlyEndIsABound(t *testing.T) {
	rate, _ := unit.ParseRate("1000")
	for slo, want := range map[string][]int64{"p99<5ms": {20e6}, "p90<5ms": {5e6}, "p99<5ms,p90<5ms": {20e6}, "p99<5ms,errors<1%": {20e6}} {
		e := searching(t, slo, "")
		e.Load.Duration = spec.Time(5 * time.Second)
		var done []record.Measured
		for range 2 {
			m := fake(e, &record.Step{Condition: spec.Condition{Rate: rate}}, false, 1000)
			m.StoppedEarly, m.Histogram = "it cannot be met", new(hist.Hist)
			m.Histogram.RecordN(1e6, 200)
			m.Histogram.RecordN(20e6, 60)
			m.Histogram.RecordN(80e6, 40) // of 5000: fewer than 1%
			m.Response = record.QuantilesOf(m.Histogram)
			done = append(done, m)
		}
		s := surveyOf(e, done)
		failed := s.failedAt(&s.rates[0])
		for i, term := range failed {
			if math.Abs(term.Value/float64(want[i])-1) > .01 || !term.AtLeast {
				t.Errorf("%s: %+v, want at least %v", slo, failed, want)
			}
		}
		if len(failed) != len(want) {
			t.Errorf("%s: %+v, want %v", slo, failed, want)
		}
	}
}

// TestFewRequestsForErrors: ten requests without an error do not show a share below 0.1%.
func TestFewRequestsForErrors(t *testing.T) {
	for slo, needed := range map[string]float64{"errors<0.1%": 3000, "p99<5ms": 1000, "p99<5ms,errors<1%": 1000, "p99<5ms,errors<0.1%": 3000} {
		if s := surveyOf(searching(t, slo, ""), nil); math.Abs(s.needed()-needed) > 1 {
			t.Errorf("%s: %.0f requests, want %.0f", slo, s.needed(), needed)
		}
	}
}

func TestFindConnections(t *testing.T) {
	check := func(slo string, given int, perS float64, want int) {
		t.Helper()
		e := searching(t, slo, "")
		if given > 0 {
			e.Load.Connections = []spec.Count{spec.Count(given)}
		}
		s := surveyOf(e, nil)
		if got := s.run(perS).Next.Connections; got != want {
			t.Errorf("%s at %.0f/s: %d connections, want %d", slo, perS, got, want)
		}
	}
	check("p99<5ms", 0, 1000, 64)
	check("p99<5ms", 0, 20_000, 256) // 20,000/s × 5 ms = 100, and room
	check("p99<5ms,p99.9<50ms", 0, 20_000, 256)
	check("p99<1s", 0, 100_000, 4096)
	check("errors<1%", 0, 10_000, 2048)
	check("p99<5ms", 7, 20_000, 7)
}

// TestFindKeepsTheConnections of a rate in all its runs, and does not go below
// those in use once the answer is bracketed.
func TestFindKeepsTheConnections(t *testing.T) {
	e := searching(t, "p99<20ms", "")
	e.Find.Start = 1000
	p := search(t, e, ideal(e, 48_300))
	at, narrowing, most := map[float64]int{}, false, 0
	for _, m := range p.Runs {
		perS := m.Rate.PerSecond()
		if n := at[perS]; n > 0 && n != m.Connections {
			t.Errorf("%.0f/s with %d connections and with %d", perS, n, m.Connections)
		} else if n == 0 && narrowing && m.Connections != most {
			t.Errorf("%.0f/s with %d connections, %d were in use", perS, m.Connections, most)
		}
		at[perS], most = m.Connections, max(most, m.Connections)
		narrowing = narrowing || m.Outcome == record.Fail && m.Repeat == 2
	}
}

// TestNextIsAFunctionOfTheHistory: a search that goes on from its record does
// the same as one that was never broken off, and Next changes nothing.
func TestNextIsAFunctionOfTheHistory(t *testing.T) {
	e := searching(t, "p99<3ms,errors<0.1%", spec.Poisson)
	q := queue{workers: 2, meanNs: 1e6, exponential: true, disturbed: .2, slower: 1.2, seed: 3}
	var decisions []Decision
	p := searchDeciding(t, e, func(d *Decision) record.Measured { return q.measured(e, d) })
	for i := range p.Runs {
		decisions = append(decisions, Next(e, p.Runs[:i]))
	}
	for i := range p.Runs {
		again := Next(e, append([]record.Measured(nil), p.Runs[:i]...))
		if !reflect.DeepEqual(again, decisions[i]) || !reflect.DeepEqual(*again.Next, p.Runs[i].Step) {
			t.Fatalf("after %d runs: %+v, and again %+v", i, decisions[i].Next, again.Next)
		}
	}
}

// TestFindAlwaysEnds whatever the runs say.
func TestFindAlwaysEnds(t *testing.T) {
	needs.Time(t)
	slos := []string{"p99<5ms", "p99.9<1ms,errors<=0", "max<1s", "mean<2ms,rate>10k", "service.p50<1ms", "errors<1%", "rate>100"}
	rapid.Check(t, func(r *rapid.T) {
		e := searching(t, rapid.SampledFrom(slos).Draw(r, "slo"), "")
		e.Repeats = rapid.SampledFrom([]int{0, 1, 2, 3, 7}).Draw(r, "repeats")
		e.Find.Start = spec.Count(rapid.SampledFrom([]int{0, 1, 100, 1e9}).Draw(r, "start"))
		e.Find.Within = rapid.SampledFrom([]float64{0, 1e-9, .03, .5}).Draw(r, "within")
		if rapid.Bool().Draw(r, "bounded") {
			e.Find.Most = max(e.Find.Start, spec.Count(rapid.IntRange(1, 1e6).Draw(r, "most")))
		}
		chance := rand.New(rand.NewPCG(rapid.Uint64().Draw(r, "seed"), 1))
		p := search(t, e, func(s *record.Step) record.Measured { return garbage(chance, e, s) })
		if len(p.Runs) > spec.RunsMax || p.Ended == "" || p.Because.IsZero() || p.Search.Says.IsZero() {
			r.Fatalf("%d runs, %q because %q says %q", len(p.Runs), p.Ended, prose.Text(p.Because), prose.Text(p.Search.Says))
		}
		for _, m := range p.Runs {
			if rate := m.Rate.PerSecond(); !m.WarmupRun && (rate < 1 || rate > spec.RateMax || e.Find.Most > 0 && rate > float64(e.Find.Most)) {
				r.Fatalf("asked for %v/s", rate)
			}
			if m.Connections < 1 || m.Pipelining < 1 {
				r.Fatalf("%+v", m.Step)
			}
		}
		if h := p.Search.Capacity; h.Low > h.Mid || h.Mid > math.Max(h.High, h.Mid) || p.Search.Limit == record.LimitServer && h.High <= h.Low {
			r.Fatalf("%+v", h)
		}
	})
}

func garbage(chance *rand.Rand, e *spec.Experiment, s *record.Step) record.Measured {
	pick := func(list ...string) string { return list[chance.IntN(len(list))] }
	odd := func() float64 {
		return []float64{0, 1, -1, math.NaN(), math.Inf(1), 1e300, chance.Float64() * 1e6}[chance.IntN(7)]
	}
	m := fake(e, s, chance.IntN(2) == 0, 1e5)
	if chance.IntN(2) == 0 {
		return m
	}
	m.Outcome = []record.Outcome{record.Valid, record.Fail, record.Invalid, ""}[chance.IntN(4)]
	m.Bottleneck = []record.Bottleneck{"server CPU", record.LoadGenerator, record.Inconclusive, record.TargetRate, "",
		"concurrency"}[chance.IntN(6)]
	m.StoppedEarly = pick("", "", "the queue grew")
	m.CompletedPerS, m.TargetPerS, m.BadShare, m.ElapsedS = odd(), odd(), odd(), odd()
	m.Completed, m.Failed = chance.Uint64N(3)*chance.Uint64(), chance.Uint64N(2)
	m.SLO = []record.SLOTerm{{Term: pick("p99<5ms", "service.p50<1ms"), Value: odd()}}
	if chance.IntN(2) == 0 {
		m.Histogram = nil
	}
	switch { // no program's record has another p99 than its histogram
	case m.SLO[0].Term == "p99<5ms" && m.Histogram == nil:
		m.SLO[0].Term = "service.p50<1ms"
	case m.SLO[0].Term == "p99<5ms":
		m.SLO[0].Value = float64(m.Response.P99Ns)
	}
	return m
}

// TestOwedAnswersAreABrokenRate: what was sent and not answered is no rate that
// can be passed, also where nobody knows where it waited.
func TestOwedAnswersAreABrokenRate(t *testing.T) {
	slo, err := spec.ParseSLO("p99<200ms")
	if err != nil {
		t.Fatal(err)
	}
	s := &searchState{slo: slo}
	for _, c := range []struct {
		m    record.Measured
		want classification
	}{
		{record.Measured{Outcome: record.Invalid, Bottleneck: record.Inconclusive, Completed: 100, BacklogShare: 0.05}, classMissed},
		{record.Measured{Outcome: record.Invalid, Bottleneck: record.Inconclusive, Completed: 100, BacklogShare: 0.005}, classUnusable},
		{record.Measured{Outcome: record.Invalid, Bottleneck: record.LoadGenerator, Completed: 100, BacklogShare: 0.05}, classGeneratorLimited},
		{record.Measured{Outcome: record.Invalid, Bottleneck: "server blocked", Completed: 100}, classMissed},
	} {
		if got, broken := s.judge(&c.m); got != c.want || (got == classMissed) != (len(broken) == 1) {
			t.Errorf("%+v: %v, broken %v; want %v", c.m, got, broken, c.want)
		}
	}
}
