//go:build linux

package server

import (
	"encoding/json"
	"maps"
	"math"
	"math/rand/v2"
	"slices"
	"testing"
)

// The answer against a plain computation of the same from the documents of the same sample.
func TestSummarise(t *testing.T) {
	p := mustPool(t)
	draw := rand.New(rand.NewPCG(5, 6))
	longest, total := 0, 0
	for range 300 {
		seed := draw.Uint64()
		body := summarise(p, seed)
		longest, total = max(longest, len(body)), total+len(body)
		var got summary
		if err := json.Unmarshal(body, &got); err != nil {
			t.Fatalf("%v: %s", err, body)
		}
		chosen := p.draw(seed)
		if seen := distinct(chosen); seen != sampleSize {
			t.Fatalf("seed %d draws %d different products", seed, seen)
		}
		checkSummary(t, got, chosen)
		if t.Failed() {
			t.Fatalf("seed %d: %s", seed, body)
		}
	}
	if mean := total / 300; mean < 460 || mean > 520 {
		t.Errorf("answers of %d bytes on average, about 490 is documented", mean)
	}
	t.Logf("%d bytes at most, %d on average", longest, total/300)
}

func distinct(sample []Product) int {
	seen := map[string]bool{}
	for _, p := range sample {
		seen[p.ID] = true
	}
	return len(seen)
}

func checkSummary(t *testing.T, got summary, chosen []Product) {
	t.Helper()
	near := func(what string, got, want float64) {
		t.Helper()
		if math.Abs(got-want) > 0.0051 { // two decimals are told
			t.Errorf("%s %v, want %v", what, got, want)
		}
	}
	var prices []float64
	sum, squares := 0.0, 0.0
	brands, colours, uses := map[string]int{}, map[string]int{}, map[string]int{}
	for _, d := range chosen {
		prices = append(prices, d.Price)
		sum += d.Price
		squares += d.Price * d.Price
		brands[d.Brand]++
		colours[d.Attributes.Colour]++
		uses[d.Attributes.Use]++
	}
	slices.Sort(prices)
	n := float64(len(prices))
	near("min", got.Min, prices[0])
	near("max", got.Max, prices[99])
	near("p25", got.Lower, prices[24]) // the nearest rank
	near("p50", got.Median, prices[49])
	near("p75", got.Upper, prices[74])
	near("mean", got.Mean, sum/n)
	near("stddev", got.Deviation, math.Sqrt(squares/n-sum/n*sum/n))
	if got.Count != 100 || len(got.Histogram) != 10 || len(got.Brands) != topCount || len(got.Colours) != topCount ||
		len(got.Uses) != topCount {
		t.Errorf("wrong numbers of things")
		return
	}
	checkHistogram(t, got, prices)
	checkFrequent(t, got.Brands, brands)
	checkFrequent(t, got.Colours, colours)
	checkFrequent(t, got.Uses, uses)
}

// checkFrequent holds the names listed against the counts of all.
func checkFrequent(t *testing.T, got []nameCount, all map[string]int) {
	t.Helper()
	counts := slices.Sorted(maps.Values(all))
	slices.Reverse(counts)
	for i, b := range got {
		if b.Count != counts[i] || b.Count != all[b.Name] {
			t.Errorf("top %d: %v, want one of %d", i, b, counts[i])
		}
	}
}

func checkHistogram(t *testing.T, got summary, prices []float64) {
	t.Helper()
	total := 0
	width := (prices[99] - prices[0]) / 10
	for k, count := range got.Histogram {
		from, to := prices[0]+width*float64(k), prices[0]+width*float64(k+1)
		// A price within rounding of a bound may be counted on either side of it.
		surely, perhaps := 0, 0
		for _, p := range prices {
			if p > from+1e-6 && p < to-1e-6 {
				surely++
			}
			if p > from-1e-6 && p < to+1e-6 {
				perhaps++
			}
		}
		if count < surely || count > perhaps {
			t.Errorf("bucket %d counts %d, want %d to %d", k, count, surely, perhaps)
		}
		total += count
	}
	if total != len(prices) {
		t.Errorf("the histogram counts %d prices", total)
	}
}

// All prices equal: no bucket has a width.
func TestHistogramOfOnePrice(t *testing.T) {
	got := histogram([]Product{{Price: 2.5}, {Price: 2.5}, {Price: 2.5}})
	if want := []int{0, 0, 0, 0, 0, 0, 0, 0, 0, 3}; !slices.Equal(got, want) {
		t.Errorf("%v, want %v", got, want)
	}
}
