package journal

import (
	"fmt"
	"os"

	"ceiling/show/importer"
	"ceiling/show/page"
)

// reportedFigures are what another tool's output says. They have no record: a tool prints neither
// what it observed nor how.
type reportedFigures struct{ result importer.Result }

// reportedIn reads a tool's output in the entry's folder.
func reportedIn(e *Entry, file string) (*reportedFigures, error) {
	path, err := pathInside(e, file, usages["reported"])
	if err != nil {
		return nil, err
	}
	f, err := os.Open(path)
	if err != nil {
		return nil, err
	}
	defer f.Close()
	r, err := importer.Read(f)
	if err != nil {
		return nil, fmt.Errorf("%s: %w", clip(file), err)
	}
	return &reportedFigures{r}, nil
}

// number returns a figure, marked with the tool that reports it.
func (r *reportedFigures) number(k kind, v float64, known bool) (answer, error) {
	if !known {
		return answer{}, fmt.Errorf("%s does not report it", r.result.Tool)
	}
	a := answer{short: k.format(v), kind: k, number: v, low: v, high: v}
	a.text = a.short + " (reported by " + page.Shown(r.result.Tool) + ")"
	return a, nil
}

func (r *reportedFigures) duration(ns *int64) (answer, error) {
	if ns == nil {
		return r.number(kindNs, 0, false)
	}
	return r.number(kindNs, float64(*ns), true)
}

func (r *reportedFigures) rank(q float64) (answer, error) {
	ns, ok := r.result.Quantile(q)
	return r.number(kindNs, float64(ns), ok)
}

// Rate is complete responses per second, Answered their number, Failed those without a response.
func (r *reportedFigures) Rate() (answer, error) {
	return r.number(kindPerS, r.result.CompletedPerS, r.result.CompletedPerS > 0)
}
func (r *reportedFigures) Answered() (answer, error) {
	return r.number(kindCount, float64(r.result.Requests), true)
}
func (r *reportedFigures) Failed() (answer, error) {
	return r.number(kindCount, float64(r.result.Failed()), true)
}

// Connections is the configured number.
func (r *reportedFigures) Connections() (answer, error) {
	return r.number(kindCount, float64(r.result.Connections), r.result.Connections > 0)
}

// Mean, Min, Max and the quantiles are of the latency that the tool prints.
func (r *reportedFigures) Mean() (answer, error) { return r.duration(r.result.MeanNs) }
func (r *reportedFigures) Min() (answer, error)  { return r.duration(r.result.MinNs) }
func (r *reportedFigures) Max() (answer, error)  { return r.duration(r.result.MaxNs) }
func (r *reportedFigures) P50() (answer, error)  { return r.rank(.5) }
func (r *reportedFigures) P75() (answer, error)  { return r.rank(.75) }
func (r *reportedFigures) P90() (answer, error)  { return r.rank(.9) }
func (r *reportedFigures) P95() (answer, error)  { return r.rank(.95) }
func (r *reportedFigures) P99() (answer, error)  { return r.rank(.99) }
func (r *reportedFigures) P999() (answer, error) { return r.rank(.999) }

// Reporter is the name of the tool.
func (r *reportedFigures) Reporter() (answer, error) {
	return answer{text: r.result.Tool, short: r.result.Tool, kind: kindText}, nil
}
