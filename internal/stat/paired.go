package stat

import (
	"fmt"
	"math"
	"slices"
)

// Difference is the estimate of ln(B/A) from paired blocks. Value, Low and High are log ratios;
// Relative converts them to relative changes. Confidence is per comparison: for 0.95 over 4
// comparisons, it is at least 0.9875.
type Difference struct {
	Estimate
	// P is the exact two-sided probability of blocks at least as one-sided as these if A and B
	// are the same; not corrected for the comparisons.
	P float64 `json:"p"`
	// Spread is a robust standard deviation of one block's log ratio (Shamos).
	Spread float64 `json:"spread"`
	// Asked and Comparisons are the confidence of the whole family and its number of comparisons.
	Asked       float64 `json:"asked"`
	Comparisons int     `json:"comparisons"`
}

// Certain reports whether there were enough blocks for the requested confidence.
func (d Difference) Certain() bool {
	return d.N >= LeastBlocks(d.Asked, d.Comparisons)
}

// maxBlocks limits the number of pairs: 2,000 blocks have two million, 16 MB.
const maxBlocks = 2000

// Paired judges blocks: each value is ln(B/A) of one block, in which A and B
// ran interleaved (ABBA or BAAB, by lot). The estimate is Hodges and Lehmann's,
// the median of the means of all pairs of blocks (each with itself too); the
// interval holds every shift that Wilcoxon's signed-rank test, a sign flip over
// ranks, does not reject. See the package comment for why this one.
//
// It assumes independent blocks whose log ratio is symmetric around the truth,
// which the lot over ABBA and BAAB gives even to skewed or drifting noise as
// long as A and B suffer it alike.
func Paired(blocks []float64, confidence float64, comparisons int) (Difference, error) {
	if err := checkSample("paired blocks", blocks, confidence); err != nil {
		return Difference{}, err
	}
	if err := checkComparisons("paired blocks", comparisons); err != nil {
		return Difference{}, err
	}
	n := len(blocks)
	if n > maxBlocks {
		return Difference{}, fmt.Errorf("paired blocks: %d blocks are more than %d", n, maxBlocks)
	}
	alpha := (1 - confidence) / float64(comparisons)
	means := pairMeans(blocks)
	rejects := signedRank(n)
	k := 0
	for k+1 < (len(means)+1)/2 && 2*rejects(k+1) <= alpha {
		k++
	}
	d := Difference{Asked: confidence, Comparisons: comparisons, Spread: shamos(blocks)}
	d.Estimate = Estimate{Value: median(means), N: n,
		Interval: Interval{means[k], means[len(means)-1-k], max(1-2*rejects(k), 0)}}
	d.P = signedRankP(means, rejects)
	if least := LeastBlocks(confidence, comparisons); n < least {
		d.Warnings = append(d.Warnings, warn("stat.few-blocks", with{"needed": least, "confidence": confidence, "comparisons": comparisons,
			"blocks": n, "has_confidence": d.Confidence}))
	}
	if n > 1 && d.Spread == 0 && means[0] == means[len(means)-1] {
		d.Warnings = append(d.Warnings, warn("stat.equal-blocks", with{"blocks": n}))
	}
	return d, nil
}

// LeastBlocks returns the fewest blocks that can exclude "no difference" at this confidence for
// that many comparisons: 6 for one at 95 %, 8 for four. With so few, a single disturbed block
// decides the answer; tolerating one takes 12 and 15.
func LeastBlocks(confidence float64, comparisons int) int {
	return leastFor((1 - confidence) / float64(max(comparisons, 1)))
}

// BlocksFor estimates how many blocks would narrow the interval to ±within (0.02 = 2 %), from the
// spread of these. It is a forecast: with 8 blocks the spread itself is known to about a third.
func (d Difference) BlocksFor(within float64) (int, error) {
	if !(within > 0 && within <= maxMagnitude) {
		return 0, fmt.Errorf("blocks for ±%v: it must be above 0, as 0.02 for 2%%", within)
	}
	if d.N < 2 {
		return 0, fmt.Errorf("blocks for ±%s: the spread needs 2 blocks, has %d", percent(within), d.N)
	}
	alpha := (1 - d.Asked) / float64(d.Comparisons)
	target := math.Log1p(within)
	for n := LeastBlocks(d.Asked, d.Comparisons); n <= maxBlocks; n++ {
		half := studentQuantile(1-alpha/2, n-1) * d.Spread / math.Sqrt(float64(n))
		if half <= target {
			return n, nil
		}
	}
	return 0, fmt.Errorf("blocks for ±%s: more than %d, with a spread of %s between blocks: quieten the machine instead", percent(within),
		maxBlocks, percent(Relative(d.Spread)))
}

// pairMeans returns the means of all pairs of blocks, ascending (Walsh averages).
func pairMeans(blocks []float64) []float64 {
	means := make([]float64, 0, len(blocks)*(len(blocks)+1)/2)
	for i, a := range blocks {
		for _, b := range blocks[i:] {
			means = append(means, a/2+b/2)
		}
	}
	slices.Sort(means)
	return means
}

// shamos returns a robust standard deviation: the median distance between two blocks, divided by
// its value for the unit normal. Up to 29 % of the blocks may be outliers (Shamos 1976; Rousseeuw
// and Croux 1993).
func shamos(blocks []float64) float64 {
	if len(blocks) < 2 {
		return 0
	}
	distances := make([]float64, 0, len(blocks)*(len(blocks)-1)/2)
	for i, a := range blocks {
		for _, b := range blocks[i+1:] {
			distances = append(distances, math.Abs(a-b))
		}
	}
	slices.Sort(distances)
	return 1.048358 * median(distances)
}

// exactBlocks is the number up to which the signed-rank distribution is exact; above, the normal
// one differs in the fourth digit.
const exactBlocks = 100

// signedRank returns the probability that at most k of the n(n+1)/2 pair means lie on a given
// side of the true value. It is the distribution of Wilcoxon's signed-rank statistic: each rank
// 1..n is on that side with probability 1/2.
func signedRank(n int) func(k int) float64 {
	if n > exactBlocks {
		ranks := float64(n)
		mean, deviation := ranks*(ranks+1)/4, math.Sqrt(ranks*(ranks+1)*(2*ranks+1)/24)
		return func(k int) float64 { return normalCDF(float64(k)+0.5, mean, deviation) }
	}
	p := make([]float64, n*(n+1)/2+1)
	p[0] = 1
	for rank := 1; rank <= n; rank++ {
		for s := len(p) - 1; s >= 0; s-- {
			p[s] /= 2
			if s >= rank {
				p[s] += p[s-rank] / 2
			}
		}
	}
	return cumulate(p)
}

// cumulate converts probabilities of 0, 1, 2 … to those of "at most k".
func cumulate(p []float64) func(k int) float64 {
	for i := 1; i < len(p); i++ {
		p[i] += p[i-1]
	}
	return func(k int) float64 {
		if k < 0 {
			return 0
		}
		return min(p[min(k, len(p)-1)], 1)
	}
}

// signedRankP returns the two-sided p-value of "no shift". A pair mean of exactly 0 counts on the
// side that increases p, so that p and the interval, which includes its ends, are one test.
func signedRankP(means []float64, atMost func(k int) float64) float64 {
	var above, below int
	for _, m := range means {
		if m > 0 {
			above++
		}
		if m < 0 {
			below++
		}
	}
	zero := len(means) - above - below
	return min(2*atMost(min(above, below)+zero), 1)
}
