package journal

import (
	"fmt"

	"ceiling/show/importer"
	"ceiling/show/page"
)

// reported returns what another tool's output says, a file in the entry's folder. Its figures are
// marked with the tool, and have no record: a tool prints neither what it observed nor how.
func (e *Entry) reported(file string) (figures, error) {
	f, err := e.open(file, e.functions()["reported"].usage)
	if err != nil {
		return figures{}, err
	}
	defer f.Close()
	r, err := importer.Read(f)
	if err != nil {
		return figures{}, fmt.Errorf("%s: %w", clip(file), err)
	}
	number := func(k kind, v float64, known bool) answer {
		if !known {
			return answer{wrong: fmt.Errorf("%s does not report it", r.Tool)}
		}
		return answer{short: k.format(v), text: k.format(v) + " (reported by " + page.Shown(r.Tool) + ")", kind: k, number: v, low: v, high: v}
	}
	by := map[string]any{
		"Rate": number(kindPerS, r.CompletedPerS, r.CompletedPerS > 0), "Answered": number(kindCount, float64(r.Requests), true),
		"Failed":      number(kindCount, float64(r.Failed()), true),
		"Connections": number(kindCount, float64(r.Connections), r.Connections > 0), "Reporter": answer{text: r.Tool, short: r.Tool},
	}
	for name, ns := range map[string]*int64{"Mean": r.MeanNs, "Min": r.MinNs, "Max": r.MaxNs} {
		by[name] = number(kindNs, 0, false)
		if ns != nil {
			by[name] = number(kindNs, float64(*ns), true)
		}
	}
	for name, q := range map[string]float64{"P50": .5, "P75": .75, "P90": .9, "P95": .95, "P99": .99, "P999": .999} {
		ns, known := r.Quantile(q)
		by[name] = number(kindNs, float64(ns), known)
	}
	return figures{by: by}, nil
}
