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
		c.Caveats = append(c.Caveats, fmt.Sprintf("%d of %d points are invalid and excluded from the knee and the fit", n, len(c.Points)))
	}
	if len(valid) == 0 {
		c.Bottleneck, c.Says = c.Points[len(c.Points)-1].Bottleneck, "every point is invalid: no result"
		return
	}
	last := &valid[len(valid)-1]
	c.Bottleneck, c.Says = last.Bottleneck, fmt.Sprintf("%s at %s: %s", perS(last.PerS.Mid), place(c, last.X), last.Bottleneck)
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
		c.Caveats = append(c.Caveats, "no knee: "+err.Error())
		return
	}
	c.Caveats = append(c.Caveats, k.Warnings...)
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
		found.Says = fmt.Sprintf("no plateau up to %s (%s so far); extend with %s", place(c, top.X), perS(k.Peak), more(c, found.Add))
	case !k.BracketedBelow:
		found.Says = fmt.Sprintf("throughput plateaus by %s (%s): no lower load is measurably slower", place(c, k.High), perS(k.Peak))
		if first.X > 1 && k.High <= first.X {
			found.Add = below(first.X)
			found.Says += "; extend with " + more(c, found.Add)
		}
	default:
		found.Says = fmt.Sprintf("throughput peaks at %s between %s", perS(k.Peak), between(c, k.Low, k.High))
		if k.High > 2*k.Low && k.High-k.Low > 1 && c.Over != OverRate {
			found.Add = []float64{float64(int((k.Low + k.High) / 2))}
			found.Says += fmt.Sprintf(" (add %s to narrow)", more(c, found.Add))
		}
	}
	c.Knee, c.Bottleneck = found, ceilingBeyond(valid, k.High)
	c.Says = fmt.Sprintf("%s; bottleneck: %s", found.Says, c.Bottleneck)
}

// ceilingBeyond is the one that most points from the knee on have.
func ceilingBeyond(valid []record.CurvePoint, knee float64) record.Bottleneck {
	counts := map[record.Bottleneck]int{}
	for _, p := range valid {
		if p.X >= knee {
			counts[p.Bottleneck]++
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
		c.Caveats = append(c.Caveats, "no fit of the scalability law: "+err.Error())
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

// between names two points of a curve: "1 and 16 connections".
func between(c *record.Curve, low, high float64) string {
	if c.Over == OverRate || c.Over == OverPipelining {
		return place(c, low) + " and " + place(c, high)
	}
	return unit.FormatCount(int64(low)) + " and " + place(c, high)
}

// more is the flag that adds points to a curve: "-c 100,200".
func more(c *record.Curve, add []float64) string {
	flag := map[string]string{OverConnections: "-c", OverPipelining: "-p", OverRate: "-R"}[c.Over]
	return flag + " " + list(add)
}

// place names a point of a curve.
func place(c *record.Curve, x float64) string {
	switch c.Over {
	case OverRate:
		return unit.FormatRate(x)
	case OverPipelining:
		return fmt.Sprintf("pipelining %.0f", x)
	}
	return unit.Plural(int(x), "connection", "connections")
}

func perS(rate float64) string { return unit.FormatRate(rate) }

func list(values []float64) string {
	parts := make([]string, len(values))
	for i, v := range values {
		parts[i] = fmt.Sprintf("%.0f", v)
	}
	return strings.Join(parts, ",")
}
