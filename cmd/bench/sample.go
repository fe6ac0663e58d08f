package main

import (
	"slices"

	"ceiling/internal/stat"
)

// Spread is the median of some measurements with the minimum and the maximum.
type Spread struct {
	Median float64 `json:"median"`
	Min    float64 `json:"min"`
	Max    float64 `json:"max"`
	N      int     `json:"n"`
}

// spreadOf summarises values; without values it returns the zero Spread, with N 0.
func spreadOf(values []float64) Spread {
	if len(values) == 0 {
		return Spread{}
	}
	return Spread{Median: stat.Middle(values), Min: slices.Min(values), Max: slices.Max(values), N: len(values)}
}

// ratios divides ours by theirs round by round. It skips rounds in which either is missing:
// measurements from different minutes of a shared machine are not comparable.
func ratios(ours, theirs map[int]float64) []float64 {
	var list []float64
	for round, a := range ours {
		if b, ok := theirs[round]; ok && b > 0 {
			list = append(list, a/b)
		}
	}
	return list
}
