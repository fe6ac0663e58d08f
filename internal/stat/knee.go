package stat

import (
	"fmt"
	"math"
)

// Knee brackets where more concurrency stops raising throughput: the first concurrency within a
// share Within of the peak.
type Knee struct {
	// Low is the last concurrency before High that is significantly below: more concurrency
	// raised throughput by more than Within. 0 if BracketedBelow is false.
	Low float64 `json:"low"`
	// High is the first concurrency that is significantly within: more concurrency raises
	// throughput by less than Within. If BracketedAbove is false it is just the largest
	// concurrency measured.
	High           float64 `json:"high"`
	BracketedBelow bool    `json:"bracketed_below"`
	BracketedAbove bool    `json:"bracketed_above"`
	// PeakN and Peak are the concurrency of maximum throughput, and that throughput (the
	// geometric mean of the repeats).
	PeakN      float64   `json:"peak_n"`
	Peak       float64   `json:"peak"`
	Within     float64   `json:"within"`
	Confidence float64   `json:"confidence"` // of all points together; 0 without repeats
	Warnings   []Warning `json:"warnings,omitempty"`
}

// KneeWithin is the default share below the peak that counts as the peak: a twentieth, about what
// three repeats with 2 % of noise can resolve (2 % · √(2/3) · t = 5 % at 8 points). Without it,
// the knee of a curve that approaches an asymptote would move up with every repeat.
const KneeWithin = 0.05

// FindKnee brackets the knee. It compares each point with the peak by the interval of the ratio
// of their throughputs (Student on ln X; the deviation pooled over all points, or the point's own
// if larger; corrected for the number of points, as in Hsu's comparisons with the best): entirely
// below 1 − within it is below, entirely above it is within, otherwise it is undecided and lies
// inside the bracket.
func FindKnee(points []Point, within, confidence float64) (Knee, error) {
	if err := checkConfidence("knee", confidence); err != nil {
		return Knee{}, err
	}
	if !(within >= 0 && within < 1) {
		return Knee{}, fmt.Errorf("knee: share %v must lie between 0 and 1, as 0.05", within)
	}
	points, err := checkPoints("knee", points)
	if err != nil {
		return Knee{}, err
	}
	logs, degrees := logSamples(points)
	peak := 0
	for i := range logs {
		if logs[i].mean > logs[peak].mean {
			peak = i
		}
	}
	k := Knee{PeakN: points[peak].N, Peak: math.Exp(logs[peak].mean), Within: within}
	margin := math.Log1p(-within)
	t := 0.0
	if degrees > 0 {
		k.Confidence = confidence
		alpha := (1 - confidence) / float64(max(len(points)-1, 1))
		t = studentQuantile(1-alpha/2, degrees)
	}
	high, below := peak, make([]bool, len(points))
	for i := peak - 1; i >= 0; i-- {
		difference := logs[i].mean - logs[peak].mean
		half := t * math.Sqrt(logs[i].variance/logs[i].n+logs[peak].variance/logs[peak].n)
		below[i] = difference+half < margin
		if difference-half >= margin {
			high = i
		}
	}
	k.High = points[high].N
	for i := range high {
		if below[i] {
			k.Low, k.BracketedBelow = points[i].N, true
		}
	}
	k.BracketedAbove = high < len(points)-1
	k.Warnings = kneeWarnings(k, points, degrees)
	return k, nil
}

func kneeWarnings(k Knee, points []Point, degrees int) []Warning {
	var out []Warning
	if len(points) < 3 {
		out = append(out, warn("knee.few-points", with{"points": len(points)}))
	}
	if degrees == 0 {
		out = append(out, warn("knee.no-repeats", nil))
	}
	if !k.BracketedBelow && k.High > 1 { // there is nothing below 1
		out = append(out, warn("knee.open-below", with{"at": k.High}))
	}
	if !k.BracketedAbove {
		out = append(out, warn("knee.open-above", with{"at": k.High}))
	}
	return out
}

// logSample is ln X at one point.
type logSample struct{ mean, variance, n float64 }

// logSamples returns the points' means of ln X with the larger of the pooled and their own
// variance, and the degrees of freedom of the pool.
func logSamples(points []Point) ([]logSample, int) {
	out := make([]logSample, len(points))
	squares, degrees := 0.0, 0
	for i, p := range points {
		logs := make([]float64, len(p.X))
		for j, x := range p.X {
			logs[j] = math.Log(x)
		}
		out[i] = logSample{mean: meanOf(logs), n: float64(len(logs))}
		own := 0.0
		for _, v := range logs {
			own += (v - out[i].mean) * (v - out[i].mean)
		}
		if len(logs) > 1 {
			out[i].variance = own / float64(len(logs)-1)
		}
		squares += own
		degrees += len(logs) - 1
	}
	if degrees > 0 {
		for i := range out {
			out[i].variance = max(out[i].variance, squares/float64(degrees))
		}
	}
	return out, degrees
}
