package verdict

import (
	"math/rand/v2"
	"strings"
	"testing"

	"ceiling/internal/unit"
	"ceiling/record"
)

// paced gives every row of the load the throughput that the function says, as a
// multiple of the mean, with noise of 3%.
func paced(w *watchedRun, at func(share float64) float64) *watchedRun {
	rng := rand.New(rand.NewPCG(1, 2))
	for i := range w.series.Load {
		r := &w.series.Load[i]
		times := at(float64(i)/float64(len(w.series.Load))) * (1 + .03*rng.NormFloat64())
		r.Completed = uint64(float64(r.Completed) * times)
		r.MeanNs /= times
	}
	return w
}

func TestTrend(t *testing.T) {
	falling := func(s float64) float64 { return 1.3 - .6*s }
	const slows = "the server slows down during the run: throughput fell from "
	for _, c := range []struct {
		name     string
		w        *watchedRun
		has, not string
	}{
		{"falls", paced(watched(640_000, 1.9), falling), slows, "not steady"},
		{"falls with growing memory", each(paced(watched(640_000, 1.9), falling), func(r *record.ProcessRow) { r.RSSBytes = 50<<20 + r.TNs/50 }),
			"find why the server's memory (RSS) grew from ", ""},
		{"what grows is not told where nothing does", paced(watched(640_000, .5), func(s float64) float64 { return 1.15 - .3*s }), slows, "RSS"},
		{"rises", paced(watched(640_000, 1.9), func(s float64) float64 { return .7 + .6*s }), "the server was still warming up", "slows down"},
		{"steady", paced(watched(640_000, 1.9), func(float64) float64 { return 1 }), "", "over the run ("},
		{"falls by a hundredth", paced(watched(640_000, 1.9), func(s float64) float64 { return 1.005 - .01*s }), "", "over the run ("},
		{"swings", paced(watched(640_000, 1.9), func(s float64) float64 { return 1 + .3*float64(int(s*10)%2) }), "", "over the run ("},
		{"one hole", paced(watched(640_000, 1.9), func(s float64) float64 {
			if s > .5 && s < .6 {
				return .2
			}
			return 1
		}), "", "over the run ("},
		{"a generator that is full is asked first", func() *watchedRun {
			w := paced(watched(640_000, 1.9), falling)
			w.run.Generator.BusiestWorker, w.run.Generator.Workers[0].Busy = .97, .97
			return w
		}(), "throughput fell from", slows},
		{"others took the CPU", each(paced(watched(640_000, .3), falling), func(r *record.CPURow) {
			if r.TNs > 5e9 {
				for i := range r.Cores {
					r.Cores[i].User, r.Cores[i].Idle = r.Cores[i].User+r.Cores[i].Idle, 0
				}
			}
		}), "other processes used ", slows},
	} {
		v := c.w.judge()
		if text := sayings(v); !strings.Contains(text, c.has) || c.not != "" && strings.Contains(text, c.not) {
			t.Errorf("%s: has to have %q and not %q:\n%s", c.name, c.has, c.not, text)
		}
	}
}

// TestTrendOfAnOpenLoop: the rate is what was asked, so the response times tell;
// a ramp that was asked for is no slowdown.
func TestTrendOfAnOpenLoop(t *testing.T) {
	opened := func() *watchedRun {
		w := watched(4_000_000, .5)
		w.run.Load.Mode, w.run.Load.TargetPerS, w.run.Load.Arrivals = "open", 16_000, "constant"
		w.run.Spec.Rate = mustRate(t, "16k")
		for i := range w.series.Load {
			w.series.Load[i].MeanNs *= 1 + 2*float64(i)/100
			w.series.Load[i].InFlight = 0
		}
		return w
	}
	if text := sayings(opened().judge()); !strings.Contains(text, "slows down during the run: the mean response time rose from 4.") {
		t.Error(text)
	}
	ramp := opened()
	ramp.run.Spec.Rate = mustRate(t, "1k:31k")
	if text := sayings(ramp.judge()); strings.Contains(text, "slows down") {
		t.Error(text)
	}
}

func mustRate(t *testing.T, text string) unit.Rate {
	t.Helper()
	r, err := unit.ParseRate(text)
	if err != nil {
		t.Fatal(err)
	}
	return r
}
