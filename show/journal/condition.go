package journal

import (
	"cmp"
	"errors"
	"math"
	"strconv"
	"strings"

	"ceiling/record"
	"ceiling/show/chart"
	"ceiling/show/page"
)

// condition is one condition under which runs were measured: a single run, or the counted runs of a
// point or a cell of a plan.
type condition struct {
	source
	// name distinguishes it from the others of its plan; "" for a single run.
	name string
	// point summarises its runs in the plan's answer; nil for a single run.
	point *record.CurvePoint
	// linkBits is the rate of the experiment's own link, bits per second; 0: none.
	linkBits float64
	// runs have their full records; those of a point are there once it is opened.
	runs []*chart.Run
}

var errNoRuns = errors.New("the point names no runs")

// opened returns the condition with its runs.
func (c condition) opened() (condition, error) {
	if c.point == nil {
		return c, nil
	}
	if len(c.point.RunIDs) == 0 {
		return c, errNoRuns
	}
	c.name = page.Shown(c.name)
	for _, id := range c.point.RunIDs {
		r, err := c.of.member(id)
		if err != nil {
			return c, err
		}
		c.runs = append(c.runs, r.Run)
	}
	return c, nil
}

// about answers with what show makes of the runs of a condition.
func about(show func(c condition, to *answer) error) func(of any) (answer, error) {
	return func(of any) (answer, error) {
		f, ok := of.(figures)
		if !ok || f.point == nil && f.runs == nil {
			return answer{}, errors.New("it takes a run, a curve of one point, a point, or a cell")
		}
		to := answer{isBlock: true, From: []*Record{f.of}}
		if f.of.Pending() {
			to.Pending, to.Figure = true, "Not measured yet."
			return to, nil
		}
		c, err := f.opened()
		if err = cmp.Or(f.wrong, err); err == nil {
			err = show(c, &to)
		}
		return to, err
	}
}

// spread is a mean over repeats and the standard deviation of a single run.
type spread struct {
	mean, deviation float64
	n               int
}

// over computes a figure's spread over the runs; it skips runs without the figure (NaN).
func (c *condition) over(figure func(r *chart.Run) float64) (s spread) {
	var values []float64
	for _, r := range c.runs {
		if v := figure(r); !math.IsNaN(v) {
			values = append(values, v)
			s.mean += v
		}
	}
	if s.n = len(values); s.n == 0 {
		return s
	}
	s.mean /= float64(s.n)
	for _, v := range values {
		s.deviation += (v - s.mean) * (v - s.mean)
	}
	s.deviation = math.Sqrt(s.deviation / float64(max(s.n-1, 1)))
	return s
}

// formatted returns it as 465 ± 12 µs; "–" if nothing was measured.
func (s spread) formatted(format func(float64) string) string {
	switch s.n {
	case 0:
		return "–"
	case 1:
		return format(s.mean)
	}
	// The deviation has the mean's unit and decimals.
	text := format(s.mean)
	figure := text[:len(text)-len(strings.TrimLeft(text, "0123456789."))]
	v, err := strconv.ParseFloat(figure, 64)
	if err != nil || v == 0 || strings.HasPrefix(text[len(figure):], ",") {
		return text + " ± " + format(s.deviation)
	}
	_, decimals, _ := strings.Cut(figure, ".")
	return figure + " ± " + strconv.FormatFloat(s.deviation*v/s.mean, 'f', len(decimals), 64) + text[len(figure):]
}

// sum adds up a figure over the runs.
func (c *condition) sum(figure func(r *chart.Run) float64) float64 {
	total := 0.0
	for _, r := range c.runs {
		total += figure(r)
	}
	return total
}

// Figures of a run, for the functions above; NaN is unknown.

func elapsed(r *chart.Run) float64       { return r.ElapsedS }
func answers(r *chart.Run) float64       { return float64(r.Latency.Response.Count) }
func waited(r *chart.Run) float64        { return r.Latency.Response.MeanNs * answers(r) }
func bytesIn(r *chart.Run) float64       { return float64(r.Bytes.Read) }
func finished(r *chart.Run) float64      { return float64(r.Requests.Completed) }
func perSecond(r *chart.Run) float64     { return r.Rate.CompletedPerS }
func readPerSecond(r *chart.Run) float64 { return over(bytesIn(r), r.ElapsedS) }
func generatorCores(r *chart.Run) float64 {
	return over(float64(r.Generator.UserNs+r.Generator.SystemNs)/1e9, r.ElapsedS)
}

// slots returns the concurrency of a closed loop; NaN in an open one.
func slots(r *chart.Run) float64 {
	if r.Load.Mode != "closed" {
		return math.NaN()
	}
	return float64(r.Load.Connections) * float64(max(r.Load.Pipelining, 1))
}

// inFlight applies Little's law: rate × mean response time.
func inFlight(r *chart.Run) float64 { return over(waited(r)/1e9, r.ElapsedS) }

// serverCores returns CPU time divided by the window.
func serverCores(r *chart.Run) float64 {
	if r.Subject == nil {
		return math.NaN()
	}
	total := 0.0
	for _, p := range r.Subject.Processes {
		total += float64(p.CPUNs)
	}
	return over(total/1e9, r.ElapsedS)
}

// over returns a ratio; NaN if the divisor is 0.
func over(a, b float64) float64 {
	if !(b > 0) {
		return math.NaN()
	}
	return a / b
}

// quantileNs returns a quantile of the response time, from its histogram.
func quantileNs(q float64) func(r *chart.Run) float64 {
	return func(r *chart.Run) float64 {
		h := r.Response
		if h == nil || h.Count() == 0 {
			return math.NaN()
		}
		return float64(h.Quantile(q))
	}
}
