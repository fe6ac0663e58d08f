package stat

import (
	"math"
	"math/rand/v2"
	"reflect"
	"strings"
	"testing"

	"pgregory.net/rapid"
)

func doublings() []float64 { return []float64{1, 2, 4, 8, 16, 32, 64, 128} }

func uslPoints(lambda, sigma, kappa float64, ns []float64, repeats int, noise float64, r *rand.Rand) []Point {
	var points []Point
	for _, n := range ns {
		p := Point{N: n}
		for range repeats {
			p.X = append(p.X, lambda*n/(1+sigma*(n-1)+kappa*n*(n-1))*math.Exp(noise*r.NormFloat64()))
		}
		points = append(points, p)
	}
	return points
}

// TestUSLRecoversPlanted: the planted values lie in the intervals as often as
// these say, and the best concurrency comes out near.
func TestUSLRecoversPlanted(t *testing.T) {
	trials := 100
	if testing.Short() {
		trials = 20
	}
	for _, c := range []struct{ lambda, sigma, kappa float64 }{
		{1000, 0.05, 0.0005},
		{52000, 0.02, 0.002},
		{3, 0.2, 0.0001},
	} {
		r := rand.New(rand.NewPCG(1, 1))
		var lambda, sigma, kappa, best, bends, near int
		for trial := range trials {
			u, err := FitUSL(uslPoints(c.lambda, c.sigma, c.kappa, doublings(), 5, 0.03, r), 0.95, uint64(trial))
			if err != nil {
				t.Fatal(err)
			}
			count := func(into *int, e Estimate, truth float64) {
				if e.Contains(truth) {
					*into++
				}
			}
			count(&lambda, u.Lambda, c.lambda)
			count(&sigma, u.Sigma, c.sigma)
			count(&kappa, u.Kappa, c.kappa)
			if u.Bends {
				bends++
				truth := math.Sqrt((1 - c.sigma) / c.kappa)
				count(&best, u.Best, truth)
				if math.Abs(math.Log(u.Best.Value/truth)) < 0.2 {
					near++
				}
			}
		}
		t.Logf("%+v: of %d: λ %d σ %d κ %d, bends %d, best %d, within 20%% %d", c, trials, lambda, sigma, kappa, bends, best, near)
		// 95 % less three deviations.
		least := int(float64(trials) * (0.95 - 3*math.Sqrt(0.95*0.05/float64(trials))))
		if lambda < least || sigma < least || kappa < least || best < bends-(trials-least) {
			t.Errorf("%+v: intervals hold λ %d, σ %d, κ %d, best %d of %d", c, lambda, sigma, kappa, best, bends)
		}
		if c.kappa >= 0.0005 && (bends < trials*9/10 || near < bends*9/10) {
			t.Errorf("%+v: bends %d, best within 20%% %d of %d", c, bends, near, trials)
		}
	}
}

func TestUSLExact(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		lambda := math.Exp(rapid.Float64Range(-5, 15).Draw(t, "ln λ"))
		sigma := rapid.Float64Range(0, 0.9).Draw(t, "σ")
		kappa := rapid.SampledFrom([]float64{0, 1e-5, 1e-3, 0.1}).Draw(t, "κ")
		u, err := FitUSL(uslPoints(lambda, sigma, kappa, doublings(), 1, 0, rand.New(rand.NewPCG(0, 0))), 0.95, 1)
		if err != nil {
			t.Fatal(err)
		}
		if math.Abs(u.Lambda.Value/lambda-1) > 1e-6 || math.Abs(u.Sigma.Value-sigma) > 1e-6 || math.Abs(u.Kappa.Value-kappa) > 1e-6 {
			t.Fatalf("planted %v %v %v, found %v %v %v", lambda, sigma, kappa, u.Lambda.Value, u.Sigma.Value, u.Kappa.Value)
		}
		for _, n := range []float64{1, 10, 500} {
			if want := lambda * n / (1 + sigma*(n-1) + kappa*n*(n-1)); math.Abs(fitted(&u, n)/want-1) > 1e-3 {
				t.Fatalf("at %v: %v, want %v", n, fitted(&u, n), want)
			}
		}
	})
}

// TestUSLBounds: whatever the curve, the fit keeps its bounds.
func TestUSLBounds(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		points := rapid.SliceOfN(rapid.Custom(func(t *rapid.T) Point {
			return Point{
				N: float64(rapid.IntRange(1, 2000).Draw(t, "n")),
				X: rapid.SliceOfN(rapid.Float64Range(0.01, 1e6), 1, 3).Draw(t, "x"),
			}
		}), 1, 6).Draw(t, "points")
		u, err := FitUSL(points, 0.95, 3)
		if err != nil {
			t.Fatal(err)
		}
		if !(u.Lambda.Value > 0) || u.Sigma.Low < 0 || u.Sigma.High > 1 || u.Kappa.Low < 0 || u.R2 < 0 || u.R2 > 1 {
			t.Fatalf("%+v", u)
		}
		if u.Bends && !(u.Best.Low >= 1 && u.Peak.Value > 0) {
			t.Fatalf("%+v", u)
		}
		for _, e := range []Estimate{u.Lambda, u.Sigma, u.Kappa, u.Best, u.Peak} {
			if !sound(e) || !e.Contains(e.Value) {
				t.Fatalf("%+v in %+v", e, u)
			}
		}
		if len(points) < uslLeastPoints && len(u.Warnings) == 0 {
			t.Fatal("too few points and no warning")
		}
	})
}

func TestUSLIsReproducible(t *testing.T) {
	points := uslPoints(100, 0.1, 0.001, doublings(), 3, 0.05, rand.New(rand.NewPCG(6, 6)))
	one, err := FitUSL(points, 0.95, 42)
	if err != nil {
		t.Fatal(err)
	}
	two, err := FitUSL(points, 0.95, 42)
	if err != nil || !reflect.DeepEqual(one, two) {
		t.Errorf("the same seed, two answers: %+v, %+v, %v", one, two, err)
	}
	other, err := FitUSL(points, 0.95, 43)
	if err != nil || other.Lambda.Interval == one.Lambda.Interval || other.Lambda.Value != one.Lambda.Value {
		t.Errorf("another seed: %+v after %+v, %v", other.Lambda, one.Lambda, err)
	}
}

func TestUSLWarnings(t *testing.T) {
	r := rand.New(rand.NewPCG(8, 1))
	check := func(name string, points []Point, want ...string) USL {
		t.Helper()
		u, err := FitUSL(points, 0.95, 1)
		if err != nil {
			t.Fatal(err)
		}
		text := warned(u.Warnings)
		for _, w := range want {
			if !strings.Contains(text, w) {
				t.Errorf("%s: warned %q, want %q", name, text, w)
			}
		}
		if len(want) == 0 && text != "" {
			t.Errorf("%s: warned %q", name, text)
		}
		return u
	}
	check("a good curve", uslPoints(1000, 0.05, 0.001, doublings(), 5, 0.01, r))
	check("three points", uslPoints(1000, 0.05, 0.001, []float64{1, 8, 64}, 5, 0.01, r), "usl.few-levels map[levels:3 needed:4]")
	check("one doubling", uslPoints(1000, 0.05, 0.001, []float64{10, 12, 15, 20}, 5, 0.001, r), "usl.short-range map[from:10 needed:40 to:20]")
	u := check("never bends", uslPoints(1000, 0.05, 0, doublings(), 1, 0, r), "usl.no-peak")
	if u.Bends || u.Best.Value != 0 {
		t.Errorf("a curve that never bends has a best concurrency: %+v", u)
	}
	u = check("hardly bends", uslPoints(1000, 0.05, 1e-6, doublings(), 5, 0.03, r), "usl.no-peak")
	if u.Bends || u.BestAtLeast <= 0 {
		t.Errorf("%+v", u)
	}
	check("a far peak", uslPoints(1000, 0.01, 1e-5, doublings(), 5, 0.0005, r), "usl.forecast")
	check("linear", uslPoints(1000, 0, 0, doublings(), 1, 0, r), "usl.no-contention")
	check("flat", []Point{{1, []float64{5, 5}}, {2, []float64{5, 5}}, {4, []float64{5, 5}}, {8, []float64{5, 5}}}, "usl.no-growth",
		"usl.explains-little map[needed:0.9 r2:0]")
	check("noise", uslPoints(1000, 0.9, 0, doublings(), 3, 1, r), "usl.explains-little")
	check("few runs", uslPoints(1000, 0.05, 0.001, []float64{1, 4, 16}, 1, 0, r), "usl.few-runs")

	// A hard wall is not of this shape: linear, then flat, then down a cliff.
	var wall []Point
	for _, n := range []float64{1, 2, 3, 4, 6, 8, 12, 16, 24, 32, 48, 64} {
		p := Point{N: n}
		for range 4 {
			p.X = append(p.X, min(n, 8)*1000*math.Exp(0.005*r.NormFloat64()))
		}
		wall = append(wall, p)
	}
	check("a wall", wall, "usl.")
}

func TestUSLRefuses(t *testing.T) {
	for name, points := range map[string][]Point{
		"nothing":             nil,
		"no repeats":          {{N: 1}},
		"zero throughput":     {{1, []float64{1}}, {2, []float64{0}}},
		"negative throughput": {{1, []float64{-1}}},
		"NaN throughput":      {{1, []float64{math.NaN()}}},
		"NaN concurrency":     {{math.NaN(), []float64{1}}},
		"zero concurrency":    {{0, []float64{1}}},
		"half a connection":   {{0.5, []float64{1}}},
		"infinite":            {{1, []float64{math.Inf(1)}}},
	} {
		if _, err := FitUSL(points, 0.95, 1); err == nil {
			t.Errorf("%s was accepted", name)
		}
	}
}

func TestRunsTest(t *testing.T) {
	// 5 above and 5 below in two runs: 2 of 252 orders.
	if p := runsTest([]float64{1, 1, 1, 1, 1, -1, -1, -1, -1, -1}); math.Abs(p-2.0/252) > 1e-9 {
		t.Errorf("two runs: p = %v", p)
	}
	if p := runsTest([]float64{1, -1, 1, -1, 1, -1}); math.Abs(p-1) > 1e-9 {
		t.Errorf("as many runs as can be: p = %v", p)
	}
	if p := runsTest([]float64{1, 1, 0, 1}); p != 1 {
		t.Errorf("one sign: p = %v", p)
	}
	// Three runs of 2 and 3: ++---: 2 orders of two runs, +−−−+, −++−−, −−++−: 3 of three runs.
	if p := runsTest([]float64{-1, 1, 1, -1, -1}); math.Abs(p-0.5) > 1e-9 {
		t.Errorf("three runs: p = %v", p)
	}
}

// FuzzCurve: whatever the curve, the answers are errors or finite and ordered.
func FuzzCurve(f *testing.F) {
	f.Add([]byte("concurrency and throughput in turn, as small numbers"), 0.95)
	f.Add([]byte{2, 4, 4, 8, 8, 12, 16, 14, 32, 10}, 0.9)
	f.Fuzz(func(t *testing.T, data []byte, confidence float64) {
		values := numbers(data, 24)
		var points []Point
		for i := 0; i+1 < len(values); i += 2 {
			points = append(points, Point{N: math.Abs(values[i]), X: []float64{math.Abs(values[i+1])}})
		}
		if u, err := FitUSL(points, confidence, 1); err == nil {
			for _, e := range []Estimate{u.Lambda, u.Sigma, u.Kappa, u.Best, u.Peak} {
				if !sound(e) {
					t.Fatalf("%v: %+v", points, u)
				}
			}
			if !(u.R2 >= 0 && u.R2 <= 1) || math.IsNaN(u.BestAtLeast) || math.IsInf(u.BestAtLeast, 0) {
				t.Fatalf("%v: %+v", points, u)
			}
		}
		if k, err := FindKnee(points, 0.05, confidence); err == nil {
			if math.IsNaN(k.Peak) || math.IsInf(k.Peak, 0) || !(k.Low < k.High) {
				t.Fatalf("%v: %+v", points, k)
			}
		}
	})
}

// fitted is the throughput of the fitted curve at concurrency n (1 or above).
func fitted(u *USL, n float64) float64 {
	return u.Lambda.Value * n / (1 + u.Sigma.Value*(n-1) + u.Kappa.Value*n*(n-1))
}
