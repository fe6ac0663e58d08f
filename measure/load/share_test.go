//go:build linux

package load

import (
	"math"
	"slices"
	"testing"
	"time"

	"pgregory.net/rapid"

	"ceiling/internal/faultserver"
	"ceiling/internal/needs"
	"ceiling/internal/ring"
	"ceiling/internal/sys"
)

// The shares of any split are disjoint and add up to the whole.
func TestSharesAddUp(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		weights := rapid.SliceOfN(rapid.IntRange(1, 9), 1, 16).Draw(t, "weights")
		n := rapid.Uint64Range(0, 3000).Draw(t, "n")
		shares, err := Split(weights)
		if err != nil {
			t.Fatal(err)
		}
		owner := make([]int, n)
		for i, s := range shares {
			if err := s.Check(); err != nil {
				t.Fatal(err)
			}
			last := int64(-1)
			for k := range s.Part(n) {
				number := s.Number(k)
				if number >= n || int64(number) <= last {
					t.Fatalf("share %d: its thing %d is number %d after %d of %d", i, k, number, last, n)
				}
				last = int64(number)
				owner[number]++
			}
			if next := s.Number(s.Part(n)); next < n {
				t.Fatalf("share %d: number %d is left out of %d", i, next, n)
			}
		}
		for number, times := range owner {
			if times != 1 {
				t.Fatalf("number %d of %d belongs to %d agents", number, n, times)
			}
		}
	})
}

// The zero value, and a split among one, are the whole run.
func TestShareWhole(t *testing.T) {
	one, err := Split([]int{7})
	if err != nil {
		t.Fatal(err)
	}
	for _, s := range []Share{{}, one[0]} {
		if !s.Whole() || s.Part(12345) != 12345 || s.Number(99) != 99 || s.Fraction() != 1 {
			t.Errorf("%+v is not the whole", s)
		}
	}
}

// Equal weights interleave one by one, whatever their size.
func TestSplitIsReduced(t *testing.T) {
	shares, err := Split([]int{4, 2})
	if err != nil {
		t.Fatal(err)
	}
	if want := (Share{First: 2, Count: 1, Of: 3}); shares[1] != want {
		t.Errorf("got %+v, want %+v", shares[1], want)
	}
}

func TestStrangeShares(t *testing.T) {
	for _, s := range []Share{{0, 0, 3}, {3, 1, 3}, {1, 3, 3}, {0, 1, 0}, {2, math.MaxUint64, 5}, {0, 1, math.MaxUint64}} {
		if s.Check() == nil {
			t.Errorf("%+v was accepted", s)
		}
	}
	for _, w := range [][]int{nil, {0}, {-1, 2}, {weightMax, 1}, {math.MaxInt, math.MaxInt}} {
		if _, err := Split(w); err == nil {
			t.Errorf("weights %v were accepted", w)
		}
	}
	if got := (Share{First: 1, Count: 1, Of: 1 << 20}).Number(math.MaxUint64); got != math.MaxUint64 {
		t.Errorf("beyond what can be counted: %d", got)
	}
}

// TestPortablePinned: the CPUs of a run whose workers have no threads are those of the whole process,
// until it ends.
func TestPortablePinned(t *testing.T) {
	needs.Engine(t)
	before, err := sys.AllowedCPUs(0)
	if err != nil {
		t.Fatal(err)
	}
	c := config(t, serve(t, faultserver.Every(faultserver.Answer(faultserver.OK("x")))), ring.Portable, 0)
	c.CPUs, c.Duration = before[:1], 150*time.Millisecond
	var during []int
	clean := start(t.Context(), t, c, &watcher{onOpen: func() { during, err = sys.AllowedCPUs(0) }})
	after, errAfter := sys.AllowedCPUs(0)
	if err != nil || errAfter != nil || !slices.Equal(during, before[:1]) || !slices.Equal(after, before) || clean.Total.Completed == 0 {
		t.Errorf("on CPUs %v before, %v meanwhile, %v after; %v %v; completed %d", before, during, after, err, errAfter, clean.Total.Completed)
	}
}
