package stat

import (
	"fmt"
	"math"
	"math/rand/v2"
	"slices"
	"strings"
	"testing"

	"pgregory.net/rapid"
)

// warned are warnings with their figures.
func warned(list []Warning) string {
	var text []string
	for _, w := range list {
		text = append(text, fmt.Sprint(w.Code, " ", w.With))
	}
	return strings.Join(text, "; ")
}

func TestPairedByHand(t *testing.T) {
	check := func(blocks []float64, confidence float64, comparisons int, want Difference, warning string) {
		t.Helper()
		got, err := Paired(blocks, confidence, comparisons)
		if err != nil {
			t.Fatal(err)
		}
		near := func(what string, a, b float64) {
			if math.Abs(a-b) > 1e-9 {
				t.Errorf("%v: %s is %v, want %v", blocks, what, a, b)
			}
		}
		near("value", got.Value, want.Value)
		near("low", got.Low, want.Low)
		near("high", got.High, want.High)
		near("confidence", got.Confidence, want.Confidence)
		near("p", got.P, want.P)
		if text := warned(got.Warnings); text != warning {
			t.Errorf("%v: warned %q, want %q", blocks, text, warning)
		}
	}
	of := func(value, low, high, confidence, p float64) Difference {
		return Difference{Estimate: Estimate{Value: value, Interval: Interval{Low: low, High: high, Confidence: confidence}}, P: p}
	}
	check([]float64{1, 2, 3, 4, 5, 6}, 0.95, 1, of(3.5, 1, 6, 1-2.0/64, 2.0/64), "")
	check([]float64{1, 2, 3, 4, 5, 6}, 0.95, 4, of(3.5, 1, 6, 1-2.0/64, 2.0/64),
		"stat.few-blocks map[blocks:6 comparisons:4 confidence:0.95 has_confidence:0.96875 needed:8]")
	// Wilcoxon's table: at 5 % two-sided the statistic may reach 3 of 36 with 8
	// blocks (p = 0.0391), so the interval leaves 3 pair means out on each side.
	check([]float64{1, 2, 3, 4, 5, 6, 7, 8}, 0.95, 1, of(4.5, 2, 7, 1-10.0/256, 2.0/256), "")
	check([]float64{3}, 0.95, 1, of(3, 3, 3, 0, 1), "stat.few-blocks map[blocks:1 comparisons:1 confidence:0.95 has_confidence:0 needed:6]")
	check([]float64{0, 0, 0, 0, 0, 0}, 0.95, 1, of(0, 0, 0, 1-2.0/64, 1),
		"stat.equal-blocks map[blocks:6]")
}

// TestSignedRankByEnumeration counts all signs of the ranks.
func TestSignedRankByEnumeration(t *testing.T) {
	for n := 1; n <= 10; n++ {
		atMost := signedRank(n)
		seen := make([]int, n*(n+1)/2+1)
		for signs := range 1 << n {
			sum := 0
			for rank := 1; rank <= n; rank++ {
				sum += rank * (signs >> (rank - 1) & 1)
			}
			seen[sum]++
		}
		total := 0
		for k, c := range seen {
			total += c
			if want := float64(total) / float64(int(1)<<n); math.Abs(atMost(k)-want) > 1e-12 {
				t.Fatalf("%d blocks, at most %d: %v, want %v", n, k, atMost(k), want)
			}
		}
	}
}

func TestSignedRankNormalIsClose(t *testing.T) {
	counted, normal := signedRank(exactBlocks), signedRank(exactBlocks+1)
	z := func(n, k float64) float64 {
		return (k - n*(n+1)/4) / math.Sqrt(n*(n+1)*(2*n+1)/24)
	}
	// The same distance from the middle has about the same probability.
	for _, k := range []int{1700, 1950, 2200, 2525} {
		at := z(exactBlocks, float64(k))
		other := 0
		for z(exactBlocks+1, float64(other)) < at {
			other++
		}
		if a, b := counted(k), normal(other); math.Abs(a-b) > 0.003 {
			t.Errorf("at %.2f deviations: counted %.4f, normal %.4f", at, a, b)
		}
	}
}

func blocksOf(least, most int) *rapid.Generator[[]float64] {
	// Small whole numbers make ties and means of exactly 0.
	tied := rapid.Map(rapid.IntRange(-2, 2), func(i int) float64 { return float64(i) })
	return rapid.OneOf(rapid.SliceOfN(rapid.Float64Range(-2, 2), least, most), rapid.SliceOfN(tied, least, most))
}

func TestPairedProperties(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		blocks := blocksOf(1, 30).Draw(t, "blocks")
		comparisons := rapid.IntRange(1, 8).Draw(t, "comparisons")
		d, err := Paired(blocks, 0.95, comparisons)
		if err != nil {
			t.Fatal(err)
		}
		if !d.Contains(d.Value) || d.Low < slices.Min(blocks) || d.High > slices.Max(blocks) {
			t.Fatalf("interval %v of %v around %v", d.Interval, blocks, d.Value)
		}
		alpha := 0.05 / float64(comparisons)
		if d.Certain() != (d.Confidence >= 1-alpha-1e-12) {
			t.Fatalf("%d blocks: certain is %v at confidence %v", d.N, d.Certain(), d.Confidence)
		}
		// The interval and the p-value are one test.
		if zero := d.Contains(0); d.Certain() && zero == (d.P <= alpha) {
			t.Fatalf("p = %v, alpha %v, but the interval %v holds 0: %v", d.P, alpha, d.Interval, zero)
		}
		// The order of blocks does not matter; B against A mirrors A against B.
		mirrored := slices.Clone(blocks)
		slices.Reverse(mirrored)
		for i := range mirrored {
			mirrored[i] = -mirrored[i]
		}
		m, err := Paired(mirrored, 0.95, comparisons)
		if err != nil {
			t.Fatal(err)
		}
		if math.Abs(m.Value+d.Value) > 1e-12 || m.Low != -d.High || m.High != -d.Low || m.P != d.P {
			t.Fatalf("mirrored %+v is not the mirror of %+v", m, d)
		}
		// More comparisons widen it.
		wider, err := Paired(blocks, 0.95, comparisons+1)
		if err != nil {
			t.Fatal(err)
		}
		if wider.Low > d.Low || wider.High < d.High {
			t.Fatalf("%d comparisons %v, one more %v", comparisons, d.Interval, wider.Interval)
		}
	})
}

// TestOneSpoiltBlock: with 12 blocks and 4 comparisons, a block spoilt beyond
// measure moves neither the answer nor the end of the interval far.
func TestOneSpoiltBlock(t *testing.T) {
	r := rand.New(rand.NewPCG(3, 1))
	moved := 0
	// A spoilt block spoils its means with all n; that many are left out.
	for n, alpha := range map[int]float64{12: 0.05, 15: 0.0125} {
		if p := 2 * signedRank(n)(n); p > alpha {
			t.Errorf("%d blocks cannot lose one at %v: %v", n, alpha, p)
		}
	}
	for range 200 {
		blocks := make([]float64, 12)
		for i := range blocks {
			blocks[i] = 0.05 + 0.01*r.NormFloat64()
		}
		blocks[r.IntN(12)] = -3
		d, err := Paired(blocks, 0.95, 1)
		if err != nil {
			t.Fatal(err)
		}
		if math.Abs(d.Value-0.05) > 0.02 || d.Low < 0 {
			moved++
		}
	}
	if moved > 4 {
		t.Errorf("one spoilt block of 12 moved %d answers of 200", moved)
	}
}

// TestBlocksFor takes the forecast at its word.
func TestBlocksFor(t *testing.T) {
	const spread, within = 0.02, 0.01
	trials := 300
	if testing.Short() {
		trials = 60
	}
	r := rand.New(rand.NewPCG(5, 1))
	draw := func(n int) Difference {
		blocks := make([]float64, n)
		for i := range blocks {
			blocks[i] = spread * r.NormFloat64()
		}
		d, err := Paired(blocks, 0.95, 1)
		if err != nil {
			t.Fatal(err)
		}
		return d
	}
	var forecasts, halves []float64
	for range trials {
		n, err := draw(12).BlocksFor(within)
		if err != nil {
			t.Fatal(err)
		}
		forecasts = append(forecasts, float64(n))
	}
	slices.Sort(forecasts)
	n := int(median(forecasts))
	for range trials {
		d := draw(n)
		halves = append(halves, (d.High-d.Low)/2)
	}
	slices.Sort(halves)
	if half := median(halves); half < 0.8*within || half > 1.2*within {
		t.Errorf("forecast %d blocks for ±%v, got ±%v", n, within, half)
	}
	if _, err := draw(1).BlocksFor(within); err == nil {
		t.Error("one block has no spread, but a forecast")
	}
	if _, err := draw(12).BlocksFor(0.000001); err == nil || !strings.Contains(err.Error(), "quieten") {
		t.Errorf("a forecast beyond %d blocks: %v", maxBlocks, err)
	}
	for _, bad := range []float64{0, -1, math.NaN(), math.Inf(1)} {
		if _, err := draw(12).BlocksFor(bad); err == nil {
			t.Errorf("±%v was accepted", bad)
		}
	}
}

func TestLeastBlocks(t *testing.T) {
	for _, c := range []struct {
		confidence  float64
		comparisons int
		want        int
	}{{0.95, 1, 6}, {0.95, 4, 8}, {0.99, 1, 8}, {0.5, 1, 2}, {0.95, 0, 6}} {
		if got := LeastBlocks(c.confidence, c.comparisons); got != c.want {
			t.Errorf("%v for %d comparisons: %d blocks, want %d", c.confidence, c.comparisons, got, c.want)
		}
	}
}

// metricsOf makes blocks of four metrics for a comparison of 12 blocks.
func metricsOf(r *rand.Rand, effect float64) [4][]float64 {
	var out [4][]float64
	for m := range out {
		out[m] = make([]float64, 12)
		for i := range out[m] {
			out[m][i] = effect + 0.015*student3(r)
		}
	}
	return out
}

func decideOne(t *testing.T, ab, aa []float64, within float64) Decision {
	t.Helper()
	d, err := Paired(ab, 0.95, 4)
	if err != nil {
		t.Fatal(err)
	}
	floor, err := NoiseFloor(aa, 0.95, 1)
	if err != nil {
		t.Fatal(err)
	}
	answer, err := Decide(d, &floor, within)
	if err != nil {
		t.Fatal(err)
	}
	return answer
}

// TestDecisionsOnPlantedTruth: with heavy-tailed noise of 1.5 % a block, no
// change is hardly ever called one, and 5 % is found.
func TestDecisionsOnPlantedTruth(t *testing.T) {
	r := rand.New(rand.NewPCG(11, 1))
	comparisons := 500
	if testing.Short() {
		comparisons = 100
	}
	alarms, unfloored, found := 0, 0, 0
	for range comparisons {
		floor, same, slower := metricsOf(r, 0), metricsOf(r, 0), metricsOf(r, math.Log(0.95))
		alarm, bare := false, false
		for m := range same {
			a := decideOne(t, same[m], floor[m], 0)
			alarm = alarm || a.Answer == Higher || a.Answer == Lower
			d, err := Paired(same[m], 0.95, 4)
			if err != nil {
				t.Fatal(err)
			}
			bare = bare || !d.Contains(0)
		}
		if alarm {
			alarms++
		}
		if bare {
			unfloored++
		}
		if decideOne(t, slower[0], floor[0], 0).Answer == Lower {
			found++
		}
	}
	t.Logf("of %d: %d false alarms (%d without the floor), 5%% found %d times", comparisons, alarms, unfloored, found)
	if alarms > comparisons*3/100 || unfloored > comparisons*8/100 {
		t.Errorf("%d false alarms of %d, %d without the floor", alarms, comparisons, unfloored)
	}
	if found < comparisons*9/10 {
		t.Errorf("5%% was found %d times of %d", found, comparisons)
	}
}

func TestDecide(t *testing.T) {
	around := func(centre, spread float64, n int) []float64 {
		out := make([]float64, n)
		for i := range out {
			out[i] = centre + spread*(float64(i)/float64(n-1)-0.5)
		}
		return out
	}
	check := func(name string, ab, aa []float64, within float64, want Answer, warning string) {
		t.Helper()
		got := decideOne(t, ab, aa, within)
		if got.Answer != want {
			t.Errorf("%s: %s, want %s (%v)", name, got.Answer, want, got.Warnings)
		}
		if text := warned(got.Warnings); warning == "" && text != "" || !strings.Contains(text, warning) {
			t.Errorf("%s: warned %q, want %q", name, text, warning)
		}
	}
	quiet := around(0, 0.01, 12)
	check("clear gain", around(0.05, 0.02, 12), quiet, 0.01, Higher, "")
	check("clear loss", around(-0.05, 0.02, 12), quiet, 0.01, Lower, "")
	check("nothing", around(0, 0.01, 12), quiet, 0.01, NoChange, "")
	check("real but within the margin", around(0.01, 0.005, 12), quiet, 0.03, NoChange, "")
	check("margin from the floor", around(0, 0.002, 12), quiet, 0, NoChange, "")
	check("noisy", around(0, 0.3, 12), quiet, 0.01, Inconclusive, "stat.more-blocks map[blocks:12 ")
	check("no larger than the floor", around(0.02, 0.035, 12), around(0, 0.1, 12), 0, Inconclusive, "stat.within-noise")
	check("asked finer than the machine is", around(0, 0.3, 12), around(0, 0.2, 12), 0.01, Inconclusive, "stat.noisy")
	check("too few blocks", around(0.5, 0.01, 6), quiet, 0.01, Inconclusive, "stat.few-blocks map[blocks:6 comparisons:4")
	check("floor of too few blocks", around(0.5, 0.01, 12), around(0, 0.01, 5), 0.01, Inconclusive, "stat.few-blocks map[blocks:5 comparisons:1")
	check("A differs from A", around(0.05, 0.01, 12), around(0.03, 0.01, 12), 0.01, Higher, "stat.noise-is-no-noise")

	d, err := Paired(around(0.05, 0.02, 12), 0.95, 1)
	if err != nil {
		t.Fatal(err)
	}
	bare, err := Decide(d, nil, 0)
	if err != nil || bare.Answer != Higher || len(bare.Warnings) != 1 {
		t.Errorf("without a floor: %+v, %v", bare, err)
	}
	for _, bad := range []float64{-0.01, math.NaN(), math.Inf(1)} {
		if _, err := Decide(d, nil, bad); err == nil {
			t.Errorf("margin %v was accepted", bad)
		}
	}
}

// TestNoiseFloorHoldsItsShare: in 95 % of the cases the bound holds 95 % of
// blocks, at least.
func TestNoiseFloorHoldsItsShare(t *testing.T) {
	r := rand.New(rand.NewPCG(2, 1))
	const cases = 1000
	held := 0
	for range cases {
		blocks := make([]float64, 8)
		for i := range blocks {
			blocks[i] = 0.01 * r.NormFloat64()
		}
		f, err := NoiseFloor(blocks, 0.95, 1)
		if err != nil {
			t.Fatal(err)
		}
		if f.Bound >= 1.96*0.01 {
			held++
		}
	}
	if math.Abs(float64(held)/cases-0.95) > 0.025 {
		t.Errorf("the bound holds its share in %d of %d cases", held, cases)
	}
}

func TestRefused(t *testing.T) {
	bad := [][]float64{nil, {}, {math.NaN()}, {1, math.Inf(1)}, {math.Inf(-1)}, {1e101}}
	one, two := []float64{1}, []float64{1, 2}
	for _, v := range bad {
		for what, do := range map[string]func() error{
			"paired":       func() error { _, err := Paired(v, 0.95, 1); return err },
			"floor":        func() error { _, err := NoiseFloor(v, 0.95, 1); return err },
			"median":       func() error { _, err := Median(v, 0.95); return err },
			"mean":         func() error { _, err := Mean(v, 0.95); return err },
			"trend":        func() error { _, err := MannKendall(two[:min(len(v), 2)], v, 0.95); return err },
			"elasticities": func() error { _, err := Elasticities([]Taken{{"r", 1, v}}, 0.95); return err },
			"usl":          func() error { _, err := FitUSL([]Point{{1, one}, {2, v}}, 0.95, 1); return err },
			"knee":         func() error { _, err := FindKnee([]Point{{1, one}, {2, v}}, 0.05, 0.95); return err },
		} {
			if do() == nil {
				t.Errorf("%s accepted %v", what, v)
			}
		}
	}
	for _, c := range []float64{0, 0.4, 1, 1.5, -1, math.NaN(), math.Inf(1)} {
		for what, do := range map[string]func() error{
			"paired": func() error { _, err := Paired(two, c, 1); return err },
			"median": func() error { _, err := Median(two, c); return err },
			"trend":  func() error { _, err := MannKendall(two, two, c); return err },
			"usl":    func() error { _, err := FitUSL([]Point{{1, one}}, c, 1); return err },
			"knee":   func() error { _, err := FindKnee([]Point{{1, one}}, 0.05, c); return err },
		} {
			if do() == nil {
				t.Errorf("%s accepted confidence %v", what, c)
			}
		}
	}
	for _, m := range []int{0, -1, maxComparisons + 1} {
		if _, err := Paired(two, 0.95, m); err == nil {
			t.Errorf("%d comparisons were accepted", m)
		}
	}
	if _, err := Paired(make([]float64, maxBlocks+1), 0.95, 1); err == nil {
		t.Error("too many blocks were accepted")
	}
}

// FuzzBlocks: whatever the blocks, the answer is an error or finite and ordered.
func FuzzBlocks(f *testing.F) {
	f.Add([]byte("some bytes that make a few numbers"), 0.95, 4)
	f.Add([]byte{}, 0.5, 1)
	f.Fuzz(func(t *testing.T, data []byte, confidence float64, comparisons int) {
		values := numbers(data, 64)
		check := func(what string, e Estimate, err error) {
			if err == nil && !sound(e) {
				t.Fatalf("%s of %v at %v: %+v", what, values, confidence, e)
			}
		}
		d, err := Paired(values, confidence, comparisons)
		check("paired", d.Estimate, err)
		if err == nil {
			floor, err := NoiseFloor(values, confidence, comparisons)
			if err != nil || !(floor.Bound >= 0) || math.IsInf(floor.Bound, 0) {
				t.Fatalf("floor of %v: %+v, %v", values, floor, err)
			}
			if _, err := Decide(d, &floor, 0.01); err != nil {
				t.Fatal(err)
			}
		}
		e, err := Median(values, confidence)
		check("median", e, err)
		e, err = Mean(values, confidence)
		check("mean", e, err)
		times := make([]float64, len(values))
		for i := range times {
			times[i] = float64(i)
		}
		trend, err := MannKendall(times, values, confidence)
		check("slope", trend.Slope, err)
		shares, err := Elasticities([]Taken{{"a", -0.5, values}, {"b", 0.3, values}}, confidence)
		check("sum of elasticities", shares.Sum, err)
	})
}

// numbers reads bytes as float64s: eight at a time as bits, or one as a small
// number when the first byte of a value is even.
func numbers(data []byte, most int) []float64 {
	var out []float64
	for i := 0; i < len(data) && len(out) < most; i++ {
		if data[i]%2 == 0 || i+8 > len(data) {
			out = append(out, float64(int8(data[i]))/16)
			continue
		}
		bits := uint64(0)
		for _, b := range data[i : i+8] {
			bits = bits<<8 | uint64(b)
		}
		out = append(out, math.Float64frombits(bits))
		i += 7
	}
	return out
}

// sound says that an estimate is finite and ordered.
func sound(e Estimate) bool {
	for _, v := range []float64{e.Value, e.Low, e.High} {
		if math.IsNaN(v) || math.IsInf(v, 0) {
			return false
		}
	}
	return e.Confidence >= 0 && e.Confidence <= 1 && e.Low <= e.High
}

func ExamplePaired() {
	blocks := []float64{0.048, 0.051, 0.055, 0.046, 0.05, 0.053, 0.049, 0.052}
	d, err := Paired(blocks, 0.95, 4)
	if err != nil {
		panic(err)
	}
	fmt.Printf("%+.1f%% (%+.1f to %+.1f), p = %.4f\n", 100*Relative(d.Value), 100*Relative(d.Low), 100*Relative(d.High), d.P)
	// Output: +5.2% (+4.7 to +5.7), p = 0.0078
}
