package stat

import (
	"fmt"
	"math"
)

// Taken is one resource of a proof: how much of it was removed, and the effect on throughput,
// block by block.
type Taken struct {
	Resource string    `json:"resource"`
	LnR      float64   `json:"ln_r"` // ln(remaining / all), measured; not 0
	LnX      []float64 `json:"ln_x"` // ln(throughput with the rest / with all), per block
}

// Elasticity is d ln X / d ln R of one resource: how strongly throughput follows it.
type Elasticity struct {
	Resource string `json:"resource"`
	Estimate
}

// Shares are the elasticities of several resources and their sum.
type Shares struct {
	Each []Elasticity `json:"each"` // as given; intervals corrected for their number
	Sum  Estimate     `json:"sum"`  // one question, not corrected
}

// Elasticities requires the same blocks for every resource: block i of each ran next to the same
// undisturbed run. The sum is therefore taken within each block, and its interval, that of
// Paired, accounts for how the resources vary together.
func Elasticities(taken []Taken, confidence float64) (Shares, error) {
	if len(taken) == 0 {
		return Shares{}, fmt.Errorf("elasticities: no resource")
	}
	sums := make([]float64, len(taken[0].LnX))
	var out Shares
	var total float64
	for _, t := range taken {
		what := "elasticity of " + t.Resource
		if err := checkValues(what, t.LnX); err != nil {
			return Shares{}, err
		}
		if err := checkValues(what+": ln R", []float64{t.LnR}); err != nil {
			return Shares{}, err
		}
		if math.Abs(t.LnR) < leastTaken {
			return Shares{}, fmt.Errorf("%s: the resource changed by %s only: nothing was taken", what, percent(math.Abs(Relative(t.LnR))))
		}
		if len(t.LnX) != len(sums) {
			return Shares{}, fmt.Errorf("%s: %d blocks where %s has %d: the sum needs the same ones", what, len(t.LnX), taken[0].Resource, len(sums))
		}
		blocks := make([]float64, len(t.LnX))
		for i, x := range t.LnX {
			blocks[i] = x / t.LnR
			sums[i] += blocks[i]
		}
		d, err := Paired(blocks, confidence, len(taken))
		if err != nil {
			return Shares{}, fmt.Errorf("%s: %w", what, err)
		}
		total += d.Value
		out.Each = append(out.Each, Elasticity{t.Resource, d.Estimate})
	}
	d, err := Paired(sums, confidence, 1)
	if err != nil {
		return Shares{}, fmt.Errorf("sum of elasticities: %w", err)
	}
	out.Sum = d.Estimate
	// The displayed figures must add up: this is the sum of the estimates, not the estimate of
	// the sums. They differ by less than the noise; the interval contains both.
	out.Sum.Value = total
	out.Sum.Low, out.Sum.High = min(out.Sum.Low, total), max(out.Sum.High, total)
	return out, nil
}

// leastTaken is a hundredth: dividing by less would turn 1 % of noise in throughput into an
// elasticity of more than 1.
const leastTaken = 0.01
