package stat

import (
	"math"
	"math/rand/v2"
	"testing"
)

// swinging is a run whose values follow each other: AR(1) around a level, with a deviation of a tenth of it.
func swinging(draw *rand.Rand, n int, level, follows float64) []float64 {
	values := make([]float64, n)
	at := draw.NormFloat64()
	for i := range values {
		at = follows*at + math.Sqrt(1-follows*follows)*draw.NormFloat64()
		values[i] = level * (1 + .1*at)
	}
	return values
}

// The interval holds the true ratio about as often as it says where neighbours are little alike, and somewhat less
// often in short runs where they are very much: 95, 93 and 88 of 100 here. Each value by itself: 94, 75 and 46.
func TestTwoRunsCover(t *testing.T) {
	draw := rand.New(rand.NewPCG(7, 1))
	for _, follows := range []float64{0, .5, .8} {
		held, some := 0, 0
		for range 600 {
			e, err := TwoRuns(swinging(draw, 150, 1000, follows), swinging(draw, 100, 1100, follows), .95)
			if err != nil {
				t.Fatal(err)
			}
			if e.Confidence == 0 {
				continue
			}
			some++
			if e.Contains(math.Log(1.1)) {
				held++
			}
		}
		if share := float64(held) / float64(max(some, 1)); some < 300 || share < .86 || share > .99 {
			t.Errorf("neighbours alike by %.1f: %d of %d intervals hold the true ratio", follows, held, some)
		}
		t.Logf("neighbours alike by %.1f: %d of %d", follows, held, some)
	}
}

// Runs that are too short for it have no interval, and equal ones no difference.
func TestTwoRunsWithoutInterval(t *testing.T) {
	e, err := TwoRuns([]float64{1, 2, 3}, []float64{2, 4, 6}, .95)
	if err != nil || e.Confidence != 0 || len(e.Warnings) != 1 || math.Abs(e.Value-math.Ln2) > 1e-12 {
		t.Errorf("%+v, %v", e, err)
	}
	same := make([]float64, 100)
	for i := range same {
		same[i] = 5
	}
	if e, err := TwoRuns(same, same, .95); err != nil || e.Low != 0 || e.High != 0 || e.Confidence != .95 {
		t.Errorf("%+v, %v", e, err)
	}
}
