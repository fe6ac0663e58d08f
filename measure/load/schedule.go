package load

import (
	"math"
	"math/bits"
	"sort"

	"ceiling/internal/unit"
)

// schedule computes when the requests of an open loop are due. due is a pure function of the
// request's number, in exact arithmetic: no rounded period adds up, so that after a million
// requests the schedule has not drifted.
type schedule struct {
	// from and to are equal if the rate is constant: see newSchedule.
	from, to unit.Frequency
	lengthNs int64   // of a ramp, or of all steps
	steps    []step  // nil: none
	times    []int64 // of each request; nil: the rate says
	poisson  bool
	seed     uint64
	share    Share // of the arrivals, with a Count and an Of
}

// newSchedule returns the schedule of a run. Two forms of one rate (60/m, 1) make it constant.
func newSchedule(c *Config) schedule {
	s := schedule{from: c.Rate.From, to: c.Rate.To, lengthNs: int64(c.Duration), poisson: c.Poisson, seed: c.Seed, share: c.Share}
	if s.share == (Share{}) {
		s.share = Share{Count: 1, Of: 1}
	}
	if c.Rate.Constant() {
		s.to = s.from
	}
	s.steps = stepsOf(c.Rate.Each(), s.lengthNs)
	if from := composing(c.Mix); from != nil {
		s.times = from.Times
	}
	return s
}

// step is a part of the run with a rate of its own.
type step struct {
	rate           unit.Frequency
	startNs, endNs int64
	first          uint64 // number of its first request
}

// stepsOf divides a run into steps. Each begins with a request that is due at once.
func stepsOf(rates []unit.Frequency, lengthNs int64) []step {
	var list []step
	first := uint64(0)
	for i, f := range rates {
		at := step{rate: f, startNs: lengthNs / int64(len(rates)) * int64(i), endNs: lengthNs / int64(len(rates)) * int64(i+1), first: first}
		if i == len(rates)-1 {
			at.endNs = lengthNs
		}
		list = append(list, at)
		if f.Count > 0 { // those due before its end: ⌈length × count ÷ per⌉
			hi, lo := bits.Mul64(uint64(at.endNs-at.startNs), f.Count)
			n, rest := bits.Div64(hi, lo, f.PerNs)
			if first += n; rest > 0 {
				first++
			}
		}
	}
	return list
}

// atStep is at in a run of steps.
func (s *schedule) atStep(whole uint64, frac uint32) int64 {
	k := sort.Search(len(s.steps), func(i int) bool { return s.steps[i].first > whole }) - 1
	t := &s.steps[k]
	if after := constant(t.rate, whole-t.first, frac); after < t.endNs-t.startNs {
		return t.startNs + after
	}
	if k == len(s.steps)-1 {
		return math.MaxInt64 // after the last
	}
	return t.endNs // a Poisson process between two steps
}

// at returns when the process reaches whole + frac/2³² requests, in nanoseconds after the start;
// the maximum beyond what an int64 holds.
func (s *schedule) at(whole uint64, frac uint32) int64 {
	switch {
	case s.times != nil && whole >= uint64(len(s.times)):
		return math.MaxInt64
	case s.times != nil:
		return s.times[whole]
	case s.steps != nil:
		return s.atStep(whole, frac)
	}
	if s.from == s.to {
		return constant(s.from, whole, frac)
	}
	return s.ramp(float64(whole) + float64(frac)/(1<<32))
}

// constant computes (whole + frac/2³²) · per/count, rounded down, in 128 bits: first the whole
// requests, then their remainder and the fraction.
func constant(f unit.Frequency, whole uint64, frac uint32) int64 {
	hi, lo := bits.Mul64(whole, f.PerNs)
	if hi >= f.Count {
		return math.MaxInt64 // also if Count is 0: never
	}
	q, rest := bits.Div64(hi, lo, f.Count)
	if frac > 0 {
		hi, lo = bits.Mul64(uint64(frac), f.PerNs)
		lo, carry := bits.Add64(hi<<32|lo>>32, rest, 0)
		if carry >= f.Count {
			return math.MaxInt64
		}
		more, _ := bits.Div64(carry, lo, f.Count)
		if q, carry = bits.Add64(q, more, 0); carry > 0 {
			return math.MaxInt64
		}
	}
	return int64(min(q, math.MaxInt64))
}

// perNsAt returns the rate at a time after the start, in requests per nanosecond.
func (s *schedule) perNsAt(ns int64) float64 {
	switch {
	case s.steps != nil:
		k := sort.Search(len(s.steps)-1, func(i int) bool { return s.steps[i].endNs > ns })
		return perNs(s.steps[k].rate)
	case s.from == s.to:
		return perNs(s.from)
	}
	return perNs(s.from) + (perNs(s.to)-perNs(s.from))*min(max(float64(ns)/float64(s.lengthNs), 0), 1)
}

// ramp solves a·t + (b-a)·t²/2d = n for t. The solution is closed, so errors do not add up: a test
// bounds them by 2 ns over a day and 50 ns over a month.
func (s *schedule) ramp(n float64) int64 {
	if n == 0 {
		return 0
	}
	a, b, d := perNs(s.from), perNs(s.to), float64(s.lengthNs)
	slope := (b - a) / d
	root := a*a + 2*slope*n
	if root < 0 {
		return math.MaxInt64 // a falling ramp ends before its n-th request
	}
	t := 2 * n / (a + math.Sqrt(root))
	if t >= math.MaxInt64 {
		return math.MaxInt64
	}
	return int64(t)
}

// arrivals walks the part of a schedule that one worker sends: of the share's own arrivals those
// numbered first, first+stride, …, so that the union over all workers of all shares is exactly the
// schedule.
type arrivals struct {
	s      *schedule
	own    uint64 // number of the next request among the share's
	number uint64 // and in the schedule
	rest   uint64 // own % share.Count
	stride uint64
	// A step of stride in the schedule: jump, plus turn over the others' part when rest wraps
	// around.
	jump, turn uint64
	// Poisson: the gaps summed so far, those with numbers below gaps, are walked + frac/2³². 64
	// whole bits, because 32 are used up after an hour at 1M/s.
	walked uint64
	gaps   uint64
	frac   uint32
}

func (s *schedule) arrivals(first, stride uint64) arrivals {
	n := s.share.Count
	a := arrivals{s: s, own: first, stride: stride, turn: stride % n, jump: stride/n*s.share.Of + stride%n}
	return a.after(0)
}

// after returns what follows the next k ones; a Poisson process has to be walked there.
func (a arrivals) after(k uint64) arrivals {
	a.own += k * a.stride
	a.number, a.rest = a.s.share.Number(a.own), a.own%a.s.share.Count
	return a
}

// before counts those from the next one on that have numbers below n.
func (a *arrivals) before(n uint64) uint64 {
	all := a.s.share.Part(n)
	if all <= a.own {
		return 0
	}
	return (all - a.own + a.stride - 1) / a.stride
}

// passed counts those before the next one, in a walk that began with first.
func (a *arrivals) passed(first uint64) uint64 { return (a.own - first) / a.stride }

// due returns when the next request is due, in nanoseconds after the start.
func (a *arrivals) due() int64 {
	if !a.s.poisson {
		return a.s.at(a.number, 0)
	}
	for a.gaps <= a.number {
		gap := exponential(a.s.seed, a.gaps)
		sum := uint64(a.frac) + gap&math.MaxUint32
		a.walked += gap>>32 + sum>>32
		a.frac = uint32(sum)
		a.gaps++
	}
	return a.s.at(a.walked, a.frac)
}

func (a *arrivals) next() {
	a.own += a.stride
	a.number += a.jump
	if a.rest += a.turn; a.rest >= a.s.share.Count {
		a.rest -= a.s.share.Count
		a.number += a.s.share.Of - a.s.share.Count
	}
}

// exponential returns gap n of a unit Poisson process, 32 fractional bits: a pure function of the
// seed and n, so that every worker walks the same process.
func exponential(seed, n uint64) uint64 {
	u := float64(mix(seed+mix(n))>>11+1) / (1 << 53) // (0, 1]
	return uint64(-math.Log(u) * (1 << 32))
}

// mix is the finaliser of splitmix64 (Steele, Lea, Flood 2014).
func mix(x uint64) uint64 {
	x += 0x9e3779b97f4a7c15
	x = (x ^ x>>30) * 0xbf58476d1ce4e5b9
	x = (x ^ x>>27) * 0x94d049bb133111eb
	return x ^ x>>31
}

// perNs converts a frequency to events per nanosecond.
func perNs(f unit.Frequency) float64 {
	if f.PerNs == 0 {
		return 0
	}
	return float64(f.Count) / float64(f.PerNs)
}
