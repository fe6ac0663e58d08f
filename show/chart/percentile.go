package chart

import (
	"fmt"
	"math"

	"ceiling/internal/hist"
	"ceiling/internal/unit"
	"ceiling/record"
)

// staircaseMost is the number of steps of a percentile line: more than a screen has pixels for.
const staircaseMost = 500

// LatencyNames are the three latencies of a request.
func LatencyNames() []string { return []string{"response", "service", "lag"} }

// Latencies returns the histogram of one of LatencyNames, nil if the record has none, and its
// exact quantiles.
func (r *Run) Latencies(of string) (*hist.Hist, *record.Quantiles) {
	switch of {
	case "service":
		return r.Service, &r.Latency.Service
	case "lag":
		return r.Lag, &r.Latency.Lag
	}
	return r.Response, &r.Latency.Response
}

// Percentiles plots latency by percentile on the HDR axis: response, service and lag of one run.
// ok is false if it has none of them.
func Percentiles(run *Run) (p Plot, ok bool) {
	p.Title = "Latency by percentile"
	for i, of := range LatencyNames() {
		if h, exact := run.Latencies(of); h != nil && h.Count() > 0 {
			p.Groups = append(p.Groups, staircase(of, h, exact.MaxNs, i, of == "service"))
		}
	}
	return p, p.percentiles()
}

// PercentilesOf plots one latency of several runs: "response", "service" or "lag".
func PercentilesOf(of string, runs []Run) (p Plot, ok bool) {
	p.Title = map[string]string{"response": "Response time by percentile", "service": "Service time by percentile"}[of]
	if p.Title == "" {
		p.Title = "Lag by percentile"
	}
	for i := range runs {
		if h, exact := runs[i].Latencies(of); h != nil && h.Count() > 0 {
			p.Groups = append(p.Groups, staircase(runs[i].Label, h, exact.MaxNs, i, i >= Tones))
		}
	}
	return p, p.percentiles()
}

// percentiles adds the axes.
func (p *Plot) percentiles() bool {
	low, high, ok := bounds(p.Groups)
	if !ok {
		return false
	}
	most := 0.0
	for i := range p.Groups {
		g := &p.Groups[i]
		most = max(most, g.To[len(g.To)-1])
		p.Says += fmt.Sprintf("%s up to %s. ", g.Name, unit.FormatNs(int64(g.Lines[0].Mid[g.Points()-1])))
	}
	p.X, p.Y = tailAxis(most), decades("latency", Nanoseconds, low, high)
	return true
}

// staircase draws a histogram as steps: each bucket is as wide as its share of the values.
// Buckets that would share a pixel column are merged into one step at the largest of their
// values. exactMax is the largest value if the record has it to the nanosecond. Dashes keep
// response and service distinguishable where they coincide.
func staircase(name string, h *hist.Hist, exactMax int64, tone int, dashed bool) Group {
	g := Group{Name: name, Each: 1, Lines: []Line{{Name: name, Tone: tone % Tones, Dashed: dashed}}}
	line := &g.Lines[0]
	n := float64(h.Count())
	place := func(seen uint64) float64 { // the last value's 1/(1-q) is infinite: it is drawn at n
		return n / max(n-float64(seen), 1)
	}
	columns := staircaseMost / max(math.Log(n), 1)
	column, share := -1, 0
	var seen uint64
	h.Each(func(low, high int64, count uint64) {
		g.Rows++
		from := place(seen)
		seen += count
		value := float64(min(max(low+(high-low+1)/2, h.Min()), h.Max()))
		if seen == h.Count() {
			if value = float64(h.Max()); exactMax > 0 {
				value = min(value, float64(exactMax))
			}
		}
		to := place(seen)
		if c := int(math.Log(to) * columns); c != column || to == from {
			g.From, g.To = append(g.From, from), append(g.To, to)
			line.Mid = append(line.Mid, value)
			column, share = c, 0
		}
		share++
		g.Each = max(g.Each, share)
		last := len(g.To) - 1
		g.To[last], line.Mid[last] = to, value
	})
	return g
}
