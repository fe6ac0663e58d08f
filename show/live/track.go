package live

import "ceiling/record"

// PointsMost is how many points a Track has: 6.8 minutes at ten a second. From
// there on two neighbours are put together, again and again, so that a run of
// any length fits and begins at its beginning.
const PointsMost = 4096

// Point is one interval of the generator, or several that lie side by side.
type Point struct {
	// TNs is the end on the run's clock and WidthNs the true width, nanoseconds.
	TNs, WidthNs int64
	Completed    uint64
	// Failed counts requests without a whole answer and those answered with
	// an unexpected status.
	Failed uint64
	// Quantiles of the response time of the interval, nanoseconds; of several
	// intervals those of the worst, for quantiles cannot be merged.
	P50Ns, P90Ns, P99Ns, MaxNs int64
	// Answered tells that there were answers to have quantiles of.
	Answered     bool
	Late, Warmup bool
	// Intervals that the point stands for.
	Intervals int
	// Response is how the response times lie; nil where nothing was answered.
	Response *record.Steps
}

// PerS is the rate of completed requests, per second.
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

// with puts the next point behind p.
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

// track is the points of one run. generation changes whenever points that were
// there before have changed.
type track struct {
	points     []Point
	generation int
	// each is how many intervals a new point stands for; open is one that does
	// not have that many yet.
	each int
	open Point
}

// reset begins another run.
func (t *track) reset() {
	t.points = t.points[:0]
	t.generation++
	t.each, t.open = 1, Point{}
}

// add appends an interval. One that is not later than the last is none.
func (t *track) add(p Point) {
	if p.WidthNs <= 0 || t.last() >= p.TNs && t.any() {
		return
	}
	switch {
	case t.open.Intervals == 0:
		t.open = p
	case t.open.Warmup != p.Warmup: // the window begins with a point of its own
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

// last is the end of the last interval.
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

// halve puts neighbours together, but not across the window's beginning.
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

// finish ends the last point, also where it does not have all its intervals.
func (t *track) finish() {
	if t.open.Intervals > 0 {
		t.close()
	}
}
