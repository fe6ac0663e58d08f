package stat

import (
	"math"
	"math/rand/v2"
	"slices"
)

// uslFit is the law as a line in its unknowns: N/X = one + serial·(N−1) +
// pairs·N(N−1), with one = 1/λ, serial = σ/λ, pairs = κ/λ, X in units of scale.
type uslFit struct{ one, serial, pairs float64 }

func (f uslFit) at(n float64) float64 { return f.one + f.serial*(n-1) + f.pairs*n*(n-1) }

// best returns the concurrency of maximum throughput, at least 1; +Inf without pairs.
func (f uslFit) best() float64 {
	if f.pairs == 0 {
		return math.Inf(1)
	}
	return max(math.Sqrt((f.one-f.serial)/f.pairs), 1)
}

// logPoint is one concurrency: the mean of ln(N/X) over its repeats.
type logPoint struct{ n, mean, weight float64 }

type logPoints struct {
	points []logPoint
	scale  float64 // geometric mean of all X
}

// logCurve centres the logarithms; repeats[i] are those of point i.
func logCurve(points []Point) (logPoints, [][]float64) {
	sum, n := 0.0, 0
	for _, p := range points {
		for _, x := range p.X {
			sum += math.Log(x)
			n++
		}
	}
	centre := sum / float64(n)
	curve := logPoints{scale: math.Exp(centre)}
	var repeats [][]float64
	for _, p := range points {
		var logs []float64
		for _, x := range p.X {
			logs = append(logs, math.Log(p.N)-(math.Log(x)-centre))
		}
		repeats = append(repeats, logs)
		curve.points = append(curve.points, logPoint{p.N, meanOf(logs), float64(len(logs))})
	}
	return curve, repeats
}

func meanOf(values []float64) float64 {
	sum := 0.0
	for _, v := range values {
		sum += v
	}
	return sum / float64(len(values))
}

func count(groups [][]float64) int {
	n := 0
	for _, g := range groups {
		n += len(g)
	}
	return n
}

// fit runs the Gauss-Newton method on the squares of ln: each step is a weighted least-squares
// problem, linear in the unknowns, solved exactly within the bounds. Half steps stay within them,
// because they are convex. from may be nil.
func (c logPoints) fit(from *uslFit) (uslFit, bool) {
	weight, target := make([]float64, len(c.points)), make([]float64, len(c.points))
	linear := func(value func(p logPoint) (y, z float64)) (uslFit, bool) {
		for i, p := range c.points {
			y, z := value(p)
			weight[i], target[i] = p.weight/(y*y), z
		}
		return bounded(c.points, weight, target)
	}
	var now uslFit
	if from != nil {
		now = *from
	} else {
		var ok bool
		now, ok = linear(func(p logPoint) (float64, float64) { return math.Exp(p.mean), math.Exp(p.mean) })
		if !ok {
			return uslFit{}, false
		}
	}
	loss := c.loss(now)
	for range 50 {
		next, ok := linear(func(p logPoint) (float64, float64) {
			y := now.at(p.n)
			return y, y * (1 + p.mean - math.Log(y))
		})
		if !ok {
			break
		}
		step, better := 1.0, false
		var trial uslFit
		for ; step > 1e-4 && !better; step /= 2 {
			trial = uslFit{now.one + step*(next.one-now.one), now.serial + step*(next.serial-now.serial), now.pairs + step*(next.pairs-now.pairs)}
			better = c.loss(trial) < loss
		}
		if !better {
			break
		}
		was := loss
		now, loss = trial, c.loss(trial)
		if was-loss <= 1e-10*was {
			break
		}
	}
	now = now.snap(c.points[len(c.points)-1].n)
	return now, now.one > 0 && !math.IsInf(now.at(c.points[len(c.points)-1].n), 0)
}

// snap moves a parameter onto its bound if half steps left it next to it, by less than a part in
// 10^12 of the curve up to concurrency n.
func (f uslFit) snap(n float64) uslFit {
	const beside = 1e-12
	if f.serial*n < beside*f.one {
		f.serial = 0
	}
	if f.serial > f.one*(1-beside) {
		f.serial = f.one
	}
	if f.pairs*n*n < beside*f.one {
		f.pairs = 0
	}
	return f
}

// loss returns the weighted sum of squared differences of ln.
func (c logPoints) loss(f uslFit) float64 {
	sum := 0.0
	for _, p := range c.points {
		d := p.mean - math.Log(f.at(p.n))
		sum += p.weight * d * d
	}
	return sum
}

// bounded solves the weighted least-squares line through (point, target) with one > 0, pairs ≥ 0,
// 0 ≤ serial ≤ one. The optimum lies inside or on some of the bounds: it solves all six cases,
// and the best feasible one is exact, without start values.
func bounded(points []logPoint, weight, target []float64) (uslFit, bool) {
	one := func(float64) float64 { return 1 }
	serial := func(n float64) float64 { return n - 1 }
	pairs := func(n float64) float64 { return n * (n - 1) }
	allSerial := func(n float64) float64 { return n } // serial = one
	type column = func(n float64) float64
	cases := []struct {
		columns []column
		fit     func(t []float64) uslFit
	}{
		{[]column{one, serial, pairs}, func(t []float64) uslFit { return uslFit{t[0], t[1], t[2]} }},
		{[]column{one, serial}, func(t []float64) uslFit { return uslFit{t[0], t[1], 0} }},
		{[]column{one, pairs}, func(t []float64) uslFit { return uslFit{t[0], 0, t[1]} }},
		{[]column{one}, func(t []float64) uslFit { return uslFit{t[0], 0, 0} }},
		{[]column{allSerial, pairs}, func(t []float64) uslFit { return uslFit{t[0], t[0], t[1]} }},
		{[]column{allSerial}, func(t []float64) uslFit { return uslFit{t[0], t[0], 0} }},
	}
	var best uslFit
	least, found := math.Inf(1), false
	for i, c := range cases {
		t, ok := leastSquares(points, weight, target, c.columns)
		if !ok {
			continue
		}
		f := c.fit(t)
		if !(f.one > 0 && f.serial >= 0 && f.serial <= f.one && f.pairs >= 0) {
			continue
		}
		loss := 0.0
		for j, p := range points {
			d := target[j] - f.at(p.n)
			loss += weight[j] * d * d
		}
		if loss < least {
			best, least, found = f, loss, true
		}
		if i == 0 {
			break // the free optimum is feasible: no other can be better
		}
	}
	return best, found
}

// leastSquares solves the weighted problem by modified Gram-Schmidt, which preserves the digits
// that normal equations lose. It rejects columns that these points cannot distinguish.
func leastSquares(points []logPoint, weight, target []float64, columns []func(n float64) float64) ([]float64, bool) {
	k := len(columns)
	if len(points) < k {
		return nil, false
	}
	var q [3][]float64
	var r [3][4]float64
	rest := make([]float64, len(points))
	for i := range points {
		rest[i] = math.Sqrt(weight[i]) * target[i]
	}
	for j, column := range columns {
		q[j] = make([]float64, len(points))
		for i, p := range points {
			q[j][i] = math.Sqrt(weight[i]) * column(p.n)
		}
		whole := norm(q[j])
		for l := range j {
			r[l][j] = project(q[j], q[l])
		}
		length := norm(q[j])
		if !(length > 1e-9*whole) {
			return nil, false
		}
		for i := range q[j] {
			q[j][i] /= length
		}
		r[j][j] = length
		r[j][3] = project(rest, q[j])
	}
	t := make([]float64, k)
	for j := k - 1; j >= 0; j-- {
		t[j] = r[j][3]
		for l := j + 1; l < k; l++ {
			t[j] -= r[j][l] * t[l]
		}
		t[j] /= r[j][j]
	}
	return t, true
}

func norm(v []float64) float64 {
	sum := 0.0
	for _, x := range v {
		sum += x * x
	}
	return math.Sqrt(sum)
}

// project subtracts from v its component along the unit vector u and returns its length.
func project(v, u []float64) float64 {
	dot := 0.0
	for i := range v {
		dot += v[i] * u[i]
	}
	for i := range v {
		v[i] -= dot * u[i]
	}
	return dot
}

// residuals returns those of every repeat, in ln, in the order of repeats.
func (c logPoints) residuals(f uslFit, repeats [][]float64) []float64 {
	var all []float64
	for i, logs := range repeats {
		y := math.Log(f.at(c.points[i].n))
		for _, v := range logs {
			all = append(all, v-y)
		}
	}
	return all
}

// uslUnknowns are λ, σ and κ.
const uslUnknowns = 3

// resample fits the curve to itself plus resampled residuals. These are centred, scaled by
// √(n/(n−3)) because a fit of three unknowns shrinks them, and by Student's t over the normal
// quantile because their size is itself uncertain. It returns nothing if no degree of freedom is
// left.
func (c logPoints) resample(f uslFit, residuals []float64, repeats [][]float64, confidence float64, chance *rand.Rand) []uslFit {
	n := len(residuals)
	free := n - uslUnknowns
	if free < 1 || len(c.points) < uslUnknowns {
		return nil
	}
	p := (1 + confidence) / 2
	grow := math.Sqrt(float64(n)/float64(free)) * studentQuantile(p, free) / normalQuantile(p)
	centre := meanOf(residuals)
	drawn := logPoints{points: slices.Clone(c.points), scale: c.scale}
	draws := make([]uslFit, 0, uslDraws)
	for range uslDraws {
		for i, logs := range repeats {
			sum := 0.0
			for range logs {
				sum += grow * (residuals[chance.IntN(n)] - centre)
			}
			drawn.points[i].mean = math.Log(f.at(c.points[i].n)) + sum/float64(len(logs))
		}
		if d, ok := drawn.fit(&f); ok {
			draws = append(draws, d)
		}
	}
	return draws
}
