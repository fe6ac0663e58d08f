package plan

import (
	"cmp"
	"fmt"
	"math"
	"slices"
	"strings"

	"ceiling/experiment/spec"
	"ceiling/internal/stat"
	"ceiling/internal/unit"
	"ceiling/record"
)

// concludeCurve finds the knee, fits the scalability law and names the bottleneck of the curve.
func concludeCurve(c *record.Curve, e *spec.Experiment, runs map[float64][]*record.Measured) {
	valid := slices.DeleteFunc(slices.Clone(c.Points), func(p record.CurvePoint) bool { return !record.Counts(&p) })
	if n := len(c.Points) - len(valid); n > 0 {
		c.Caveats = append(c.Caveats, say("curve.invalid-points", with{"invalid": n, "points": len(c.Points), "why": whyInvalid(c, runs)}))
	}
	if len(valid) == 0 {
		c.Bottleneck, c.Says = c.Points[len(c.Points)-1].Bottleneck, say("curve.all-invalid", nil)
		return
	}
	last := &valid[len(valid)-1]
	c.Bottleneck = last.Bottleneck
	c.Says = say("curve.point", with{"per_s": last.PerS.Mid, "at": place(c, last.X), "bottleneck": last.Bottleneck})
	if !slices.ContainsFunc(valid, func(p record.CurvePoint) bool { return p.BadShare <= mostly }) {
		c.Bottleneck, c.Says = record.Failures, say("curve.errors", nil)
		return
	}
	if c.Over == "" || len(valid) < 2 {
		return
	}
	short := func(p record.CurvePoint) bool { return p.PerS.Mid < (1-stat.KneeWithin)*p.TargetPerS }
	if asked := last.TargetPerS; c.Over != spec.OverRate && asked > 0 && !slices.ContainsFunc(valid, short) {
		higher := say("load.flag", with{"flag": spec.OverRate.Flag(), "values": list([]float64{math.Ceil(2 * asked)})})
		c.Says = say("curve.reached", with{"per_s": asked, "extend": higher})
		return
	}
	points := make([]stat.Point, len(valid))
	for i, p := range valid {
		points[i] = stat.Point{N: p.X, X: p.PerRun}
	}
	knee(c, valid, points)
	if c.Over != spec.OverRate && c.Over != spec.OverThreads {
		fit(c, valid, points, e.Seed)
	}
}

// whyInvalid returns why most runs of the invalid points are, in the words of the last such run.
func whyInvalid(c *record.Curve, runs map[float64][]*record.Measured) (most record.Statement) {
	counts := map[string]int{}
	for _, p := range c.Points {
		for _, m := range runs[p.X] {
			if record.Counts(&p) || len(m.Because) == 0 {
				continue
			}
			why := m.Because[len(m.Because)-1] // the first may be how much of the target was answered
			if counts[why.Code]++; counts[why.Code] >= counts[most.Code] {
				most = why
			}
		}
	}
	return most
}

// knee brackets the load beyond which throughput no longer grows throughput.
func knee(c *record.Curve, valid []record.CurvePoint, points []stat.Point) {
	k, err := stat.FindKnee(points, stat.KneeWithin, confidence)
	if c.Over == spec.OverRate {
		k, err = kneeOfRates(valid), nil
	}
	if err != nil {
		c.Caveats = append(c.Caveats, say("curve.no-knee", with{"error": err.Error()}))
		return
	}
	c.Caveats = append(c.Caveats, warned(k.Warnings)...)
	// The table's figure: FindKnee's is a mean of logarithms.
	peak := slices.MaxFunc(valid, func(a, b record.CurvePoint) int { return cmp.Compare(a.PerS.Mid, b.PerS.Mid) }).PerS.Mid
	found := &record.Knee{PerS: peak}
	top, first := valid[len(valid)-1], valid[0]
	if k.BracketedBelow {
		found.Low = k.Low
	}
	if k.BracketedAbove {
		found.High = k.High
	}
	// The lowest load that is not measurably slower than the peak.
	level := slices.IndexFunc(valid, func(p record.CurvePoint) bool { return p.X > found.Low })
	undecided := !k.BracketedAbove && level >= 0 && level < len(valid)-1
	switch {
	case undecided: // more runs, and not more loads, show where growth ends
	case !k.BracketedAbove && c.Points[len(c.Points)-1].X > top.X: // those above were invalid
	case !k.BracketedAbove:
		found.Add = []float64{2 * top.X, 4 * top.X}
	case !k.BracketedBelow && first.X > 1 && k.High <= first.X:
		found.Add = below(first.X)
	case k.BracketedBelow && k.High > 2*k.Low && k.High-k.Low > 1 && c.Over != spec.OverRate && !between(valid, k.Low, k.High):
		found.Add = []float64{float64(int((k.Low + k.High) / 2))}
	}
	c.Knee, c.Bottleneck = found, ceilingBeyond(valid, k.High)
	extend := more(c, found.Add)
	switch {
	case undecided:
		c.Says = say("curve.undecided", with{"top": place(c, top.X), "per_s": top.PerS.Mid, "level": lower(c, valid[level].X), "bottleneck": c.Bottleneck})
	case !k.BracketedAbove:
		c.Says = say("curve.grows", with{"top": place(c, top.X), "per_s": peak, "extend": extend, "bottleneck": c.Bottleneck})
	case !k.BracketedBelow && k.High <= 1:
		c.Says = say("curve.flat", with{"high": place(c, k.High), "per_s": peak, "bottleneck": c.Bottleneck})
	case !k.BracketedBelow:
		c.Says = say("curve.plateau", with{"high": place(c, k.High), "per_s": peak, "extend": extend, "bottleneck": c.Bottleneck})
	default:
		c.Says = say("curve.peak", with{"per_s": peak, "low": lower(c, k.Low), "high": place(c, k.High), "extend": extend,
			"bottleneck": c.Bottleneck})
	}
}

// kneeOfRates brackets it by the rates themselves: the last that was reached, and the first that was not.
func kneeOfRates(valid []record.CurvePoint) (k stat.Knee) {
	for _, p := range valid {
		if k.High = p.X; p.PerS.Mid < (1-stat.KneeWithin)*p.X {
			k.BracketedAbove = true
			break
		}
		k.Low, k.BracketedBelow = p.X, true
	}
	return k
}

// between reports whether a load inside the bracket was measured without deciding, because of
// noise, on which side of the knee it is. One more load there would not help.
func between(valid []record.CurvePoint, low, high float64) bool {
	return slices.ContainsFunc(valid, func(p record.CurvePoint) bool { return p.X > low && p.X < high })
}

// ceilingBeyond returns the bottleneck of most points beyond the knee, where throughput no longer
// grows, or that of the last point: at the knee the load may still be the limit.
func ceilingBeyond(valid []record.CurvePoint, knee float64) record.Bottleneck {
	counts := map[record.Bottleneck]int{}
	for i, p := range valid {
		if p.X > knee || i == len(valid)-1 {
			counts[p.Bottleneck]++
		}
	}
	name, _ := majority(counts)
	return name
}

// below suggests loads below the lowest measured one.
func below(x float64) []float64 {
	if quarter := float64(int(x / 4)); quarter >= 1 && quarter < x/2 {
		return []float64{quarter, float64(int(x / 2))}
	}
	return []float64{float64(max(1, int(x/2)))}
}

// fit fits the Universal Scalability Law over concurrency. A fit whose peak is in the measured range,
// and higher than anything measured there, is wrong.
func fit(c *record.Curve, valid []record.CurvePoint, points []stat.Point, seed uint64) {
	u, err := stat.FitUSL(points, confidence, seed)
	highest := 0.0
	for _, p := range valid {
		highest = max(highest, p.PerS.High)
	}
	if err == nil && u.Bends && u.Best.Value <= valid[len(valid)-1].X && u.Peak.Value > highest {
		err = fmt.Errorf("its peak of %s is above every measured point", unit.FormatRate(u.Peak.Value))
	}
	if err != nil {
		c.Caveats = append(c.Caveats, say("curve.no-fit", with{"error": err.Error()}))
		return
	}
	c.USL = &record.USL{
		Lambda: estimate(u.Lambda), Sigma: estimate(u.Sigma), Kappa: estimate(u.Kappa),
		R2: u.R2, Trusted: len(u.Warnings) == 0, Warnings: warned(u.Warnings), BestAtLeast: u.BestAtLeast,
	}
	if u.Bends {
		best, peak := estimate(u.Best), estimate(u.Peak)
		c.USL.Best, c.USL.PeakPerS = &best, &peak
	}
}

// lower is the lower of two points of a curve: the 1 in "1 and 16 connections".
func lower(c *record.Curve, x float64) record.Statement {
	if c.Over != spec.OverConnections {
		return place(c, x)
	}
	return say("load.count", with{"connections": x})
}

// more is the flag that adds points to a curve, empty if there are none: "-c 100,200".
func more(c *record.Curve, add []float64) record.Statement {
	if len(add) == 0 {
		return record.Statement{}
	}
	return say("load.flag", with{"flag": c.Over.Flag(), "values": list(add)})
}

// place names a point of a curve.
func place(c *record.Curve, x float64) record.Statement {
	switch c.Over {
	case spec.OverRate:
		return say("load.rate", with{"per_s": x})
	case spec.OverPipelining:
		return say("load.pipelining", with{"pipelining": x})
	case spec.OverThreads:
		return say("load.threads", with{"threads": x})
	}
	return say("load.connections", with{"connections": x})
}

func list(values []float64) string {
	parts := make([]string, len(values))
	for i, v := range values {
		parts[i] = fmt.Sprintf("%.0f", v)
	}
	return strings.Join(parts, ",")
}
