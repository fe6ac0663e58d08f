package server

import (
	"encoding/json"
	"math"
	"math/rand/v2"
	"slices"
	"testing"
)

// summary is an answer of /compute.
type summary struct {
	Count                          int
	Min, Median, Max, Mean, Stddev float64
	Histogram                      []int
	TopBrands                      []struct {
		Brand string
		Count int
	} `json:"top_brands"`
	Cheapest, Dearest []string
}

// The answer against a plain computation of the same from the documents of the same sample.
func TestSummarise(t *testing.T) {
	p := mustPool(t)
	documents := make([]document, productCount)
	for i, x := range p.products {
		if err := json.Unmarshal(x.json, &documents[i]); err != nil {
			t.Fatal(err)
		}
	}
	draw := rand.New(rand.NewPCG(5, 6))
	longest, total := 0, 0
	for range 300 {
		seed := draw.Uint64()
		s := new(scratch)
		body := summarise(p, seed, s)
		longest, total = max(longest, len(body)), total+len(body)
		if &body[0] != &s.body[0] {
			t.Fatal("the body outgrew the scratch")
		}
		var got summary
		if err := json.Unmarshal(body, &got); err != nil {
			t.Fatalf("%v: %s", err, body)
		}
		var sample [sampleSize]sampled
		drawSample(p, seed, &sample)
		var chosen []document
		for _, x := range sample {
			chosen = append(chosen, documents[x.product])
		}
		checkSummary(t, got, chosen)
		if t.Failed() {
			t.Fatalf("seed %d: %s", seed, body)
		}
	}
	if mean := total / 300; mean < 480 || mean > 520 {
		t.Errorf("answers of %d bytes on average, about 500 is documented", mean)
	}
	t.Logf("%d bytes at most, %d on average", longest, total/300)
}

func checkSummary(t *testing.T, got summary, chosen []document) {
	t.Helper()
	near := func(what string, got, want float64) {
		t.Helper()
		if math.Abs(got-want) > 0.0051 { // two decimals are told
			t.Errorf("%s %v, want %v", what, got, want)
		}
	}
	var prices []float64
	sum, squares := 0.0, 0.0
	brands := map[string]int{}
	for _, d := range chosen {
		prices = append(prices, d.Price)
		sum += d.Price
		squares += d.Price * d.Price
		brands[d.Brand]++
	}
	slices.Sort(prices)
	n := float64(len(prices))
	near("min", got.Min, prices[0])
	near("max", got.Max, prices[99])
	near("median", got.Median, (prices[49]+prices[50])/2)
	near("mean", got.Mean, sum/n)
	near("stddev", got.Stddev, math.Sqrt(squares/n-sum/n*sum/n))
	if got.Count != 100 || len(got.Histogram) != 10 || len(got.TopBrands) != 5 || len(got.Cheapest) != 2 || len(got.Dearest) != 2 {
		t.Errorf("wrong numbers of things")
		return
	}
	checkHistogram(t, got, prices)
	counts := []int{}
	for _, c := range brands {
		counts = append(counts, c)
	}
	slices.Sort(counts)
	slices.Reverse(counts)
	for i, b := range got.TopBrands {
		if b.Count != counts[i] || b.Count != brands[b.Brand] {
			t.Errorf("top brand %d: %v, want one of %d", i, b, counts[i])
		}
	}
	priceOf := map[string]float64{}
	for _, d := range chosen {
		priceOf[d.ID] = d.Price
	}
	for i := range 2 {
		near("cheapest", priceOf[got.Cheapest[i]], prices[i])
		near("dearest", priceOf[got.Dearest[i]], prices[98+i])
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
	sample := make([]sampled, 4)
	for i := range sample {
		sample[i].priceCents = 250
	}
	var got []int
	b := append(appendHistogram([]byte("["), sample), ']')
	if err := json.Unmarshal(b, &got); err != nil {
		t.Fatalf("%v: %s", err, b)
	}
	for k, count := range got {
		want := 0
		if k == bucketCount-1 {
			want = 4
		}
		if count != want {
			t.Errorf("bucket %d counts %d, want %d", k, count, want)
		}
	}
	if len(got) != bucketCount {
		t.Errorf("%d buckets", len(got))
	}
}

// No sample can make the body longer than the scratch: the longest is all the longest parts together.
func TestComputedBodyIsBounded(t *testing.T) {
	p := mustPool(t)
	longestBrand, longestPrice := 0, int64(0)
	for _, b := range p.brands {
		longestBrand = max(longestBrand, len(b))
	}
	for _, x := range p.products {
		longestPrice = max(longestPrice, x.priceCents)
	}
	money := len(appendMoney(nil, float64(longestPrice)))
	empty := len(`{"count":100,"min":,"median":,"max":,"mean":,"stddev":,"histogram":[],"top_brands":[],"cheapest":[],"dearest":[]}`)
	bucket := len(`100,`)
	brand := len(`{"brand":,"count":100},`) + longestBrand
	id := len(p.products[0].id) + 1
	worst := empty + 5*money + bucketCount*bucket + topBrandCount*brand + 2*extremeCount*id
	if worst > computedMaxBytes {
		t.Errorf("a body may take %d bytes of %d", worst, computedMaxBytes)
	}
	t.Logf("%d bytes at most", worst)
}
