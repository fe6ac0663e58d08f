package plan

import (
	"math"
	"slices"
)

const (
	// noiseConfidence is the probability that the limit lies between limits.low and high, if the
	// model is true. It is not reported as a confidence: in 720 simulated searches with one
	// disturbed run in ten, the limit of an endless run was inside the final interval in 17 to
	// 100 %, depending on the noise of the steps and the distance to saturation, and within 5 %
	// of the answer in 718.
	noiseConfidence = 0.9
	// falseFail and falsePass are the shares of runs with a wrong vote, however far from
	// the limit. A neighbour on the machine slows down one run in ten; hardly anything speeds one
	// up.
	falseFail = 0.1
	falsePass = 0.02
	// noiseCells is the number of possible limits between two neighbouring rates.
	noiseCells = 16
	// noiseBeyond is how many times below the lowest rate and above the highest the limit may be.
	noiseBeyond = 2
)

// limits is the distribution of the limit, requests per second: middle is its median, low to high
// its interval at noiseConfidence.
type limits struct {
	known          bool
	low, mid, high float64
	edges, weights []float64 // the whole distribution, over logarithms of rates
}

// softnesses of the transition from passed to failed, as shares of the rate, from a server
// without noise to one whose runs hardly agree; the prior halves with each. A softer one than the
// last, .06, takes half as many runs again and in simulation is not a tenth closer to the truth.
func softnesses() []float64 { return []float64{.001, .005, .025} }

// noise weighs the outcomes of all runs. The model has two unknowns: the limit, with a uniform
// prior on a logarithmic axis, and the softness of the transition around it. A run at rate x
// fails with probability ε + (1−ε−δ) / (1 + e^(−ln(x/limit)/softness)), where ε and δ are
// falseFail and falsePass.
func (s *searchState) noise() limits {
	var rates []*tried
	var all outcomes
	for i := range s.rates {
		if t := &s.rates[i]; t.own.counted() > 0 {
			rates = append(rates, t)
			all.passed += t.own.passed
			all.failed += t.own.failed
		}
	}
	if all.passed == 0 || all.failed == 0 {
		return limits{}
	}
	edges := edgesOf(rates)
	cells := len(edges) - 1
	logs := make([]float64, 0, cells*len(softnesses()))
	for i, softness := range softnesses() {
		for c := range cells {
			logs = append(logs, logLikelihood(rates, (edges[c]+edges[c+1])/2, softness)-float64(i)*math.Ln2)
		}
	}
	most := slices.Max(logs) // so that no significant power underflows
	weights := make([]float64, cells)
	for i, l := range logs {
		weights[i%cells] += math.Exp(l-most) * (edges[i%cells+1] - edges[i%cells])
	}
	at := func(q float64) float64 { return math.Exp(massQuantile(edges, weights, q)) }
	return limits{known: true, edges: edges, weights: weights, low: at((1 - noiseConfidence) / 2), mid: at(.5),
		high: at((1 + noiseConfidence) / 2)}
}

// edgesOf returns the edges of the limit's cells, as logarithms of rates: equally many between
// any two neighbouring rates.
func edgesOf(rates []*tried) []float64 {
	lowest, highest := rates[0].perS, rates[len(rates)-1].perS
	marks := []float64{math.Log(lowest / noiseBeyond)}
	for _, t := range rates {
		marks = append(marks, math.Log(t.perS))
	}
	marks = append(marks, math.Log(highest*noiseBeyond))
	var edges []float64
	for i := 1; i < len(marks); i++ {
		for k := range noiseCells {
			edges = append(edges, marks[i-1]+(marks[i]-marks[i-1])*float64(k)/noiseCells)
		}
	}
	return append(edges, marks[len(marks)-1])
}

// logLikelihood of all outcomes, were the limit e^logLimit.
func logLikelihood(rates []*tried, logLimit, softness float64) float64 {
	all := 0.0
	for _, t := range rates {
		p := falseFail + (1-falseFail-falsePass)/(1+math.Exp((logLimit-math.Log(t.perS))/softness))
		all += float64(t.own.failed)*math.Log(p) + float64(t.own.passed)*math.Log(1-p)
	}
	return all
}

// massQuantile returns the point below which a share q of the weight lies.
func massQuantile(edges, weights []float64, q float64) float64 {
	total := sum(weights)
	below := 0.0
	for i, w := range weights {
		if below+w >= q*total && w > 0 {
			return edges[i] + (edges[i+1]-edges[i])*(q*total-below)/w
		}
		below += w
	}
	return edges[len(edges)-1]
}

// beyond returns the probability that the limit is above a rate.
func (l *limits) beyond(perS float64) float64 {
	at, above := math.Log(perS), 0.0
	for i, w := range l.weights {
		part := (l.edges[i+1] - at) / (l.edges[i+1] - l.edges[i])
		above += w * math.Min(math.Max(part, 0), 1)
	}
	return above / sum(l.weights)
}

func sum(values []float64) float64 {
	total := 0.0
	for _, v := range values {
		total += v
	}
	return total
}

// wrong returns the probability that the limit is outside the bracket by more than the target
// width, above and below it; 0 if the outcomes do not say.
func (b *bracket) wrong(within float64) (above, below float64) {
	if !b.noise.known {
		return 0, 0
	}
	return b.noise.beyond(b.high.perS * (1 + within)), 1 - b.noise.beyond(b.low.perS/(1+within))
}
