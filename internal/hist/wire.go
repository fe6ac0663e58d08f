package hist

import (
	"encoding/binary"
	"errors"
	"math/bits"
)

// wireVersion of the binary form.
const wireVersion = 1

// AppendBinary adds the exact binary form of h to b: a version byte and, where
// anything was counted, as varints the count, the sum (high and low 64 bits), the
// smallest and the largest value, and for every bucket in use how far it lies
// behind the one before and its count. 1,000 latencies of a fast server take some
// 600 bytes. The error is always nil.
func (h *Hist) AppendBinary(b []byte) ([]byte, error) {
	b = append(b, wireVersion)
	b = binary.AppendUvarint(b, h.n)
	if h.n == 0 {
		return b, nil
	}
	for _, v := range []uint64{h.sumHi, h.sumLo, ^h.minC, h.max} {
		b = binary.AppendUvarint(b, v)
	}
	lo, hi := h.used()
	before := lo
	for i := lo; i <= hi; i++ {
		if c := h.counts[i]; c > 0 {
			b = binary.AppendUvarint(b, uint64(i-before))
			b = binary.AppendUvarint(b, c)
			before = i
		}
	}
	return b, nil
}

// UnmarshalBinary reads what AppendBinary wrote, all of b, in place of what h has
// counted. It refuses what no histogram comes to, and then h is empty. It
// allocates nothing.
func (h *Hist) UnmarshalBinary(b []byte) error {
	h.Reset()
	if err := h.unmarshal(b); err != nil {
		h.clear()
		return err
	}
	return nil
}

// clear empties h whatever state it is in.
func (h *Hist) clear() { *h = Hist{} }

// errWire is all that a reader needs to know: there is no way to mend it.
var errWire = errors.New("decode histogram: damaged, or of another version")

func (h *Hist) unmarshal(b []byte) error {
	if len(b) == 0 || b[0] != wireVersion {
		return errWire
	}
	b = b[1:]
	ok := true
	next := func() (v uint64) {
		n := 0
		if ok {
			v, n = binary.Uvarint(b)
		}
		if n <= 0 {
			ok = false
			return 0
		}
		b = b[n:]
		return v
	}
	n := next()
	if ok && n == 0 && len(b) == 0 {
		return nil
	}
	sumHi, sumLo, smallest, largest := next(), next(), next(), next()
	if !ok || n == 0 || smallest > largest || !sumFits(n, sumHi, sumLo, smallest, largest) {
		return errWire
	}
	at, end, seen := index(smallest), index(largest), uint64(0)
	for first := true; len(b) > 0; first = false {
		gap, c := next(), next()
		if !ok || c == 0 || first != (gap == 0) || gap > uint64(end-at) || c > n-seen {
			return errWire
		}
		at += uint(gap)
		h.counts[at] = c
		seen += c
	}
	if seen != n || at != end {
		return errWire
	}
	h.n, h.sumHi, h.sumLo, h.minC, h.max = n, sumHi, sumLo, ^smallest, largest
	return nil
}

// sumFits tells whether n values from smallest to largest, each of them among
// the values, can have the sum.
func sumFits(n, sumHi, sumLo, smallest, largest uint64) bool {
	if n == 1 {
		return smallest == largest && sumHi == 0 && sumLo == smallest
	}
	// smallest + … + largest, the other n-2 anywhere between.
	within := func(of uint64) (hi, lo uint64) {
		hi, lo = bits.Mul64(of, n-2)
		for _, v := range []uint64{smallest, largest} {
			var carry uint64
			lo, carry = bits.Add64(lo, v, 0)
			hi += carry
		}
		return hi, lo
	}
	leastHi, leastLo := within(smallest)
	mostHi, mostLo := within(largest)
	notBelow := sumHi > leastHi || sumHi == leastHi && sumLo >= leastLo
	notAbove := sumHi < mostHi || sumHi == mostHi && sumLo <= mostLo
	return notBelow && notAbove
}
