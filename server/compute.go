package server

import (
	"cmp"
	"math"
	"slices"
	"strconv"
)

const (
	sampleSize    = 100
	bucketCount   = 10
	topBrandCount = 5
	extremeCount  = 2 // cheapest and most expensive products listed

	// computedMaxBytes limits a response of /compute, which takes about 500 bytes. Below 2,048
	// bytes net/http sets Content-Length itself; above, it would use chunks, unlike the other
	// frameworks.
	computedMaxBytes = 1023
)

// A scratch is the memory that one response of /compute needs.
type scratch struct {
	sample [sampleSize]sampled
	counts [brandCount]int // products of the sample by brand
	body   [computedMaxBytes]byte
}

// sampled is a sampled product: 8 bytes to sort by, 8 to find the rest.
type sampled struct {
	priceCents int64
	product    int
}

// summarise computes /compute: it samples 100 products, sorts them by price, and returns their
// number, the minimum, median, maximum and mean price, the population standard deviation, a
// histogram of ten equal widths from the lowest to the highest price, the five most frequent
// brands, and the two cheapest and two most expensive products. It allocates nothing.
func summarise(p *pool, seed uint64, s *scratch) []byte {
	drawSample(p, seed, &s.sample)
	sample := s.sample[:]
	slices.SortFunc(sample, byPrice)
	least, largest := sample[0].priceCents, sample[sampleSize-1].priceCents

	b := append(s.body[:0], `{"count":`...)
	b = strconv.AppendInt(b, sampleSize, 10)
	b = appendMoney(append(b, `,"min":`...), float64(least))
	b = appendMoney(append(b, `,"median":`...), float64(sample[sampleSize/2-1].priceCents+sample[sampleSize/2].priceCents)/2)
	b = appendMoney(append(b, `,"max":`...), float64(largest))
	mean, deviation := moments(sample)
	b = appendMoney(append(b, `,"mean":`...), mean)
	b = appendMoney(append(b, `,"stddev":`...), deviation)
	b = appendHistogram(append(b, `,"histogram":[`...), sample)
	b = appendTopBrands(append(b, `],"top_brands":[`...), p, s)
	b = appendIDs(append(b, `],"cheapest":[`...), p, sample[:extremeCount])
	b = appendIDs(append(b, `],"dearest":[`...), p, sample[sampleSize-extremeCount:])
	return append(b, `]}`...)
}

// drawSample samples with replacement. It uses SplitMix64 from seed (Steele, Lea, Flood: Fast
// Splittable Pseudorandom Number Generators, OOPSLA 2014), whose state is a single word that fits
// a register.
func drawSample(p *pool, seed uint64, sample *[sampleSize]sampled) {
	for i := range sample {
		seed += 0x9e3779b97f4a7c15
		z := seed
		z = (z ^ z>>30) * 0xbf58476d1ce4e5b9
		z = (z ^ z>>27) * 0x94d049bb133111eb
		n := choose(z^z>>31, productCount)
		sample[i] = sampled{priceCents: p.products[n].priceCents, product: n}
	}
}

// byPrice orders by price, then by position in the pool: the result must not depend on how the
// sort treats equals.
func byPrice(a, b sampled) int {
	if c := cmp.Compare(a.priceCents, b.priceCents); c != 0 {
		return c
	}
	return cmp.Compare(a.product, b.product)
}

// moments returns the mean and the population standard deviation in cents.
func moments(sample []sampled) (mean, deviation float64) {
	var sum int64
	for _, x := range sample {
		sum += x.priceCents
	}
	mean = float64(sum) / float64(len(sample))
	var squares float64
	for _, x := range sample {
		d := float64(x.priceCents) - mean
		squares += d * d
	}
	return mean, math.Sqrt(squares / float64(len(sample)))
}

// appendHistogram appends the number of samples per bucket; all have equal width. A bucket
// includes its lower bound and excludes its upper one, except the last, which includes both. If
// all prices are equal, the last has them all.
func appendHistogram(b []byte, sample []sampled) []byte {
	least := sample[0].priceCents
	span := sample[len(sample)-1].priceCents - least
	next := 0
	for k := range int64(bucketCount) {
		first := next
		// In whole cents: x belongs before the bound least + span·(k+1)/10 if 10·(x-least) < span·(k+1).
		for next < len(sample) && (k == bucketCount-1 || bucketCount*(sample[next].priceCents-least) < span*(k+1)) {
			next++
		}
		if k > 0 {
			b = append(b, ',')
		}
		b = strconv.AppendInt(b, int64(next-first), 10)
	}
	return b
}

// appendTopBrands appends the most frequent brands; ties go to the first in the pool.
func appendTopBrands(b []byte, p *pool, s *scratch) []byte {
	clear(s.counts[:])
	for _, x := range s.sample {
		s.counts[p.products[x.product].brand]++
	}
	for k := range topBrandCount {
		top := 0
		for brand, n := range s.counts {
			if n > s.counts[top] {
				top = brand
			}
		}
		if k > 0 {
			b = append(b, ',')
		}
		b = append(append(b, `{"brand":`...), p.brands[top]...)
		b = strconv.AppendInt(append(b, `,"count":`...), int64(s.counts[top]), 10)
		b = append(b, '}')
		s.counts[top] = -1
	}
	return b
}

func appendIDs(b []byte, p *pool, sample []sampled) []byte {
	for k, x := range sample {
		if k > 0 {
			b = append(b, ',')
		}
		b = append(b, p.products[x.product].id...)
	}
	return b
}

// appendMoney appends cents as units with two decimals.
func appendMoney(b []byte, cents float64) []byte {
	return strconv.AppendFloat(b, cents/100, 'f', 2, 64)
}
