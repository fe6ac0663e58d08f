package stat

import (
	"fmt"
	"math"
	"slices"
)

// Floor is the result of A/A: the difference that the machine produces by itself.
type Floor struct {
	// Difference is that of A against A, whose true value is 0.
	Difference
	// Bound contains a share of Share of single no-change blocks: |ln ratio| of one block stays
	// below it, with confidence Asked (a tolerance bound).
	Bound float64 `json:"bound"`
	Share float64 `json:"share"`
	// Resolution is how far from 0 an estimate over that many blocks may lie without any change:
	// the far end of the A/A interval.
	Resolution float64 `json:"resolution"`
}

// floorShare is the share of no-change blocks within Floor.Bound: the usual 95 % of a tolerance
// bound, at the given confidence.
const floorShare = 0.95

// NoiseFloor evaluates A/A blocks, measured as in the comparison. comparisons is 1 if the A/B
// comparison itself is corrected: correcting twice detects a change of 5 % less often (90 in 100
// instead of 97 in 100 in the simulation of the tests) and prevents no false alarm. The bound
// assumes normal noise around 0, the true value by construction; outliers widen it.
func NoiseFloor(blocks []float64, confidence float64, comparisons int) (Floor, error) {
	d, err := Paired(blocks, confidence, comparisons)
	if err != nil {
		return Floor{}, fmt.Errorf("noise floor: %w", err)
	}
	squares := 0.0
	for _, b := range blocks {
		squares += b * b
	}
	// The sum of squares over the variance is chi-squared with n degrees, not n−1: the centre is
	// known.
	lowest := chiSquaredQuantile(1-confidence, d.N)
	f := Floor{Difference: d, Share: floorShare, Resolution: max(math.Abs(d.Low), math.Abs(d.High))}
	f.Bound = normalQuantile((1+floorShare)/2) * math.Sqrt(squares/lowest)
	if d.Certain() && !d.Contains(0) {
		f.Warnings = append(f.Warnings, warn("stat.noise-is-no-noise", with{"share": Relative(d.Value)}))
	}
	return f, nil
}

// Answer is the result of comparing B with A.
type Answer string

// The four answers. The caller knows whether higher is better.
const (
	Higher       Answer = "higher"
	Lower        Answer = "lower"
	NoChange     Answer = "no change"
	Inconclusive Answer = "inconclusive"
)

// Decision is an answer and its margin.
type Decision struct {
	Answer Answer `json:"answer"`
	// Within is the relative change that counts as none: 0.02 is ±2 %. It is the larger of the
	// requested margin and the noise floor.
	Within   float64   `json:"within"`
	Warnings []Warning `json:"warnings,omitempty"`
}

// Decide decides. NoChange requires the whole interval within the margin; Higher and Lower
// require an interval without 0 and an estimate beyond the A/A noise; everything else is
// Inconclusive, with what would help. A real change entirely within the margin is NoChange. within
// is relative (0.02 for ±2 %); 0 leaves the margin to the floor; floor may be nil if A/A was not
// measured.
func Decide(d Difference, floor *Floor, within float64) (Decision, error) {
	if !(within >= 0 && within <= maxMagnitude) {
		return Decision{}, fmt.Errorf("decide: margin %v must be 0 or above, as 0.02 for 2%%", within)
	}
	out := Decision{Answer: Inconclusive, Within: within, Warnings: slices.Clone(d.Warnings)}
	resolution := 0.0
	if floor == nil {
		out.Warnings = append(out.Warnings, warn("stat.no-noise", nil))
	} else {
		out.Warnings = append(out.Warnings, floor.Warnings...)
		resolution = floor.Resolution
	}
	if noise := Relative(resolution); noise > within {
		if within > 0 {
			out.Warnings = append(out.Warnings, warn("stat.noisy", with{"noise": noise, "within": within}))
		}
		out.Within = noise
	}
	margin := math.Log1p(out.Within)
	switch {
	case !d.Certain() || floor != nil && !floor.Certain():
		return out, nil // already warned
	case out.Within > 0 && -margin <= d.Low && d.High <= margin:
		out.Answer = NoChange
	case d.Low > 0 && d.Value > resolution:
		out.Answer = Higher
	case d.High < 0 && d.Value < -resolution:
		out.Answer = Lower
	default:
		out.Warnings = append(out.Warnings, whyNot(d, resolution, out.Within))
	}
	return out, nil
}

// whyNot returns what prevents an answer, and how much more is needed.
func whyNot(d Difference, resolution, within float64) Warning {
	if !d.Contains(0) && math.Abs(d.Value) <= resolution {
		return warn("stat.within-noise", with{"share": Relative(d.Value)})
	}
	want := within
	if want == 0 {
		want = math.Abs(Relative(d.Value))
	}
	n, err := d.BlocksFor(want)
	if err != nil {
		return warn("stat.failed", with{"error": err.Error()})
	}
	if n <= d.N {
		return warn("stat.spoilt-blocks", with{"within": want, "blocks": d.N})
	}
	return warn("stat.more-blocks", with{"needed": n, "within": want, "blocks": d.N})
}
