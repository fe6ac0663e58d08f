package load

import (
	"math"
	"math/bits"

	"ceiling/internal/unit"
)

// schedule tells when the requests of an open loop are due. due is a pure
// function of the request's number, in exact arithmetic: no period is rounded
// to nanoseconds and then added up, so that a million requests later the
// schedule is still where it was asked to be.
type schedule struct {
	// from and to are the same struct where the rate is constant: see newSchedule.
	from, to unit.Frequency
	lengthNs int64 // of a ramp
	poisson  bool
	seed     uint64
	share    Share // of the arrivals, with a Count and an Of
}

// newSchedule of a run. Two ways to write one rate (60/m, 1) are a constant one.
func newSchedule(c *Config) schedule {
	s := schedule{from: c.Rate.From, to: c.Rate.To, lengthNs: int64(c.Duration), poisson: c.Poisson, seed: c.Seed, share: c.Share}
	if s.share == (Share{}) {
		s.share = Share{Count: 1, Of: 1}
	}
	if c.Rate.Constant() {
		s.to = s.from
	}
	return s
}

// at is when the process reaches whole + frac/2³² requests, in nanoseconds after
// the start. Beyond what an int64 holds it answers the maximum.
func (s *schedule) at(whole uint64, frac uint32) int64 {
	if s.from == s.to {
		return constant(s.from, whole, frac)
	}
	return s.ramp(float64(whole) + float64(frac)/(1<<32))
}

// constant is (whole + frac/2³²) · per/count, rounded down, in 128 bits: the
// whole requests first, then what their remainder and the fraction come to.
func constant(f unit.Frequency, whole uint64, frac uint32) int64 {
	hi, lo := bits.Mul64(whole, f.PerNs)
	if hi >= f.Count {
		return math.MaxInt64 // also where Count is 0: never
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

// ramp solves a·t + (b-a)·t²/2d = n for t. It is closed, so errors do not add
// up: a test holds it within 2 ns over a day and 50 ns over a month.
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

// arrivals walks the part of a schedule that one worker sends: of the share's own
// arrivals those numbered first, first+stride, …, so that the union over all
// workers of all shares is exactly the schedule.
type arrivals struct {
	s      *schedule
	own    uint64 // number of the next request among the share's
	number uint64 // and in the schedule
	rest   uint64 // own % share.Count
	stride uint64
	// A step of stride in the schedule: jump, and over the others' part where rest
	// comes round.
	jump, turn uint64
	// Poisson: the gaps summed so far are walked + frac/2³², of the numbers
	// before gaps. 64 whole bits, for 32 are used up after an hour at 1M/s.
	walked uint64
	gaps   uint64
	frac   uint32
}

func (s *schedule) arrivals(first, stride uint64) arrivals {
	n := s.share.Count
	a := arrivals{s: s, own: first, stride: stride, turn: stride % n, jump: stride/n*s.share.Of + stride%n}
	return a.after(0)
}

// after is what follows the k next ones; of a Poisson process it has to be
// walked to.
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

// passed counts those before the next one, of a walk that began with first.
func (a *arrivals) passed(first uint64) uint64 { return (a.own - first) / a.stride }

// due of the next request, nanoseconds after the start.
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

// exponential is gap n of a unit Poisson process, 32 fractional bits: a pure
// function of the seed and n, so that every worker walks the same process.
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

// perNs is a frequency in events per nanosecond.
func perNs(f unit.Frequency) float64 {
	if f.PerNs == 0 {
		return 0
	}
	return float64(f.Count) / float64(f.PerNs)
}
