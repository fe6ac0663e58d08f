package journal

import (
	"cmp"
	"errors"
	"math"
	"slices"
	"strconv"
	"strings"

	"ceiling/show/chart"
)

// measured is the runs of one condition, each with its full record.
type measured struct {
	of *Record
	// name distinguishes it from the others of its record; "" for a single run.
	name string
	// linkBits is the rate of the experiment's own link, bits per second; 0: none.
	linkBits float64
	runs     []*chart.Run
}

// about answers with what show makes of a run, or of all counted runs of a point.
func about(of any, show func(m measured, to *answer) error) (answer, error) {
	f, ok := of.(figures)
	if !ok || f.runs == nil {
		return answer{}, errors.New("it takes a run, a curve of one point, a point, or a cell")
	}
	to := answer{isBlock: true, of: []*Record{f.of}}
	if f.of.Pending() {
		to.pending, to.text = true, "Not measured yet."
		return to, nil
	}
	m, err := f.runs()
	if err = cmp.Or(f.wrong, err); err == nil {
		err = show(m, &to)
	}
	return to, err
}

// spread is a mean over repeats and the standard deviation of a single run.
type spread struct {
	mean, deviation float64
	n               int
}

// over computes a figure's spread over the runs; it skips runs without the figure (NaN).
func (m *measured) over(figure func(r *chart.Run) float64) spread {
	var values []float64
	for _, r := range m.runs {
		values = append(values, figure(r))
	}
	return spreadOf(values)
}

func spreadOf(values []float64) (s spread) {
	values = slices.DeleteFunc(values, math.IsNaN)
	if s.n = len(values); s.n == 0 {
		return s
	}
	for _, v := range values {
		s.mean += v
	}
	s.mean /= float64(s.n)
	for _, v := range values {
		s.deviation += (v - s.mean) * (v - s.mean)
	}
	if s.n > 1 {
		s.deviation = math.Sqrt(s.deviation / float64(s.n-1))
	}
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
func (m *measured) sum(figure func(r *chart.Run) float64) float64 {
	total := 0.0
	for _, r := range m.runs {
		total += figure(r)
	}
	return total
}

// same reports whether a figure is the same in all runs.
func (m *measured) same(figure func(r *chart.Run) float64) bool {
	first := figure(m.runs[0])
	return !slices.ContainsFunc(m.runs, func(r *chart.Run) bool { return figure(r) != first })
}

// Figures of a run, for the functions above; NaN is unknown.

func seconds(r *chart.Run) float64       { return r.ElapsedS }
func answers(r *chart.Run) float64       { return float64(r.Latency.Response.Count) }
func waited(r *chart.Run) float64        { return r.Latency.Response.MeanNs * answers(r) }
func bytesIn(r *chart.Run) float64       { return float64(r.Bytes.Read) }
func finished(r *chart.Run) float64      { return float64(r.Requests.Completed) }
func perSecond(r *chart.Run) float64     { return r.Rate.CompletedPerS }
func readPerSecond(r *chart.Run) float64 { return over(bytesIn(r), r.ElapsedS) }

// slots returns the concurrency of a closed loop; NaN in an open one.
func slots(r *chart.Run) float64 {
	if r.Load.Mode != "closed" {
		return math.NaN()
	}
	return float64(r.Load.Connections) * float64(max(r.Load.Pipelining, 1))
}

// inFlight applies Little's law: rate × mean response time.
func inFlight(r *chart.Run) float64 { return over(waited(r)/1e9, r.ElapsedS) }

// generatorCores and serverCores return CPU time divided by the window.
func generatorCores(r *chart.Run) float64 {
	if used := float64(r.Generator.UserNs + r.Generator.SystemNs); used > 0 {
		return over(used/1e9, r.ElapsedS)
	}
	return over(r.Generator.CPUNsPerRequest/1e9*finished(r), r.ElapsedS)
}

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
