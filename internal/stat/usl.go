package stat

import (
	"fmt"
	"math"
	"math/rand/v2"
	"slices"
)

// USL is Gunther's Universal Scalability Law fitted to a curve:
//
//	X(N) = λN / (1 + σ(N−1) + κN(N−1))
//
// (N. Gunther, Guerrilla Capacity Planning, 2007, ch. 4–6.)
type USL struct {
	Lambda Estimate `json:"lambda"` // throughput of one, in the unit of X; above 0
	Sigma  Estimate `json:"sigma"`  // contention: the share that is serial, 0..1
	Kappa  Estimate `json:"kappa"`  // coherency: cost of each pair that must agree, 0 or above
	// Bends reports that the interval of κ excludes 0. Only then are Best, the concurrency
	// √((1−σ)/κ) of maximum throughput, and Peak, that throughput, set. Otherwise BestAtLeast is
	// the low end of the interval of the best concurrency, 0 if even that is unknown.
	Bends       bool     `json:"bends"`
	Best        Estimate `json:"best"`
	Peak        Estimate `json:"peak"`
	BestAtLeast float64  `json:"best_at_least"`
	R2          float64  `json:"r2"` // of ln X
	// Warnings are the reasons not to trust the fit.
	Warnings []Warning `json:"warnings,omitempty"`
}

// uslDraws is the number of resamples behind an interval: its ends are then known to about a
// tenth of their distance from the estimate.
const uslDraws = 1000

// FitUSL fits the law by least squares of ln X, that is, with equal relative errors, with λ > 0,
// 0 ≤ σ ≤ 1, κ ≥ 0. Intervals come from resampling the residuals, widened for the degrees of
// freedom.
func FitUSL(points []Point, confidence float64, seed uint64) (USL, error) {
	if err := checkConfidence("usl", confidence); err != nil {
		return USL{}, err
	}
	points, err := checkPoints("usl", points)
	if err != nil {
		return USL{}, err
	}
	if points[0].N < 1 {
		return USL{}, fmt.Errorf("usl: concurrency %v is below 1", points[0].N)
	}
	curve, repeats := logCurve(points)
	fit, ok := curve.fit(nil)
	if !ok {
		return USL{}, fmt.Errorf("usl: no curve fits these %d points", len(points))
	}
	residuals := curve.residuals(fit, repeats)
	u := USL{R2: rSquared(points, residuals)}
	draws := curve.resample(fit, residuals, repeats, confidence, rand.New(rand.NewPCG(seed, 0)))
	tail := (1 - confidence) / 2
	value := func(of func(f uslFit) float64) Estimate {
		e := Estimate{Value: of(fit), N: count(repeats)}
		e.Low, e.High = e.Value, e.Value
		if len(draws) > 0 {
			all := make([]float64, len(draws))
			for i, d := range draws {
				all[i] = of(d)
			}
			slices.Sort(all)
			e.Low, e.High = min(e.Value, sortedQuantile(all, tail)), max(e.Value, sortedQuantile(all, 1-tail))
			e.Confidence = confidence
		}
		return e
	}
	u.Lambda = value(func(f uslFit) float64 { return curve.scale / f.one })
	u.Sigma = value(func(f uslFit) float64 { return f.serial / f.one })
	u.Kappa = value(func(f uslFit) float64 { return f.pairs / f.one })
	best := value(uslFit.best)
	u.Bends = u.Kappa.Confidence > 0 && u.Kappa.Low > 0
	if u.Bends {
		u.Best = best
		u.Peak = value(func(f uslFit) float64 { return curve.scale * f.best() / f.at(f.best()) })
	} else if best.Confidence > 0 && !math.IsInf(best.Low, 0) {
		u.BestAtLeast = best.Low
	}
	for _, e := range []Estimate{u.Lambda, u.Sigma, u.Kappa, u.Best, u.Peak} {
		if err := checkValues("usl", []float64{e.Value, e.Low, e.High}); err != nil {
			return USL{}, fmt.Errorf("usl: no curve fits these %d points", len(points))
		}
	}
	u.Warnings = uslWarnings(u, points, curve, fit, residuals)
	return u, nil
}

// rSquared returns the share of the variance of ln X that the curve explains; 0 if it explains
// none, or there is none.
func rSquared(points []Point, residuals []float64) float64 {
	var logs []float64
	for _, p := range points {
		for _, x := range p.X {
			logs = append(logs, math.Log(x))
		}
	}
	mean, total, left := meanOf(logs), 0.0, 0.0
	for i, v := range logs {
		total += (v - mean) * (v - mean)
		left += residuals[i] * residuals[i]
	}
	// Equal values leave a rounding error of ln X, at most 1e-14 each.
	if total <= 1e-28*float64(len(logs)) {
		return 0
	}
	return max(1-left/total, 0)
}

const (
	// uslLeastPoints: three unknowns need a fourth concurrency to be testable.
	uslLeastPoints = 4
	// uslLeastRange is two doublings: below it the three terms of the law are indistinguishable.
	uslLeastRange = 4
	// uslFar: the peak is a forecast beyond twice the measured range, where the law has not been
	// confirmed.
	uslFar = 2
	// uslLeastR2: a curve that leaves a tenth of the variance of ln X unexplained does not
	// describe the points.
	uslLeastR2 = 0.9
	// uslPatternP: a runs test has few signs, so it uses the usual 5 %; the misfit test has many
	// repeats and uses 1 %.
	uslPatternP = 0.05
	uslMisfitP  = 0.01
)

// uslWarnings returns the reasons not to trust the fit.
func uslWarnings(u USL, points []Point, curve logPoints, fit uslFit, residuals []float64) []Warning {
	var out []Warning
	add := func(code string, values with) { out = append(out, warn(code, values)) }
	first, last := points[0].N, points[len(points)-1].N
	if len(points) < uslLeastPoints {
		add("usl.few-levels", with{"needed": uslLeastPoints, "levels": len(points)})
	}
	if last < uslLeastRange*first {
		add("usl.short-range", with{"from": first, "to": last, "needed": uslLeastRange * first})
	}
	if u.Lambda.Confidence == 0 {
		add("usl.few-runs", with{"runs": len(residuals), "needed": uslUnknowns + 1})
	}
	switch {
	case fit.pairs == 0:
		add("usl.no-peak", with{"last": last})
	case !u.Bends:
		add("usl.peak-uncertain", with{"last": last})
	case u.Best.Value > uslFar*last:
		add("usl.forecast", with{"best": u.Best.Value, "last": last})
	}
	switch fit.serial {
	case 0:
		add("usl.no-contention", nil)
	case fit.one:
		add("usl.no-growth", nil)
	}
	if u.R2 < uslLeastR2 {
		add("usl.explains-little", with{"r2": u.R2, "needed": uslLeastR2})
	}
	if p := runsTest(curve.misses(fit)); p < uslPatternP {
		add("usl.pattern", with{"p": p})
	}
	if p, misses, noise := lackOfFit(points, curve, fit, residuals); p < uslMisfitP {
		add("usl.misfit", with{"misses": misses, "noise": noise})
	}
	return out
}

// misses returns the points' mean distances from the curve, in ln X.
func (c logPoints) misses(f uslFit) []float64 {
	out := make([]float64, len(c.points))
	for i, p := range c.points {
		out[i] = math.Log(f.at(p.n)) - p.mean
	}
	return out
}

// runsTest returns the probability of this few runs of equal sign, or fewer, if the signs are in
// random order (Wald and Wolfowitz 1940, exact). It ignores zeros.
func runsTest(values []float64) float64 {
	var above, below, runs int
	last := 0.0
	for _, v := range values {
		if v == 0 {
			continue
		}
		if v > 0 {
			above++
		} else {
			below++
		}
		if v*last <= 0 {
			runs++
		}
		last = math.Copysign(1, v)
	}
	if above == 0 || below == 0 {
		return 1
	}
	p := 0.0
	all := logChoose(above+below, above)
	for r := 2; r <= runs; r++ {
		k := r / 2 // pairs of runs
		if r%2 == 0 {
			p += 2 * math.Exp(logChoose(above-1, k-1)+logChoose(below-1, k-1)-all)
			continue
		}
		p += math.Exp(logChoose(above-1, k)+logChoose(below-1, k-1)-all) + math.Exp(logChoose(above-1, k-1)+logChoose(below-1, k)-all)
	}
	return min(p, 1)
}

// logChoose returns ln of n over k, −Inf if there is no way.
func logChoose(n, k int) float64 {
	if k < 0 || k > n {
		return math.Inf(-1)
	}
	a, _ := math.Lgamma(float64(n + 1))
	b, _ := math.Lgamma(float64(k + 1))
	c, _ := math.Lgamma(float64(n - k + 1))
	return a - b - c
}

// lackOfFit compares the curve's residuals with the spread of the repeats (F test): its p-value,
// the typical miss of the curve and the typical spread of repeats, both relative. Without repeats
// or degrees of freedom p is 1.
func lackOfFit(points []Point, curve logPoints, fit uslFit, residuals []float64) (p, misses, noise float64) {
	pure, all := len(residuals)-len(points), 0.0
	shape := len(points) - uslUnknowns
	if pure < 1 || shape < 1 {
		return 1, 0, 0
	}
	for _, r := range residuals {
		all += r * r
	}
	missed := curve.loss(fit)
	within := all - missed
	if within <= 1e-12*all {
		return 1, 0, 0
	}
	f := missed / float64(shape) / (within / float64(pure))
	p = fSurvival(f, shape, pure)
	return p, math.Sqrt(missed / float64(len(residuals))), math.Sqrt(within / float64(pure))
}
