package stat

import (
	"flag"
	"math"
	"math/rand/v2"
	"slices"
	"testing"

	"ceiling/internal/needs"
)

// The column of the signed rank in the package comment is
//
//	go test ./internal/stat -run TestCoverage -v -trials 4000
var trialsFlag = flag.Int("trials", 0, "simulated comparisons per cell of the coverage table")

// noise makes the log ratios of n blocks whose truth is centre.
type noise struct {
	name   string
	blocks func(n int, r *rand.Rand) []float64
	centre float64
}

// runs makes ABBA blocks, or BAAB by lot, of 4n runs in their order of time.
func runs(series func(n int, r *rand.Rand) []float64) func(n int, r *rand.Rand) []float64 {
	return func(n int, r *rand.Rand) []float64 {
		y, out := series(4*n, r), make([]float64, n)
		for i := range out {
			b := y[4*i:]
			out[i] = (b[1] + b[2] - b[0] - b[3]) / 2
			if r.IntN(2) == 0 {
				out[i] = -out[i]
			}
		}
		return out
	}
}

func each(draw func(r *rand.Rand) float64) func(n int, r *rand.Rand) []float64 {
	return func(n int, r *rand.Rand) []float64 {
		out := make([]float64, n)
		for i := range out {
			out[i] = draw(r)
		}
		return out
	}
}

func student3(r *rand.Rand) float64 {
	squares := 0.0
	for range 3 {
		z := r.NormFloat64()
		squares += z * z
	}
	return r.NormFloat64() / math.Sqrt(squares/3)
}

func noises() []noise {
	return []noise{
		{name: "normal", blocks: runs(each((*rand.Rand).NormFloat64))},
		{name: "heavy tails (t3)", blocks: each(student3)},
		{name: "skewed runs (lognormal)", blocks: runs(each(func(r *rand.Rand) float64 { return -math.Exp(r.NormFloat64()) }))},
		{name: "drift and settling", blocks: runs(func(n int, r *rand.Rand) []float64 {
			out, walk := make([]float64, n), 0.0
			for i := range out {
				walk += 0.5 * r.NormFloat64()
				out[i] = walk + 0.5*r.NormFloat64() + 20*math.Exp(-float64(i)/6)
			}
			return out
		})},
		{name: "a tenth spoilt by 10 sd", blocks: each(func(r *rand.Rand) float64 {
			spoilt := 0.0
			if r.Float64() < 0.1 {
				spoilt = math.Copysign(10, r.Float64()-0.5)
			}
			return r.NormFloat64() + spoilt
		})},
		// Only B suffers: the blocks themselves are skewed. The centre of such
		// blocks is the median of the mean of two, from two million draws.
		{name: "skewed blocks (lognormal)", blocks: each(func(r *rand.Rand) float64 { return math.Exp(0.5 * r.NormFloat64()) }), centre: 1.0594},
	}
}

// TestCoverage holds the promise of the package comment: the interval of Paired
// contains the truth as often as it says, less one per cent, whatever the
// noise.
func TestCoverage(t *testing.T) {
	needs.Time(t)
	trials, counts := 1000, []int{6, 8, 12, 20, 30}
	if testing.Short() {
		trials, counts = 300, []int{8, 20}
	}
	if *trialsFlag > 0 {
		trials = *trialsFlag
	}
	for _, confidence := range []float64{0.95, 0.9875} {
		for _, kind := range noises() {
			hits, all := 0.0, 0.0
			for _, n := range counts {
				if n < LeastBlocks(confidence, 1) {
					continue
				}
				covered, length := simulate(kind, n, trials, confidence)
				t.Logf("%5.2f %-26s n=%-2d signed rank %.1f (%.2f)", 100*confidence, kind.name, n, 100*covered, length)
				caveat := 3.5 * math.Sqrt(confidence*(1-confidence)/float64(trials))
				if covered < confidence-0.01-caveat {
					t.Errorf("%s, %d blocks: %.1f%% of the intervals hold the truth, %.2f%% should", kind.name, n, 100*covered, 100*confidence)
				}
				hits, all = hits+covered, all+1
			}
			if !testing.Short() && hits/all < confidence-0.01 {
				t.Errorf("%s: %.1f%% of all intervals hold the truth, %.2f%% should", kind.name, 100*hits/all, 100*confidence)
			}
		}
	}
}

// simulate is the share of intervals that hold the truth, and their median
// length.
func simulate(kind noise, n, trials int, confidence float64) (covered, length float64) {
	r := rand.New(rand.NewPCG(7, uint64(n)))
	lengths := make([]float64, trials)
	for i := range lengths {
		d, err := Paired(kind.blocks(n, r), confidence, 1)
		if err != nil {
			panic(err)
		}
		if d.Low <= kind.centre && kind.centre <= d.High {
			covered += 1 / float64(trials)
		}
		lengths[i] = d.High - d.Low
	}
	slices.Sort(lengths)
	return covered, median(lengths)
}
