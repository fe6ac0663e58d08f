package stat

import (
	"math"
	"math/rand/v2"
	"strings"
	"testing"

	"pgregory.net/rapid"
)

func kneePoints(ns []float64, at func(n float64) float64, repeats int, noise float64, r *rand.Rand) []Point {
	var points []Point
	for _, n := range ns {
		p := Point{N: n}
		for range repeats {
			p.X = append(p.X, at(n)*math.Exp(noise*r.NormFloat64()))
		}
		points = append(points, p)
	}
	return points
}

// wallAt is linear up to a capacity that is reached at n.
func wallAt(knee float64) func(n float64) float64 {
	return func(n float64) float64 { return 1000 * min(n, knee) }
}

func TestKnee(t *testing.T) {
	check := func(name string, points []Point, low, high float64, below, above bool, warnings ...string) {
		t.Helper()
		k, err := FindKnee(points, KneeWithin, 0.95)
		if err != nil {
			t.Fatal(err)
		}
		if k.Low != low || k.High != high || k.BracketedBelow != below || k.BracketedAbove != above {
			t.Errorf("%s: %+v, want %v to %v, %v %v", name, k, low, high, below, above)
		}
		text := warned(k.Warnings)
		for _, w := range warnings {
			if !strings.Contains(text, w) {
				t.Errorf("%s: warned %q, want %q", name, text, w)
			}
		}
		if len(warnings) == 0 && text != "" {
			t.Errorf("%s: warned %q", name, text)
		}
	}
	r := rand.New(rand.NewPCG(2, 2))
	check("a wall", kneePoints(doublings(), wallAt(16), 5, 0.01, r), 8, 16, true, true)
	check("a wall between", kneePoints(doublings(), wallAt(20), 5, 0.01, r), 16, 32, true, true)
	check("and down again", kneePoints(doublings(), func(n float64) float64 { return 1000 * min(n, 16) / max(1, n/32) }, 5, 0.01, r), 8, 16,
		true, true)
	check("unordered", []Point{{8, []float64{4, 4.01}}, {1, []float64{1, 1.01}}, {4, []float64{4, 4.01}}, {2, []float64{2, 2.01}}}, 2, 4, true,
		true)
	check("still rising", kneePoints(doublings(), wallAt(1000), 5, 0.01, r), 64, 128, true, false,
		"knee.open-above map[at:128]")
	check("flat from the start", kneePoints(doublings(), wallAt(1), 5, 0.01, r), 0, 1, false, true)
	check("flat from 2 on", []Point{{2, []float64{5, 5}}, {4, []float64{5, 5}}, {8, []float64{5, 5}}}, 0, 2, false, true, "knee.open-below map[at:2]")
	check("one point", []Point{{10, []float64{5, 5}}}, 0, 10, false, false, "knee.few-points map[points:1]", "knee.open-below", "knee.open-above")
	check("single runs", kneePoints(doublings(), wallAt(16), 1, 0, r), 8, 16, true, true, "knee.no-repeats")
	check("all equal", []Point{{1, []float64{5, 5}}, {2, []float64{5, 5}}, {3, []float64{5, 5}}}, 0, 1, false, true)
}

// TestKneeHoldsThePlanted: the first concurrency that reaches 95 % of the peak
// lies in the bracket as often as asked, on walls and on slow curves alike.
func TestKneeHoldsThePlanted(t *testing.T) {
	smooth := func(n float64) float64 { return 1000 * n / (1 + 0.1*(n-1) + 0.0005*n*(n-1)) }
	for name, c := range map[string]struct {
		at    func(n float64) float64
		noise float64
	}{
		"wall":         {wallAt(20), 0.03},
		"smooth":       {smooth, 0.02},
		"smooth noisy": {smooth, 0.1},
	} {
		peak, truth := 0.0, 0.0
		for _, n := range doublings() {
			peak = max(peak, c.at(n))
		}
		for _, n := range doublings() {
			if truth == 0 && c.at(n) >= (1-KneeWithin)*peak {
				truth = n
			}
		}
		r := rand.New(rand.NewPCG(3, 3))
		const trials = 500
		held := 0
		for range trials {
			k, err := FindKnee(kneePoints(doublings(), c.at, 3, c.noise, r), KneeWithin, 0.95)
			if err != nil {
				t.Fatal(err)
			}
			if k.Low < truth && (truth <= k.High || !k.BracketedAbove) {
				held++
			}
		}
		t.Logf("%s: %d of %d", name, held, trials)
		if held < trials*93/100 {
			t.Errorf("%s: the bracket holds the knee in %d of %d", name, held, trials)
		}
	}
}

func TestKneeProperties(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		points := rapid.SliceOfN(rapid.Custom(func(t *rapid.T) Point {
			return Point{rapid.Float64Range(0.1, 1000).Draw(t, "n"), rapid.SliceOfN(rapid.Float64Range(0.1, 10), 1, 4).Draw(t, "x")}
		}), 1, 8).Draw(t, "points")
		within := rapid.Float64Range(0, 0.5).Draw(t, "within")
		k, err := FindKnee(points, within, 0.95)
		if err != nil {
			t.Fatal(err)
		}
		if !(k.Low < k.High && k.High <= k.PeakN) || k.BracketedBelow != (k.Low > 0) {
			t.Fatalf("%+v", k)
		}
	})
	for _, bad := range []float64{-0.1, 1, math.NaN()} {
		if _, err := FindKnee([]Point{{1, []float64{1}}}, bad, 0.95); err == nil {
			t.Errorf("a share of %v was accepted", bad)
		}
	}
}
