package chart

import (
	"fmt"
	"math"
	"strings"

	"ceiling/internal/unit"
	"ceiling/record"
)

// Most is the number of points of a line in a single run's time chart. That is more than a screen
// shows without zooming. At ten rows a second, an hour has 45 rows per point, and all charts of a
// run stay below a megabyte.
const Most = 800

// MostEach returns the number of points for each of n runs on one page, so that the page's size
// does not grow with n.
func MostEach(n int) int { return max(2*Most/(max(n, 1)+1), 100) }

// Rate plots completions per second over time, and the target rate in an open loop. Each row is
// divided by its actual width.
func Rate(runs []Run, most int) (Plot, bool) {
	p := Plot{Title: rateTitle}
	high, low := 0.0, math.Inf(1)
	for i := range runs {
		run := &runs[i]
		lines := []Line{{Name: named(run, "completed"), Tone: tone(i, len(runs)), Dashed: i >= Tones}}
		ramp := run.Spec.Open() && !run.Spec.Rate.Constant()
		if ramp {
			lines = append(lines, Line{Name: named(run, "asked"), Tone: 7, Dashed: true})
		}
		rows := loadRows(run, func(r *record.LoadRow, s float64) []float64 {
			values := []float64{float64(r.Completed) / s}
			if ramp {
				values = append(values, askedAt(run, float64(r.TNs)-float64(r.WidthNs)/2))
			}
			return values
		})
		g := timed(run, thin(run.Label, rows, lines, most))
		if g.Points() == 0 {
			continue
		}
		p.Groups = append(p.Groups, g)
		if asked := run.Load.TargetPerS; asked > 0 && record.IsSteady(run.Run) {
			p.limit(named(run, "asked"), asked)
			high = max(high, asked)
		}
	}
	_, top, ok := bounds(p.Groups)
	if !ok {
		return p, false
	}
	for i := range p.Groups {
		for _, v := range p.Groups[i].Lines[0].Mid {
			low = min(low, v)
		}
	}
	p.axes(fromZero(perSecond(&runs[0]), PerSecond, max(high, top)))
	p.Spans = stalls(runs)
	p.Says = fmt.Sprintf(counted(&runs[0])+" per second: between %s and %s.", unit.FormatSI(low), unit.FormatSI(top))
	return p, true
}

// askedAt returns the target rate of a ramp or of steps at a time in nanoseconds from the start of the
// window; NaN outside the window.
func askedAt(run *Run, ns float64) float64 {
	duration := float64(run.Spec.Duration)
	if !(duration > 0) || ns < 0 || ns > duration {
		return math.NaN()
	}
	return run.Spec.Rate.At(ns / duration)
}

// limit adds a level once.
func (p *Plot) limit(name string, at float64) {
	for _, l := range p.Limits {
		if l.At == at {
			return
		}
	}
	p.Limits = append(p.Limits, Limit{name, at})
}

// LatencyOverTime plots quantiles of the response time of each interval; for a single run, over a
// heat map of all responses if the record has it. Quantiles cannot be averaged, so a point that
// covers several rows shows their median, and their range around it.
func LatencyOverTime(runs []Run, most int) (Plot, bool) {
	p := Plot{Title: responseTitle}
	for i := range runs {
		run := &runs[i]
		lines := responseLines()
		if len(runs) > 1 {
			lines = []Line{{Name: named(run, "p99"), Tone: tone(i, len(runs))}, {Name: named(run, "p50"), Tone: tone(i, len(runs)), Dashed: true}}
		}
		for l := range lines {
			lines[l].reduce = middle
		}
		rows := loadRows(run, func(r *record.LoadRow, _ float64) []float64 {
			values := []float64{math.NaN(), math.NaN(), math.NaN()}
			if r.MaxNs > 0 { // a request ended in this interval
				values = []float64{float64(r.MaxNs), float64(r.P99Ns), float64(r.P50Ns)}
			}
			return values[3-len(lines):]
		})
		if g := timed(run, thin(run.Label, rows, lines, most)); g.Points() > 0 {
			p.Groups = append(p.Groups, g)
		}
	}
	low, high, ok := bounds(p.Groups)
	if !ok {
		return p, false
	}
	if len(runs) == 1 {
		from, to := span(p.Groups)
		if p.Density = densityOf(&runs[0], from, to, most); p.Density != nil {
			low, high = min(low, p.Density.Low), max(high, p.Density.High)
		}
	}
	p.axes(decades("response time", Nanoseconds, low, high))
	p.Spans = stalls(runs)
	p.Says = fmt.Sprintf("Response times of intervals: between %s and %s.", unit.FormatNs(int64(low)), unit.FormatNs(int64(high)))
	return p, true
}

const rateTitle, responseTitle = "Rate over time", "Response time over time"

func responseLines() []Line {
	return []Line{{Name: "max", Tone: 2, Dashed: true}, {Name: "p99", Tone: 1}, {Name: "p50", Tone: 0}}
}

// Extent is what the points of a run reach: its time in seconds, its rate, and its response times in nanoseconds.
type Extent struct{ From, To, PerS, LowNs, HighNs float64 }

// Growing are the plots of Rate and LatencyOverTime for a run in progress, without their points, which follow one by one.
func Growing(run *Run, e Extent) (rate, response Plot) {
	x, spans := timeAxis(e.From, e.To), stalls([]Run{*run})
	rate = Plot{Title: rateTitle, X: x, Y: fromZero(perSecond(run), PerSecond, e.PerS), Spans: spans,
		Groups: []Group{{Lines: []Line{{Name: "completed"}}}}}
	response = Plot{Title: responseTitle, X: x, Y: decades("response time", Nanoseconds, e.LowNs, e.HighNs), Spans: spans,
		Groups: []Group{{Lines: responseLines()}}}
	return rate, response
}

// stalls returns the intervals without responses, as the verdict lists them. Several runs on one
// axis get none: they would hide each other.
func stalls(runs []Run) []Span {
	if len(runs) != 1 {
		return nil
	}
	var list []Span
	for _, s := range runs[0].Verdict.Stalls {
		list = append(list, Span{Name: s.String(), From: float64(s.FromNs) / 1e9, To: float64(s.ToNs) / 1e9, Tone: 1})
	}
	return list
}

// Failures plots failed requests and bad statuses per second; ok is false if there were none.
func Failures(run *Run, most int) (Plot, bool) {
	p := Plot{Title: "Failures over time", Says: "Failed " + run.Spec.Kind.Many() + " and responses with an unexpected status, per second."}
	rows := loadRows(run, func(r *record.LoadRow, s float64) []float64 {
		return []float64{float64(r.Failed) / s, float64(r.Bad) / s}
	})
	g := timed(run, thin(run.Label, rows, []Line{{Name: "failed", Tone: 1}, {Name: "unexpected status", Tone: 2}}, most))
	p.Groups = []Group{g}
	_, high, ok := bounds(p.Groups)
	if !ok || high == 0 {
		return p, false
	}
	p.axes(fromZero(perSecond(run), PerSecond, high))
	return p, true
}

// loadRows converts the generator's rows; the function of computes the values of a row that lasts
// s seconds.
func loadRows(run *Run, of func(r *record.LoadRow, s float64) []float64) []row {
	if run.Series == nil {
		return nil
	}
	rows := make([]row, 0, len(run.Series.Load))
	for i := range run.Series.Load {
		r := &run.Series.Load[i]
		if r.WidthNs > 0 {
			from, to := interval(r.TNs, r.WidthNs)
			rows = append(rows, row{from, to, r.Late, of(r, float64(r.WidthNs)/1e9)})
		}
	}
	return rows
}

// interval returns the bounds in seconds of the interval that ends at t and is width wide. It
// uses floats, so that a damaged row cannot overflow.
func interval(t, width int64) (from, to float64) {
	return (float64(t) - float64(width)) / 1e9, float64(t) / 1e9
}

// timed marks a group's measured window.
func timed(run *Run, g Group) Group {
	g.Closes = max(run.ElapsedS, 0)
	return g
}

// axes sets time as the x axis and y as the y axis.
func (p *Plot) axes(y Axis) {
	p.X, p.Y = timeAxis(span(p.Groups)), y
}

// named returns a line's name, with the run's label if there are several runs.
func named(run *Run, line string) string {
	if run.Label == "" {
		return line
	}
	return run.Label + " " + line
}

// tone returns the colour of the i-th of n runs.
func tone(i, n int) int {
	if n == 1 {
		return 0
	}
	return i % Tones
}

// perSecond is the unit of the run's rate on an axis: "requests/s", "events/s".
func perSecond(run *Run) string { return run.Spec.Kind.Many() + "/s" }

// counted is the noun for what a run counts, capitalised.
func counted(run *Run) string {
	many := run.Spec.Kind.Many()
	return strings.ToUpper(many[:1]) + many[1:]
}
