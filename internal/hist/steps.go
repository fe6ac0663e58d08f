package hist

import (
	"math"
	"math/bits"
)

const (
	// stepsPerOctave is the number of steps per power of two.
	stepsPerOctave = 4
	// StepsMost is the number of steps, up to the end of the last bucket.
	StepsMost = topBits * stepsPerOctave
)

// stepEnds are the ends of the steps of a power of two, in its 256ths: 2^(1/4), 2^(1/2) and
// 2^(3/4) rounded to the nearest bucket, which is within 0.15 % of them.
const (
	stepEnd0 = 48
	stepEnd1 = 106
	stepEnd2 = 175
)

// Steps counts the same values in few buckets: four per power of two, of equal width on a
// logarithmic axis, from the first non-empty one to the last. It returns the number of the first
// and the counts; StepNs has the bounds. Every value is counted exactly once. It takes 3 to 10 µs
// for values from 10 µs to 100 ms.
func (h *Hist) Steps() (first int, counts []uint64) {
	if h.n == 0 {
		return 0, nil
	}
	lo, hi := h.used()
	first = stepOf(lo)
	counts = make([]uint64, stepOf(hi)-first+1)
	for i := lo; i <= hi; {
		step := stepOf(i)
		end := min(stepEnd(step, i), hi+1)
		var sum uint64
		for _, n := range h.counts[i:end] {
			sum += n
		}
		counts[step-first] += sum
		i = end
	}
	return first, counts
}

// stepEnd returns the bucket after the last of the step that contains bucket i. Below 256 ns a
// bucket is a value, and a step of its own.
func stepEnd(step int, i uint) uint {
	if i < sub {
		return i + 1
	}
	ends := [...]uint{stepEnd0, stepEnd1, stepEnd2, sub}
	return uint(step/stepsPerOctave-subBits+1)<<subBits + ends[step%stepsPerOctave]
}

// stepOf returns the number of the step that contains bucket i.
func stepOf(i uint) int {
	low, _ := bounds(i)
	if low == 0 {
		return 0
	}
	octave := bits.Len64(low) - 1
	part := low << (63 - octave) >> (63 - subBits) & (sub - 1) // in 256ths of the power of two
	step := octave * stepsPerOctave
	switch {
	case part < stepEnd0:
		return step
	case part < stepEnd1:
		return step + 1
	case part < stepEnd2:
		return step + 2
	}
	return step + 3
}

// StepNs returns the start of step i, nanoseconds; it ends where the next starts.
func StepNs(i int) float64 { return math.Exp2(float64(i) / stepsPerOctave) }
