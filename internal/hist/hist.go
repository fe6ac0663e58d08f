// Package hist is the latency histogram of the hot path: an array of counts over log-linear
// buckets of nanoseconds, plus exact count, sum, minimum and maximum.
//
// Each power of two is divided into 256 buckets of equal width; values below 512 ns have a bucket
// each. A value within a bucket is reported as the bucket's middle, so it is off by at most 1/512
// (0.2 %). That bound holds up to 2^42−1 ns (73 minutes); larger values are counted in the last
// bucket, where only Max is exact.
//
// A Hist leaves the process as an HdrHistogram (see hdr.go), whose buckets of three significant
// digits lie entirely inside ours, so counts survive the conversion.
package hist

import (
	"math"
	"math/bits"
)

const (
	subBits = 8                       // 256 buckets for each power of two
	sub     = 1 << subBits            //
	topBits = 42                      // values below 2^42 ns have a bucket of their own size
	topNs   = 1<<topBits - 1          // 73 min 18 s: the first power of two above an hour
	maxExp  = topBits - 9             // a value of 42 bits is shifted by 33 to lie in 256..511
	buckets = (maxExp + 2) << subBits // exponents 0..33, and the 256 extra exact ones below 256 ns
	last    = buckets - 1
)

// Hist counts values in nanoseconds. The zero value is empty and ready. It is
// 70 KiB, all inline, owned by one goroutine at a time, and never allocates.
type Hist struct {
	n     uint64
	sumLo uint64 // 128-bit sum: a million requests a second waiting 10 s each fill 64 bits in half an hour
	sumHi uint64
	minC  uint64 // the smallest value's complement, so that zero means "none yet"
	max   uint64 // every used bucket lies between index(^minC) and index(max)

	counts [buckets]uint64
}

// index returns the bucket of v. The exponent is how far v must be shifted to lie in 256..511;
// below 512 it is 0 and the bucket is v itself.
func index(v uint64) uint {
	e := uint(bits.Len64(v|sub)) - (subBits + 1)
	return min(e<<subBits+uint(v>>(e&63)), last)
}

// bounds returns the smallest and largest value of bucket i.
func bounds(i uint) (low, high uint64) {
	if i < 2*sub {
		return uint64(i), uint64(i)
	}
	e := i>>subBits - 1
	low = uint64(i-e<<subBits) << e
	return low, low + 1<<e - 1
}

// Record counts one value. Negative values count as 0: a clock read on two
// cores may step back by a few nanoseconds. It costs 2.3 ns.
func (h *Hist) Record(ns int64) {
	v := uint64(max(ns, 0))
	h.counts[index(v)]++
	h.n++
	var carry uint64
	h.sumLo, carry = bits.Add64(h.sumLo, v, 0)
	h.sumHi += carry
	h.minC = max(h.minC, ^v)
	h.max = max(h.max, v)
}

// RecordN counts the same value n times; n = 0 changes nothing.
func (h *Hist) RecordN(ns int64, n uint64) {
	if n == 0 {
		return
	}
	v := uint64(max(ns, 0))
	h.counts[index(v)] += n
	h.n += n
	hi, lo := bits.Mul64(v, n)
	h.addSum(hi, lo)
	h.minC = max(h.minC, ^v)
	h.max = max(h.max, v)
}

func (h *Hist) addSum(hi, lo uint64) {
	var carry uint64
	h.sumLo, carry = bits.Add64(h.sumLo, lo, 0)
	h.sumHi += hi + carry
}

// used returns the range of buckets that may hold counts: empty if lo > hi.
func (h *Hist) used() (lo, hi uint) {
	if h.n == 0 {
		return 1, 0
	}
	return index(^h.minC), index(h.max)
}

// Merge adds all counts of o. It touches only the buckets between o's minimum and maximum. It
// does not change o, which may be h itself.
func (h *Hist) Merge(o *Hist) {
	if o.n == 0 {
		return
	}
	lo, hi := o.used()
	from := o.counts[lo : hi+1]
	to := h.counts[lo : hi+1][:len(from)]
	for i, c := range from {
		to[i] += c
	}
	h.n += o.n
	h.addSum(o.sumHi, o.sumLo)
	h.minC = max(h.minC, o.minC)
	h.max = max(h.max, o.max)
}

// Reset empties h, touching only the buckets in use.
func (h *Hist) Reset() {
	if h.n == 0 {
		return
	}
	lo, hi := h.used()
	clear(h.counts[lo : hi+1])
	h.n, h.sumLo, h.sumHi, h.minC, h.max = 0, 0, 0, 0, 0
}

// Count returns the number of values recorded.
func (h *Hist) Count() uint64 { return h.n }

// Sum returns the exact sum in nanoseconds. It saturates at 2^64−1 (584 years); Mean continues
// beyond.
func (h *Hist) Sum() uint64 {
	if h.sumHi != 0 {
		return math.MaxUint64
	}
	return h.sumLo
}

// Mean returns sum / count in nanoseconds, from the exact sum; 0 if empty.
func (h *Hist) Mean() float64 {
	if h.n == 0 {
		return 0
	}
	return (math.Ldexp(float64(h.sumHi), 64) + float64(h.sumLo)) / float64(h.n)
}

// Deviation returns the standard deviation of all values in nanoseconds, each within 1/512, and how
// many are within one deviation of the mean; 0 if empty.
func (h *Hist) Deviation() (ns float64, within uint64) {
	mean, squares := h.Mean(), 0.0
	lo, hi := h.used()
	for i := lo; i <= hi; i++ {
		off := float64(h.middle(i)) - mean
		squares += off * off * float64(h.counts[i])
	}
	if h.n > 0 {
		ns = math.Sqrt(squares / float64(h.n))
	}
	for i := lo; i <= hi; i++ {
		if math.Abs(float64(h.middle(i))-mean) <= ns {
			within += h.counts[i]
		}
	}
	return ns, within
}

// Min returns the exact minimum in nanoseconds; 0 if empty.
func (h *Hist) Min() int64 {
	if h.n == 0 {
		return 0
	}
	return int64(^h.minC)
}

// Max returns the exact maximum in nanoseconds, even past the last bucket; 0 if empty.
func (h *Hist) Max() int64 { return int64(h.max) }

// Quantile returns the value of nearest rank ceil(q·n): the smallest recorded value that at least
// a share q of all values does not exceed, within 1/512 of it. Ranks 1 and n return Min and Max
// exactly. A q outside 0..1 counts as 0 or 1 (NaN as 0). An empty Hist returns 0.
func (h *Hist) Quantile(q float64) int64 {
	if h.n == 0 {
		return 0
	}
	switch rank := rankOf(q, h.n); rank {
	case 1:
		return h.Min()
	case h.n:
		return h.Max()
	default:
		lo, hi := h.used()
		var seen uint64
		for i := lo; i < hi; i++ {
			if seen += h.counts[i]; seen >= rank {
				return h.middle(i)
			}
		}
		return h.middle(hi)
	}
}

// rankOf returns ceil(q·n) in 1..n. If a rounding error of up to two units in the last place
// lifted the product over an integer (0.07 × 100 = 7.000000000000001), it returns that integer.
func rankOf(q float64, n uint64) uint64 {
	if !(q > 0) {
		return 1
	}
	if q >= 1 {
		return n
	}
	x := q * float64(n)
	r := math.Ceil(x)
	if x-(r-1) <= x*0x1p-51 {
		r--
	}
	return min(max(uint64(r), 1), n)
}

// middle returns the representative value of bucket i: its middle, but never outside the recorded
// range.
func (h *Hist) middle(i uint) int64 {
	low, high := bounds(i)
	m := low + (high-low+1)/2
	return int64(min(max(m, ^h.minC), h.max))
}

// Each calls f for every non-empty bucket, in ascending order, with its inclusive bounds in
// nanoseconds. The last bucket extends to Max if values past 2^42−1 were recorded.
func (h *Hist) Each(f func(lowNs, highNs int64, count uint64)) {
	lo, hi := h.used()
	for i := lo; i <= hi; i++ {
		c := h.counts[i]
		if c == 0 {
			continue
		}
		low, high := bounds(i)
		if i == last {
			high = max(high, h.max)
		}
		f(int64(low), int64(high), c)
	}
}

// CountAtMost returns how many values were at most ns. The bucket that contains ns counts if its
// middle is at most ns, so only values within 1/256 of ns can be on the wrong side; below Min and
// from Max on the result is exact. It agrees with Quantile: CountAtMost(Quantile(q)) is never
// below ceil(q·n).
func (h *Hist) CountAtMost(ns int64) uint64 {
	switch {
	case h.n == 0 || ns < h.Min():
		return 0
	case ns >= h.Max():
		return h.n
	}
	at := index(uint64(ns))
	lo, _ := h.used()
	var seen uint64
	for i := lo; i < at; i++ {
		seen += h.counts[i]
	}
	if h.middle(at) <= ns {
		seen += h.counts[at]
	}
	// Min is at most ns and Max is not, whatever their buckets' middles.
	return min(max(seen, 1), h.n-1)
}
