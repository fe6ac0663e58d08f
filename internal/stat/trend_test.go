package stat

import (
	"math"
	"math/rand/v2"
	"testing"

	"pgregory.net/rapid"
)

func evenTimes(n int) []float64 {
	times := make([]float64, n)
	for i := range times {
		times[i] = float64(i)
	}
	return times
}

// queue is the number waiting in an M/M/1 queue at this load, every 20 events.
func queue(n int, load float64, r *rand.Rand) []float64 {
	out, waiting := make([]float64, n), 0
	step := func() {
		if r.Float64() < load/(1+load) {
			waiting++
		} else if waiting > 0 {
			waiting--
		}
	}
	for range 5000 {
		step()
	}
	if load >= 1 {
		waiting = 10
	}
	for i := range out {
		for range 20 {
			step()
		}
		out[i] = float64(waiting)
	}
	return out
}

// TestTrendOfQueues: a queue that holds is not called a backlog, one that is
// overrun is.
func TestTrendOfQueues(t *testing.T) {
	trials := 200
	if testing.Short() {
		trials = 80
	}
	r := rand.New(rand.NewPCG(1, 2))
	rising := func(n int, load float64) float64 {
		alarms := 0
		for range trials {
			trend, err := MannKendall(evenTimes(n), queue(n, load, r), 0.95)
			if err != nil {
				t.Fatal(err)
			}
			if trend.Rising < 0.01 {
				alarms++
			}
		}
		share := float64(alarms) / float64(trials)
		t.Logf("%d values at load %.2f: %.1f%% rising at p < 1%%", n, load, 100*share)
		return share
	}
	for _, load := range []float64{0.5, 0.8, 0.9} {
		if share := rising(200, load); share > 0.05 {
			t.Errorf("a queue at load %.2f is called a backlog in %.0f%%", load, 100*share)
		}
	}
	if share := rising(100, 1.2); share < 0.9 {
		t.Errorf("a queue at load 1.2 is called a backlog in %.0f%% only", 100*share)
	}
}

func TestTrendByHand(t *testing.T) {
	rises := []float64{1, 2, 3, 4, 5, 6, 7, 8}
	got, err := MannKendall(evenTimes(8), rises, 0.95)
	if err != nil {
		t.Fatal(err)
	}
	// Of 8! orders one has no inversion.
	if got.Slope.Value != 1 || math.Abs(got.P-2.0/40320) > 1e-12 || math.Abs(got.Rising-1.0/40320) > 1e-12 || got.Stretches != 8 {
		t.Errorf("%+v", got)
	}
	got, err = MannKendall([]float64{0, 2, 4, 6, 8, 10, 12, 14}, []float64{8, 7, 6, 5, 4, 3, 2, 1}, 0.95)
	if err != nil || got.Slope.Value != -0.5 || got.Rising < 0.999 || got.P > 0.001 {
		t.Errorf("falling: %+v, %v", got, err)
	}
	got, err = MannKendall(evenTimes(20), make([]float64, 20), 0.95)
	if err != nil || got.P != 1 || got.Slope.Value != 0 || got.Slope.Low != 0 || got.Slope.High != 0 || got.Rising < 0.5 {
		t.Errorf("all equal: %+v, %v", got, err)
	}
	got, err = MannKendall(evenTimes(1), []float64{5}, 0.95)
	if err != nil || got.P != 1 || warned(got.Warnings) != "stat.few-stretches map[needed:6 stretches:1]" {
		t.Errorf("one value: %+v, %v", got, err)
	}
}

func TestTrendRefuses(t *testing.T) {
	for name, do := range map[string]func() error{
		"times that stand still": func() error { _, err := MannKendall([]float64{1, 1}, []float64{1, 2}, 0.95); return err },
		"unlike lengths":         func() error { _, err := MannKendall([]float64{1}, []float64{1, 2}, 0.95); return err },
		"NaN time":               func() error { _, err := MannKendall([]float64{1, math.NaN()}, []float64{1, 2}, 0.95); return err },
		"too many": func() error {
			_, err := MannKendall(evenTimes(maxSeries+1), make([]float64, maxSeries+1), 0.95)
			return err
		},
	} {
		if do() == nil {
			t.Errorf("%s was accepted", name)
		}
	}
}

// TestInversionsByEnumeration counts all orders of up to 7 values.
func TestInversionsByEnumeration(t *testing.T) {
	for n := 1; n <= 7; n++ {
		seen, orders := make([]int, n*(n-1)/2+1), 0
		var permute func(rest []int, inverted int)
		permute = func(rest []int, inverted int) {
			if len(rest) == 0 {
				seen[inverted]++
				orders++
			}
			for i, v := range rest {
				left := append(append([]int(nil), rest[:i]...), rest[i+1:]...)
				smaller := 0
				for _, w := range left {
					if w < v {
						smaller++
					}
				}
				permute(left, inverted+smaller)
			}
		}
		var all []int
		for i := range n {
			all = append(all, i)
		}
		permute(all, 0)
		atMost, total := inversions(n), 0
		for k, c := range seen {
			total += c
			if want := float64(total) / float64(orders); math.Abs(atMost(k)-want) > 1e-12 {
				t.Fatalf("%d values, at most %d: %v, want %v", n, k, atMost(k), want)
			}
		}
	}
}

// TestSenSlopeCovers: independent noise around a line.
func TestSenSlopeCovers(t *testing.T) {
	r := rand.New(rand.NewPCG(5, 5))
	const trials, slope = 400, 0.05
	held := 0
	for range trials {
		values := make([]float64, 20)
		for i := range values {
			values[i] = slope*float64(i) + student3(r)
		}
		trend := kendall(evenTimes(20), values, 0.95)
		if trend.Slope.Contains(slope) {
			held++
		}
	}
	if held < trials*92/100 || held > trials*99/100 {
		t.Errorf("Sen's interval holds the slope in %d of %d", held, trials)
	}
}

func TestTrendProperties(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		values := rapid.SliceOfN(rapid.Float64Range(-100, 100), 1, 120).Draw(t, "values")
		up, err := MannKendall(evenTimes(len(values)), values, 0.95)
		if err != nil {
			t.Fatal(err)
		}
		if up.P < 0 || up.P > 1 || up.Rising < 0 || up.Rising > 1 || !sound(up.Slope) || up.Slope.Value < up.Slope.Low ||
			up.Slope.Value > up.Slope.High {
			t.Fatalf("%+v", up)
		}
		mirrored := make([]float64, len(values))
		for i, v := range values {
			mirrored[i] = -v
		}
		down, err := MannKendall(evenTimes(len(values)), mirrored, 0.95)
		if err != nil {
			t.Fatal(err)
		}
		if math.Abs(down.P-up.P) > 1e-9 || math.Abs(down.Slope.Value+up.Slope.Value) > 1e-9 {
			t.Fatalf("%+v mirrored is %+v", up, down)
		}
	})
}
