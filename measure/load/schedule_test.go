//go:build linux

package load

import (
	"math"
	"math/big"
	"slices"
	"testing"
	"time"

	"pgregory.net/rapid"

	"ceiling/internal/unit"
)

func perSecond(n uint64) unit.Frequency { return unit.Frequency{Count: n, PerNs: 1e9} }

func constantRate(f unit.Frequency) schedule {
	return newSchedule(&Config{Rate: unit.Rate{From: f, To: f}})
}

// exactDue is floor((whole + frac/2³²)·per/count), or the maximum, in arithmetic
// without a bound.
func exactDue(f unit.Frequency, whole uint64, frac uint32) int64 {
	if f.Count == 0 {
		return math.MaxInt64
	}
	n := new(big.Int).SetUint64(whole)
	n.Lsh(n, 32).Add(n, new(big.Int).SetUint64(uint64(frac)))
	n.Mul(n, new(big.Int).SetUint64(f.PerNs))
	n.Div(n, new(big.Int).Lsh(new(big.Int).SetUint64(f.Count), 32))
	if !n.IsInt64() {
		return math.MaxInt64
	}
	return n.Int64()
}

// TestDueIsExact: due is the floor of the exact time for any rate that can be
// written, at any number, also where 64 bits overflow.
func TestDueIsExact(t *testing.T) {
	check := func(f unit.Frequency, whole uint64, frac uint32) {
		t.Helper()
		s := constantRate(f)
		if got, want := s.at(whole, frac), exactDue(f, whole, frac); got != want {
			t.Fatalf("%d/%d ns, request %d + %d/2³²: due %d, want %d", f.Count, f.PerNs, whole, frac, got, want)
		}
	}
	check(perSecond(3), 1, 0)             // a third of a second: 333,333,333 ns
	check(perSecond(3), 3_000_000_000, 0) // and still exact after 31 years
	check(perSecond(1e9), math.MaxUint64, math.MaxUint32)
	check(unit.Frequency{Count: 1, PerNs: math.MaxInt64}, 1, 0)
	check(unit.Frequency{Count: 1, PerNs: math.MaxInt64}, 2, 0)
	check(unit.Frequency{Count: 1, PerNs: math.MaxUint64}, 0, math.MaxUint32)
	check(unit.Frequency{Count: math.MaxUint64, PerNs: math.MaxUint64}, math.MaxUint64, math.MaxUint32)
	check(unit.Frequency{PerNs: 1e9}, 0, 0)
	rapid.Check(t, func(t *rapid.T) {
		f := unit.Frequency{
			Count: rapid.Uint64Range(1, math.MaxUint64).Draw(t, "count") >> rapid.IntRange(0, 63).Draw(t, "shift"),
			PerNs: 1 + rapid.Uint64().Draw(t, "per")>>rapid.IntRange(1, 63).Draw(t, "shift"),
		}
		whole := rapid.Uint64().Draw(t, "whole") >> rapid.IntRange(0, 63).Draw(t, "shift")
		frac := rapid.Uint32().Draw(t, "frac")
		s := constantRate(f)
		if got, want := s.at(whole, frac), exactDue(f, whole, frac); got != want {
			t.Fatalf("due %d, want %d", got, want)
		}
	})
}

// TestConstantHowever: 60 a minute is 1 a second.
func TestConstantHowever(t *testing.T) {
	s := newSchedule(&Config{Rate: unit.Rate{From: unit.Frequency{Count: 60, PerNs: 60e9}, To: perSecond(1)}})
	for n := range uint64(1000) {
		if got := s.at(n, 0); got != int64(n)*1e9 {
			t.Fatalf("request %d of 1 a second is due at %d", n, got)
		}
	}
}

// exactRamp solves ∫ rate = n with 400 bits.
func exactRamp(a, b unit.Frequency, lengthNs int64, n float64) *big.Float {
	num := func(x float64) *big.Float { return new(big.Float).SetPrec(400).SetFloat64(x) }
	rate := func(f unit.Frequency) *big.Float {
		return num(0).Quo(new(big.Float).SetPrec(400).SetUint64(f.Count), new(big.Float).SetPrec(400).SetUint64(f.PerNs))
	}
	from := rate(a)
	slope := num(0).Quo(num(0).Sub(rate(b), from), num(float64(lengthNs)))
	root := num(0).Add(num(0).Mul(from, from), num(0).Mul(num(2*n), slope))
	return num(0).Quo(num(2*n), num(0).Add(from, num(0).Sqrt(root)))
}

// TestRamp: arrivals of a ramp never step back, their number in any part is the
// integral of the rate, and they are where arithmetic of 400 bits puts them.
func TestRamp(t *testing.T) {
	const day = 24 * time.Hour
	check := func(a, b uint64, length time.Duration, withinNs float64) {
		t.Helper()
		s := newSchedule(&Config{Rate: unit.Rate{From: perSecond(a), To: perSecond(b)}, Duration: length})
		total := float64(a+b) / 2 * length.Seconds()
		before := int64(-1)
		for k := range 5000 {
			n := uint64(total * float64(k+1) / 5001)
			due := s.at(n, 0)
			if due < before {
				t.Fatalf("%d:%d over %v: request %d is due at %d, one before it at %d", a, b, length, n, due, before)
			}
			before = due
			if n == 0 {
				continue
			}
			want, _ := exactRamp(s.from, s.to, int64(length), float64(n)).Float64()
			if math.Abs(float64(due)-want) > withinNs {
				t.Fatalf("%d:%d over %v: request %d is due at %d, want %.1f", a, b, length, n, due, want)
			}
		}
		// All of them, and none too many, come before the end.
		last, over := s.at(uint64(total)-1, 0), s.at(uint64(math.Ceil(total))+1, 0)
		if last >= int64(length) || over < int64(length) {
			t.Errorf("%d:%d over %v: request %.0f due at %d, %.0f at %d", a, b, length, total-1, last, total+1, over)
		}
	}
	check(100, 10_000, 10*time.Second, 2)
	check(10_000, 100, 10*time.Second, 2)
	check(0, 1000, time.Second, 2)
	check(1000, 0, time.Second, 20) // at the end the rate is next to nothing, and the root with it
	check(999_999, 1_000_000, day, 2)
	check(1, 1_000_000, 30*day, 50)
	t.Run("each", func(t *testing.T) {
		s := newSchedule(&Config{Rate: unit.Rate{From: perSecond(0), To: perSecond(100_000)}, Duration: 2 * time.Second})
		inMs := make([]int, 2000)
		before := int64(0)
		for n := range uint64(100_000) {
			due := s.at(n, 0)
			if due < before {
				t.Fatalf("request %d at %d, after %d", n, due, before)
			}
			before = due
			inMs[due/1e6]++
		}
		for ms, n := range inMs { // between ms and ms+1 the rate is 50·ms a second, in the mean of the millisecond
			if want := 50_000 * (float64(ms) + 0.5) / 1e6; math.Abs(float64(n)-want) > 1.001 {
				t.Fatalf("%d requests in millisecond %d, want %.2f", n, ms, want)
			}
		}
	})
}

// TestPoisson: gaps are exponential (mean, variance, a tail), the same for the
// same seed and others for another.
func TestPoisson(t *testing.T) {
	const n = 400_000
	gaps := func(seed uint64) []float64 {
		s := constantRate(perSecond(1000))
		s.poisson, s.seed = true, seed
		a := s.arrivals(0, 1)
		list := make([]float64, n)
		last := int64(0)
		for i := range list {
			due := a.due()
			list[i] = float64(due-last) / 1e6 // in mean gaps
			last = due
			a.next()
		}
		return list
	}
	first := gaps(7)
	var sum, squares, lag1 float64
	over3 := 0
	for i, g := range first {
		sum += g
		squares += g * g
		if g > 3 {
			over3++
		}
		if i > 0 {
			lag1 += (g - 1) * (first[i-1] - 1)
		}
	}
	mean := sum / n
	variance := squares/n - mean*mean
	// Four standard errors: 1/√n, √8/√n, √(p/n), 1/√n.
	near := func(what string, got, want, error float64) {
		t.Helper()
		if math.Abs(got-want) > 4*error {
			t.Errorf("%s is %.5f, want %.5f ± %.5f", what, got, want, 4*error)
		}
	}
	near("the mean gap", mean, 1, 1/math.Sqrt(n))
	near("the variance of the gaps", variance, 1, math.Sqrt(8/float64(n)))
	near("the share above three means", float64(over3)/n, math.Exp(-3), math.Sqrt(math.Exp(-3)/n))
	near("the correlation of neighbours", lag1/n, 0, 1/math.Sqrt(n))
	again, other := gaps(7), gaps(8)
	same := 0
	for i := range first {
		if first[i] != again[i] {
			t.Fatalf("gap %d differs under the same seed", i)
		}
		if first[i] == other[i] {
			same++
		}
	}
	if same > n/1000 {
		t.Errorf("%d of %d gaps are the same under another seed", same, n)
	}
}

// TestPoissonGoesOn: past 2³² requests the sum of the gaps does not wrap.
func TestPoissonGoesOn(t *testing.T) {
	s := constantRate(perSecond(1_000_000))
	s.poisson, s.seed = true, 1
	a := s.arrivals(0, 1)
	a.number, a.gaps, a.walked, a.frac = 1<<32, 1<<32, 1<<32-2, math.MaxUint32
	before := int64(0)
	for range 1000 {
		due := a.due()
		if due < before || due < 4294967290000 {
			t.Fatalf("request %d is due at %d, after %d", a.number, due, before)
		}
		before = due
		a.next()
	}
}

// TestTimes: requests are due when a source says, over all workers of all shares, and after the last
// none is; the warm-up has the mean rate.
func TestTimes(t *testing.T) {
	times := []int64{0, 0, 5, 1e6, 1e6, 1e9}
	c := Config{Rate: unit.Rate{From: unit.Frequency{Count: 6, PerNs: 1e9}, To: unit.Frequency{Count: 6, PerNs: 1e9}},
		Mix: []Request{{Weight: 1, Compose: &Composing{Times: times}}}}
	var got []int64
	for _, share := range []Share{{First: 0, Count: 1, Of: 2}, {First: 1, Count: 1, Of: 2}} {
		c.Share = share
		s := newSchedule(&c)
		for id := range uint64(2) {
			for a := s.arrivals(id, 2); a.due() < math.MaxInt64 && len(got) <= len(times); a.next() {
				got = append(got, a.due())
			}
		}
		if s.at(6, 0) != math.MaxInt64 || s.perNsAt(5) != 6e-9 {
			t.Errorf("request 6 is due at %d, at a rate of %g", s.at(6, 0), s.perNsAt(5))
		}
	}
	if slices.Sort(got); !slices.Equal(got, times) {
		t.Errorf("due at %d, want %d", got, times)
	}
}

// TestSteps: each step begins with a request at its boundary, keeps its own rate exactly, and has as
// many as fit; a step of 0 has none.
func TestSteps(t *testing.T) {
	r, err := unit.ParseRate("3+1k+0+7+1k")
	if err != nil {
		t.Fatal(err)
	}
	part := newSchedule(&Config{Rate: r, Duration: 9 * time.Second}) // 5.4 requests in the first step
	if got := part.at(6, 0); got != int64(1800*time.Millisecond) {
		t.Errorf("the second step begins at %d", got)
	}
	s := newSchedule(&Config{Rate: r, Duration: 10*time.Second + 3})
	var got [5]int
	before := int64(-1)
	for n := uint64(0); ; n++ {
		due := s.at(n, 0)
		if due >= int64(10*time.Second+3) {
			break
		}
		k := min(due/int64(2*time.Second), 4)
		rate := r.Each()[k]
		if want := int64(2*time.Second)*k + int64(got[k])*int64(rate.PerNs)/int64(rate.Count); due != want {
			t.Fatalf("request %d is due at %d, want %d", n, due, want)
		}
		if due <= before {
			t.Fatalf("request %d is due at %d, after %d", n, due, before)
		}
		if before = due; got[k] == 0 && s.perNsAt(due) != perNs(rate) {
			t.Errorf("step %d is at %g", k, s.perNsAt(due))
		}
		got[k]++
	}
	if want := [5]int{6, 2000, 0, 14, 2001}; got != want { // the last is 3 ns longer
		t.Errorf("requests by step %v, want %v", got, want)
	}
	for n := range uint64(4020) { // a Poisson process stays in order
		if s.at(n, 1<<31) < s.at(n, 0) || s.at(n, 1<<31) > s.at(n+1, 0) {
			t.Fatalf("request %d½ is due at %d, between %d and %d", n, s.at(n, 1<<31), s.at(n, 0), s.at(n+1, 0))
		}
	}
}
