package plan

import (
	"fmt"
	"slices"
	"strings"

	"ceiling/experiment/spec"
	"ceiling/internal/stat"
	"ceiling/internal/unit"
	"ceiling/record"
)

// concludeCurve finds the knee, fits the scalability law and names what limits
// the curve.
func concludeCurve(c *record.Curve, e *spec.Experiment) {
	valid := slices.DeleteFunc(slices.Clone(c.Points), func(p record.CurvePoint) bool { return p.Outcome == record.Invalid })
	if n := len(c.Points) - len(valid); n > 0 {
		c.Doubts = append(c.Doubts, fmt.Sprintf("%d of %d points are void and left out of the knee and the fit", n, len(c.Points)))
	}
	if len(valid) == 0 {
		c.Ceiling, c.Says = c.Points[len(c.Points)-1].Ceiling, "every point is void: the curve proves nothing"
		return
	}
	last := &valid[len(valid)-1]
	c.Ceiling, c.Says = last.Ceiling, fmt.Sprintf("%s at %s: %s", perS(last.PerS.Mid), place(c, last.X), last.Ceiling)
	if c.Over == "" || len(valid) < 2 {
		return
	}
	points := make([]stat.Point, len(valid))
	for i, p := range valid {
		points[i] = stat.Point{N: p.X, X: p.PerRun}
	}
	knee(c, valid, points)
	if c.Over != OverRate {
		fit(c, points, e.Seed)
	}
}

// knee brackets where more load stops to bring more.
func knee(c *record.Curve, valid []record.CurvePoint, points []stat.Point) {
	k, err := stat.FindKnee(points, stat.KneeWithin, confidence)
	if err != nil {
		c.Doubts = append(c.Doubts, "no knee: "+err.Error())
		return
	}
	c.Doubts = append(c.Doubts, k.Warnings...)
	found := &record.Knee{PerS: k.Peak}
	top, first := valid[len(valid)-1], valid[0]
	if k.BracketedBelow {
		found.Low = k.Low
	}
	if k.BracketedAbove {
		found.High = k.High
	}
	switch {
	case !k.BracketedAbove:
		found.Add = []float64{2 * top.X, 4 * top.X}
		found.Says = fmt.Sprintf("throughput still grows at %s: the knee is there or beyond; add %s", place(c, top.X), list(found.Add))
	case !k.BracketedBelow:
		found.Says = fmt.Sprintf("throughput is there by %s: no point below it is slower for sure", place(c, k.High))
		if first.X > 1 && k.High <= first.X {
			found.Add = below(first.X)
			found.Says += "; add " + list(found.Add)
		}
	default:
		found.Says = fmt.Sprintf("throughput stops growing between %s and %s", place(c, k.Low), place(c, k.High))
		if k.High > 2*k.Low && k.High-k.Low > 1 && c.Over != OverRate {
			found.Add = []float64{float64(int((k.Low + k.High) / 2))}
			found.Says += fmt.Sprintf(" (%s would narrow it)", list(found.Add))
		}
	}
	c.Knee, c.Ceiling = found, ceilingBeyond(valid, k.High)
	c.Says = fmt.Sprintf("%s, %s at most; ceiling from there on: %s", found.Says, perS(found.PerS), c.Ceiling)
}

// ceilingBeyond is the one that most points from the knee on have.
func ceilingBeyond(valid []record.CurvePoint, knee float64) string {
	counts := map[string]int{}
	for _, p := range valid {
		if p.X >= knee {
			counts[p.Ceiling]++
		}
	}
	name, _ := majority(counts)
	return name
}

// below are smaller loads than the smallest that was measured.
func below(x float64) []float64 {
	if quarter := float64(int(x / 4)); quarter >= 1 && quarter < x/2 {
		return []float64{quarter, float64(int(x / 2))}
	}
	return []float64{float64(max(1, int(x/2)))}
}

// fit is the Universal Scalability Law over slots in flight.
func fit(c *record.Curve, points []stat.Point, seed uint64) {
	u, err := stat.FitUSL(points, confidence, seed)
	if err != nil {
		c.Doubts = append(c.Doubts, "no fit of the scalability law: "+err.Error())
		return
	}
	c.USL = &record.USL{
		Lambda: estimate(u.Lambda), Sigma: estimate(u.Sigma), Kappa: estimate(u.Kappa),
		R2: u.R2, Trusted: len(u.Warnings) == 0, Warnings: u.Warnings, BestAtLeast: u.BestAtLeast,
	}
	if u.Bends {
		best, peak := estimate(u.Best), estimate(u.Peak)
		c.USL.Best, c.USL.PeakPerS = &best, &peak
	}
}

// place names a point of a curve.
func place(c *record.Curve, x float64) string {
	switch c.Over {
	case OverRate:
		return unit.FormatRate(x) + " asked"
	case OverPipelining:
		return fmt.Sprintf("pipelining %.0f", x)
	}
	if x == 1 {
		return "1 connection"
	}
	return fmt.Sprintf("%s connections", unit.FormatCount(int64(x)))
}

func perS(rate float64) string { return unit.FormatRate(rate) }

func list(values []float64) string {
	parts := make([]string, len(values))
	for i, v := range values {
		parts[i] = fmt.Sprintf("%.0f", v)
	}
	return strings.Join(parts, ",")
}
