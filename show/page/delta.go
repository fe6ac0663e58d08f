package page

import (
	"fmt"
	"math"

	"ceiling/internal/stat"
	"ceiling/internal/unit"
	"ceiling/record"
	"ceiling/show/chart"
)

// deltaMethod explains the intervals of a comparison of two runs.
const deltaMethod = "Δ is against the first run. Intervals (95%) are from how each run varied within itself: means of stretches that are long " +
	"enough to be about independent, Welch's t. They exclude run-to-run variation, which is often larger: " +
	"ceiling compare runs both in turns and does. Percentiles have no interval here; the interval of p50 comes from the medians of single intervals."

// confidence of the intervals between runs.
const confidence = .95

// deltas adds a column to the headline figures for each run after the first.
func deltas(t *Table, runs []chart.Run) {
	first := figuresOf(&runs[0])
	for i := range runs[1:] {
		t.Columns = append(t.Columns, Column{Name: "Δ " + runs[i+1].Label, Figure: true})
		for row, f := range figuresOf(&runs[i+1]) {
			if row < len(t.Rows) {
				t.Rows[row] = append(t.Rows[row], Cell{Text: first[row].delta(f)})
			}
		}
	}
}

// headlineFigure is one headline figure as a number, NaN if not measured, and its values per
// interval if a confidence interval can be based on them.
type headlineFigure struct {
	value float64
	rows  []float64
}

// delta returns another run's difference from f, in per cent.
func (f headlineFigure) delta(other headlineFigure) string {
	if !(f.value > 0) || !(other.value > 0) {
		return "–"
	}
	text := unit.Change(other.value/f.value - 1)
	if len(f.rows) == 0 || len(other.rows) == 0 {
		return text
	}
	e, err := stat.TwoRuns(f.rows, other.rows, confidence)
	if err != nil || e.Confidence == 0 {
		return text + " (runs too short for an interval)"
	}
	// The interval is centred on the ratio of the headline figures; its width comes from the
	// intervals' means.
	shift := math.Log(other.value/f.value) - e.Value
	return fmt.Sprintf("%s (%s to %s)", text, unit.Change(stat.Relative(e.Low+shift)), unit.Change(stat.Relative(e.High+shift)))
}

// figuresOf are the numbers of tiles, in the same order.
func figuresOf(run *chart.Run) []headlineFigure {
	response, lag := &run.Latency.Response, &run.Latency.Lag
	known := func(count uint64, v float64) headlineFigure {
		if count == 0 {
			v = math.NaN()
		}
		return headlineFigure{value: v}
	}
	q := func(of *record.Quantiles, ns int64) headlineFigure { return known(of.Count, float64(ns)) }
	rate, half := known(run.Requests.Completed, run.Rate.CompletedPerS), q(response, response.P50Ns)
	rate.rows = windowRows(run, func(r *record.LoadRow) float64 { return float64(r.Completed) / float64(r.WidthNs) })
	half.rows = windowRows(run, func(r *record.LoadRow) float64 {
		if r.MaxNs <= 0 { // no responses
			return math.NaN()
		}
		return float64(r.P50Ns)
	})
	server := headlineFigure{value: math.NaN()}
	if run.Subject != nil {
		server.value = run.Subject.CPUNsPerRequest
	}
	workers := uint64(len(run.Generator.Workers))
	return []headlineFigure{
		rate, half, q(response, response.P99Ns), q(response, response.P999Ns), q(response, response.MaxNs), q(lag, lag.P99Ns),
		known(run.Requests.Completed+run.Requests.Failed, float64(run.Requests.Failed+statusErrors(run))),
		{value: float64(run.Bytes.Read) / run.ElapsedS}, server, known(workers, run.Generator.CPUNsPerRequest),
		known(workers, run.Generator.BusiestWorker), {value: run.Headroom()},
	}
}

// windowRows returns the values of the window's intervals, without NaNs.
func windowRows(run *chart.Run, of func(*record.LoadRow) float64) []float64 {
	if run.Series == nil {
		return nil
	}
	var values []float64
	for i := range run.Series.Load {
		r := &run.Series.Load[i]
		if v := of(r); !r.Warmup && r.WidthNs > 0 && !math.IsNaN(v) {
			values = append(values, v)
		}
	}
	return values
}
