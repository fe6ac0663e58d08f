package live

import "ceiling/record"

// PointsMost limits the points of a Track: 6.8 minutes at ten a second. Beyond that, neighbours
// are merged, repeatedly, so that a run of any length fits from its start.
const PointsMost = 4096

// Point is one interval of the generator, or several adjacent ones.
type Point struct {
	// TNs is the end on the run's clock and WidthNs the true width, nanoseconds.
	TNs, WidthNs int64
	Completed    uint64
	// Failed counts requests without a complete response and responses with an unexpected status.
	Failed uint64
	// Quantiles of the interval's response time, nanoseconds; for several intervals the worst,
	// because quantiles cannot be merged.
	P50Ns, P90Ns, P99Ns, MaxNs int64
	// Answered is set if there were responses to compute quantiles from.
	Answered     bool
	Late, Warmup bool
	// Intervals is the number of intervals in the point.
	Intervals int
	// Response is the distribution of the response times; nil without responses.
	Response *record.Steps
}

// PerS returns the rate of completed requests, per second.
func (p *Point) PerS() float64 {
	if p.WidthNs <= 0 {
		return 0
	}
	return float64(p.Completed) * 1e9 / float64(p.WidthNs)
}

func pointOf(row *record.LoadRow) Point {
	return Point{
		TNs: row.TNs, WidthNs: row.WidthNs, Completed: row.Completed, Failed: row.Failed + row.Bad,
		P50Ns: row.P50Ns, P90Ns: row.P90Ns, P99Ns: row.P99Ns, MaxNs: row.MaxNs,
		Answered: row.Completed+row.Failed > 0, Late: row.Late, Warmup: row.Warmup, Intervals: 1,
		Response: row.Response,
	}
}

// with appends the next point to p.
func (p Point) with(next *Point) Point {
	p.TNs = next.TNs
	p.WidthNs += next.WidthNs
	p.Completed += next.Completed
	p.Failed += next.Failed
	p.P50Ns, p.P90Ns = max(p.P50Ns, next.P50Ns), max(p.P90Ns, next.P90Ns)
	p.P99Ns, p.MaxNs = max(p.P99Ns, next.P99Ns), max(p.MaxNs, next.MaxNs)
	p.Answered = p.Answered || next.Answered
	p.Late = p.Late || next.Late
	p.Intervals += next.Intervals
	p.Response = p.Response.With(next.Response)
	return p
}

// track is the points of one run. generation changes whenever existing points change.
type track struct {
	points     []Point
	generation int
	// each is the number of intervals per new point; open is a point that has fewer so far.
	each int
	open Point
}

// reset starts another run.
func (t *track) reset() {
	t.points = t.points[:0]
	t.generation++
	t.each, t.open = 1, Point{}
}

// add appends an interval. It ignores one that is not later than the last.
func (t *track) add(p Point) {
	if p.WidthNs <= 0 || t.last() >= p.TNs && t.any() {
		return
	}
	switch {
	case t.open.Intervals == 0:
		t.open = p
	case t.open.Warmup != p.Warmup: // the window starts with a new point
		t.close()
		t.open = p
	default:
		t.open = t.open.with(&p)
	}
	if t.open.Intervals >= t.each {
		t.close()
	}
}

func (t *track) any() bool { return len(t.points) > 0 || t.open.Intervals > 0 }

// last returns the end of the last interval.
func (t *track) last() int64 {
	if t.open.Intervals > 0 {
		return t.open.TNs
	}
	if n := len(t.points); n > 0 {
		return t.points[n-1].TNs
	}
	return 0
}

func (t *track) close() {
	t.points = append(t.points, t.open)
	t.open = Point{}
	if len(t.points) == PointsMost {
		t.halve()
	}
}

// halve merges neighbours, but not across the start of the window.
func (t *track) halve() {
	kept := t.points[:0]
	for i := 0; i < len(t.points); i++ {
		p := t.points[i]
		if i+1 < len(t.points) && t.points[i+1].Warmup == p.Warmup {
			i++
			p = p.with(&t.points[i])
		}
		kept = append(kept, p)
	}
	t.points = kept
	t.each *= 2
	t.generation++
}

// finish closes the last point, even if it has fewer intervals.
func (t *track) finish() {
	if t.open.Intervals > 0 {
		t.close()
	}
}
