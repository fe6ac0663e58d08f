package main

import (
	"slices"
	"testing"
)

func TestSpread(t *testing.T) {
	check := func(want Spread, values ...float64) {
		t.Helper()
		given := slices.Clone(values)
		if got := spreadOf(values); got != want {
			t.Errorf("%v: %+v, want %+v", values, got, want)
		}
		if !slices.Equal(given, values) {
			t.Errorf("%v was put in order", given)
		}
	}
	check(Spread{})
	check(Spread{3, 3, 3, 1}, 3)
	check(Spread{2, 1, 9, 3}, 9, 1, 2)
	check(Spread{2.5, 1, 9, 4}, 9, 1, 2, 3)
}

func TestRatiosAreRoundByRound(t *testing.T) {
	check := func(ours, theirs map[int]float64, want ...float64) {
		t.Helper()
		got := ratios(ours, theirs)
		slices.Sort(got)
		if !slices.Equal(got, want) {
			t.Errorf("%v / %v: %v, want %v", ours, theirs, got, want)
		}
	}
	// The machine is three times as slow in round 1: the pairs do not see it.
	check(map[int]float64{0: 1, 1: 3, 2: 1}, map[int]float64{0: 2, 1: 6, 2: 4}, 0.25, 0.5, 0.5)
	check(map[int]float64{0: 1, 1: 3}, map[int]float64{1: 6, 2: 4}, 0.5)
	check(map[int]float64{0: 1}, map[int]float64{1: 6})
	check(map[int]float64{0: 1}, map[int]float64{0: 0})
}
