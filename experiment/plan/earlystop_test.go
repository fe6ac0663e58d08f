package plan

import (
	"math"
	"strings"
	"testing"
	"time"

	"pgregory.net/rapid"

	"ceiling/experiment/spec"
	"ceiling/internal/hist"
	"ceiling/internal/needs"
	"ceiling/record"
)

func sloOf(t testing.TB, text string) spec.SLO {
	t.Helper()
	slo, err := spec.ParseSLO(text)
	if err != nil {
		t.Fatal(err)
	}
	return slo
}

// watch runs a step of a queue under an EarlyStop. cut is how far into the step it was
// given up, in seconds, 0 where it was not; lost tells whether the whole step
// failed the SLO or owed more than 1 % of its requests.
func watch(q *queue, slo spec.SLO, perS, lengthS float64, arrivals string, number uint64, each []*hist.Hist) (cut float64, why string,
	lost bool) {
	trace := q.serve(perS, lengthS/10, lengthS, arrivals, number, each)
	d := NewEarlyStop(slo, perS, time.Duration(lengthS*1e9), arrivals)
	for i := range trace.rows {
		if why = d.Add(&trace.rows[i], each[i]); why != "" {
			cut = float64(trace.rows[i].TNs) / 1e9
			break
		}
	}
	lost = trace.owed > .01
	for _, t := range slo {
		if t.Metric == spec.MetricResponse && !t.Holds(float64(trace.response.Quantile(t.Quantile))) {
			lost = true
		}
	}
	return cut, why, lost
}

// TestEarlyStopSparesAStableQueue: a queue at 97 % of its capacity wanders, and is
// given up in no more than earlyStopAlpha of 1,000 runs.
func TestEarlyStopSparesAStableQueue(t *testing.T) {
	needs.Time(t)
	each := histograms(5)
	for _, arrivals := range []string{spec.Constant, spec.Poisson} {
		for _, load := range []float64{.97, 1} {
			q := queue{workers: 2, meanNs: 1e6, exponential: true, seed: uint64(load * 100)}
			slo := sloOf(t, "p99<300ms,errors<1%")
			alarms, runs := 0, 1000
			if testing.Short() {
				runs = 200
			}
			for n := range runs {
				if cut, _, lost := watch(&q, slo, load*q.capacity(), 5, arrivals, uint64(n), each); cut > 0 && !lost {
					alarms++
				}
			}
			if float64(alarms) > earlyStopAlpha*float64(runs) {
				t.Errorf("%s arrivals at %.2f of the capacity: %d of %d runs were given up that would have passed", arrivals, load, alarms, runs)
			}
			t.Logf("%s arrivals at %.2f of the capacity: %d of %d false alarms", arrivals, load, alarms, runs)
		}
	}
}

// TestEarlyStopCertainIsCertain: without its trend an EarlyStop gives up no run that
// would have passed, whatever the queue does.
func TestEarlyStopCertainIsCertain(t *testing.T) {
	each := histograms(4)
	for n := range uint64(400) {
		q := queue{workers: 1 + int(n%3), meanNs: 1e6, exponential: n%2 == 0, seed: n, stallFrom: float64(n % 5), stallFor: float64(n%7) / 20}
		slo := sloOf(t, []string{"p99<10ms", "p50<2ms", "p99.9<60ms,mean<4ms", "max<100ms"}[n%4])
		arrivals := []string{spec.Constant, spec.Poisson}[n/2%2]
		perS := q.capacity() * (.6 + float64(n%50)/100)
		trace := q.serve(perS, .5, 4, arrivals, n, each)
		d := NewEarlyStop(slo, perS, 4*time.Second, arrivals)
		d.trend.fromS = math.Inf(1)
		for i := range trace.rows {
			if why := d.Add(&trace.rows[i], each[i]); why != "" {
				m := record.Measured{Histogram: trace.response}
				passed := true
				for _, term := range slo {
					v, _, _ := figure(term, &m)
					passed = passed && term.Holds(v)
				}
				if passed {
					t.Errorf("run %d: %s, and it passed", n, why)
				}
				break
			}
		}
	}
}

func TestEarlyStopCutsWhatIsAboveTheCapacity(t *testing.T) {
	needs.Time(t)
	each := histograms(10)
	check := func(name string, q queue, slo string, times float64, arrivals string, before float64) {
		t.Helper()
		late, mean := 0, 0.
		const runs = 50
		for n := range uint64(runs) {
			cut, _, _ := watch(&q, sloOf(t, slo), times*q.capacity(), 10, arrivals, n, each)
			if cut == 0 || cut > before {
				late++
			}
			if cut == 0 {
				cut = 10
			}
			mean += cut / runs
		}
		if late > runs/10 {
			t.Errorf("%s: %d of %d runs were not given up before %.1f of 10 s", name, late, runs, before)
		}
		t.Logf("%s: given up after %.2f of 10 s", name, mean)
	}
	fixed := queue{workers: 4, meanNs: 400e3}
	soft := queue{workers: 4, meanNs: 400e3, exponential: true}
	check("3% above, tight", fixed, "p99<5ms", 1.03, spec.Constant, 1)
	check("3% above, loose", fixed, "p99<1s", 1.03, spec.Constant, 3)
	check("3% above, only errors", fixed, "errors<1%", 1.03, spec.Constant, 3)
	check("3% above, exponential, loose", soft, "p99<1s", 1.03, spec.Constant, 8)
	check("3% above, exponential, tight", soft, "p99<20ms", 1.03, spec.Constant, 4)
	check("3% above, Poisson, tight", soft, "p99<20ms", 1.03, spec.Poisson, 4)
	check("twice the capacity", soft, "p99<1s", 2, spec.Poisson, 2.6)
}

func TestEarlyStopLetsAStallPass(t *testing.T) {
	each := histograms(10)
	for _, from := range []float64{0, .5, 1, 1.5, 2, 4, 7, 8.5} {
		q := queue{workers: 4, meanNs: 400e3, stallFrom: from, stallFor: 1, seed: 1}
		for _, slo := range []string{"p99<1.2s", "p50<5ms", "errors<1%"} {
			cut, why, _ := watch(&q, sloOf(t, slo), .7*q.capacity(), 10, spec.Constant, 1, each)
			if cut > 0 {
				t.Errorf("a stall of 1 s at %.1f s, under %s: given up after %.1f s: %s", from, slo, cut, why)
			}
		}
		// And the one that does not fit is seen as soon as it is certain.
		if cut, _, _ := watch(&q, sloOf(t, "p99<100ms"), .7*q.capacity(), 10, spec.Constant, 1, each); cut < from || cut > from+1.3 {
			t.Errorf("a stall of 1 s at %.1f s under p99<100ms: given up after %.1f s", from, cut)
		}
	}
}

func TestEarlyStopByTerm(t *testing.T) {
	interval := func(fast, slow, failed, bad, inFlight uint64) (*record.LoadRow, *hist.Hist) {
		h := &hist.Hist{}
		h.RecordN(1e6, fast)
		h.RecordN(1e9, slow)
		return &record.LoadRow{TNs: 100e6, WidthNs: 100e6, Completed: fast + slow - failed, Failed: failed, Bad: bad, InFlight: inFlight}, h
	}
	// 1,000/s over 10 s are 10,000 requests, perhaps 10,001.
	check := func(slo string, fast, slow, failed, bad, inFlight uint64, want string) {
		t.Helper()
		row, h := interval(fast, slow, failed, bad, inFlight)
		d := NewEarlyStop(sloOf(t, slo), 1000, 10*time.Second, spec.Constant)
		d.Add(&record.LoadRow{Warmup: true}, nil)
		why := d.Add(row, h)
		if (why == "") != (want == "") || !strings.Contains(why, want) {
			t.Errorf("%s with %d fast, %d slow, %d failed, %d bad, %d in flight: %q, want %q", slo, fast, slow, failed, bad, inFlight, why, want)
		}
		if again := d.Add(row, h); why != "" && again != why {
			t.Errorf("%s: %q and then %q", slo, why, again)
		}
	}
	check("p99<100ms", 0, 100, 0, 0, 0, "")
	check("p99<100ms", 0, 102, 0, 0, 0, "102 requests are already > 100 ms")
	check("p50<100ms", 0, 102, 0, 0, 0, "")
	check("p99<50ms", 0, 0, 0, 0, 150, "")          // at most 100 of them are 50 ms old
	check("p99<50ms", 0, 0, 0, 0, 155, "104")       // and here 104, one more may be younger
	check("p99<50ms", 0, 60, 0, 0, 95, "104")       // both ways
	check("max<1s", 50, 0, 0, 0, 0, "")             // none yet
	check("max<100ms", 50, 1, 0, 0, 0, "1 request") // and none may be
	check("errors<1%", 100, 0, 0, 100, 0, "")
	check("errors<1%", 100, 0, 50, 51, 0, "101 requests have already failed")
	check("errors<=0", 10, 0, 0, 1, 0, "1 request has already failed")
	check("mean<5ms", 0, 49, 0, 0, 0, "")
	check("mean<5ms", 0, 51, 0, 0, 0, "add up")
	check("service.p99<1ms,rate>1M", 0, 500, 0, 0, 0, "")
}

// TestEarlyStopLeavesOutTheWarmup: what was in flight when the window opened is of
// the warm-up, however late it is.
func TestEarlyStopLeavesOutTheWarmup(t *testing.T) {
	d := NewEarlyStop(sloOf(t, "p99<50ms"), 1000, 10*time.Second, spec.Constant)
	d.Add(&record.LoadRow{TNs: -1, Warmup: true, InFlight: 500}, nil)
	if why := d.Add(&record.LoadRow{TNs: 100e6, InFlight: 600}, &hist.Hist{}); why != "" {
		t.Error(why)
	}
	if why := d.Add(&record.LoadRow{TNs: 200e6, InFlight: 700}, &hist.Hist{}); why == "" {
		t.Error("700 in flight after 200 ms are 200 of the window, of which at most 51 are in time")
	}
}

// TestEarlyStopTakesAnything: rows come from a run, and a run may be odd.
func TestEarlyStopTakesAnything(t *testing.T) {
	rapid.Check(t, func(r *rapid.T) {
		number := rapid.SampledFrom([]float64{0, -1, 1e-9, 1, 1e9, math.NaN(), math.Inf(1)})
		d := NewEarlyStop(sloOf(t, "p99<5ms,mean<1ms,max<1s,errors<1%"), number.Draw(r, "rate"),
			time.Duration(rapid.Int64Range(-1, 1e12).Draw(r, "length")),
			rapid.SampledFrom([]string{"", spec.Constant, spec.Poisson}).Draw(r, "arrivals"))
		for range rapid.IntRange(0, 40).Draw(r, "rows") {
			count := rapid.SampledFrom([]uint64{0, 1, 1000, math.MaxUint64})
			row := &record.LoadRow{TNs: rapid.Int64().Draw(r, "at"), Warmup: rapid.Bool().Draw(r, "warm"), Completed: count.Draw(r, "c"),
				Failed: count.Draw(r, "f"), Bad: count.Draw(r, "b"), InFlight: count.Draw(r, "i"), Backlog: count.Draw(r, "d")}
			h := &hist.Hist{}
			h.RecordN(rapid.Int64().Draw(r, "ns"), rapid.Uint64Range(0, 1e6).Draw(r, "n"))
			if rapid.Bool().Draw(r, "none") {
				h = nil
			}
			d.Add(row, h)
		}
		d.Add(nil, nil)
	})
}
