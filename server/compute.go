package server

import (
	"cmp"
	"encoding/json"
	"math"
	"math/rand/v2"
	"slices"
)

const (
	sampleSize  = 100
	bucketCount = 10
	topCount    = 3 // brands, colours and uses listed
)

// summary is the answer of /compute: about 490 bytes of JSON. Below 2,048 bytes net/http sets
// Content-Length itself; above, it would use chunks, unlike the other frameworks.
type summary struct {
	Count     int         `json:"count"`
	Min       float64     `json:"min"`
	Lower     float64     `json:"p25"`
	Median    float64     `json:"p50"`
	Upper     float64     `json:"p75"`
	Max       float64     `json:"max"`
	Mean      float64     `json:"mean"`
	Deviation float64     `json:"stddev"` // of the population
	Histogram []int       `json:"histogram"`
	Brands    []nameCount `json:"top_brands"`
	Colours   []nameCount `json:"top_colours"`
	Uses      []nameCount `json:"top_uses"`
}

// nameCount is how many of the products have a name.
type nameCount struct {
	Name  string `json:"name"`
	Count int    `json:"count"`
}

// summarise answers /compute: statistics of 100 different products drawn at random. It is written
// as services usually are, with the standard library and without a thought for allocations: the
// route stands for work in the application.
func summarise(p *pool, seed uint64) []byte {
	sample := p.draw(seed)
	slices.SortFunc(sample, func(a, b Product) int { return cmp.Compare(a.Price, b.Price) })
	s := summary{
		Count:     len(sample),
		Min:       sample[0].Price,
		Lower:     sample[sampleSize/4-1].Price,
		Median:    sample[sampleSize/2-1].Price,
		Upper:     sample[sampleSize*3/4-1].Price,
		Max:       sample[sampleSize-1].Price,
		Histogram: histogram(sample),
	}
	s.Mean, s.Deviation = moments(sample)
	brands, colours, uses := map[string]int{}, map[string]int{}, map[string]int{}
	for _, p := range sample {
		brands[p.Brand]++
		colours[p.Attributes.Colour]++
		uses[p.Attributes.Use]++
	}
	s.Brands, s.Colours, s.Uses = mostFrequent(brands), mostFrequent(colours), mostFrequent(uses)
	body, err := json.Marshal(s)
	if err != nil { // not with finite prices
		panic(err)
	}
	return body
}

// draw returns copies of products, none twice.
func (p *pool) draw(seed uint64) []Product {
	sample := make([]Product, sampleSize)
	for i, n := range rand.New(rand.NewPCG(seed, 0)).Perm(len(p.products))[:sampleSize] {
		sample[i] = p.products[n].Product
	}
	return sample
}

// money rounds to cents.
func money(v float64) float64 { return math.Round(v*100) / 100 }

// moments returns the mean and the standard deviation of the prices.
func moments(sample []Product) (mean, deviation float64) {
	var sum, squares float64
	for _, p := range sample {
		sum += p.Price
	}
	mean = sum / float64(len(sample))
	for _, p := range sample {
		squares += (p.Price - mean) * (p.Price - mean)
	}
	return money(mean), money(math.Sqrt(squares / float64(len(sample))))
}

// histogram counts the prices in buckets of equal width from the lowest to the highest. A bucket
// includes its lower bound and excludes its upper one, except the last, which includes both.
func histogram(sorted []Product) []int {
	counts := make([]int, bucketCount)
	least := sorted[0].Price
	width := (sorted[len(sorted)-1].Price - least) / bucketCount
	for _, p := range sorted {
		bucket := bucketCount - 1
		if width > 0 {
			bucket = min(int((p.Price-least)/width), bucketCount-1)
		}
		counts[bucket]++
	}
	return counts
}

// mostFrequent returns the names that most products have, ties in the order of the alphabet.
func mostFrequent(counts map[string]int) []nameCount {
	all := make([]nameCount, 0, len(counts))
	for name, n := range counts {
		all = append(all, nameCount{name, n})
	}
	slices.SortFunc(all, func(a, b nameCount) int {
		return cmp.Or(cmp.Compare(b.Count, a.Count), cmp.Compare(a.Name, b.Name))
	})
	return all[:min(topCount, len(all))]
}
