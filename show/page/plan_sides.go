package page

import (
	"cmp"
	"fmt"
	"math"
	"slices"
	"strings"

	"ceiling/internal/unit"
	"ceiling/record"
	"ceiling/show/chart"
	"ceiling/show/report"
)

// sideNames returns the two sides of a comparison by what distinguishes their servers: "A
// fasthttp" if only that word of the command differs.
func sideNames(c *record.Comparison) (a, b string) {
	x, y := record.Apart(redact(c.A), redact(c.B))
	name := func(side, words string) string { return strings.TrimSpace(side + " " + clip(words, 36)) }
	return name("A", x), name("B", y)
}

// sideBottleneck returns the bottleneck of both sides, or of each: the one that most of its runs
// have.
func sideBottleneck(p *record.Plan) string {
	most := func(side string) string {
		counts, name := map[record.Bottleneck]int{}, record.Bottleneck("")
		for i := range p.Runs {
			m := &p.Runs[i]
			if m.Side == side && !m.Noise && !m.WarmupRun && m.Outcome != record.Invalid {
				if counts[m.Bottleneck]++; counts[m.Bottleneck] > counts[name] {
					name = m.Bottleneck
				}
			}
		}
		return string(name)
	}
	a, b := most("A"), most("B")
	if a == b || a == "" || b == "" {
		return cmp.Or(a, b)
	}
	return "A " + a + ", B " + b
}

// sideForests draws a forest per metric, two side by side: a row per server with a dot per block,
// and the change with its interval in the title.
func sideForests(p *record.Plan) []Block {
	var list []Block
	for i := range p.Comparison.Changes {
		if d, ok := sideForest(p, &p.Comparison.Changes[i]); ok {
			list = append(list, d)
		}
	}
	if half := (len(list) + 1) / 2; len(list) > 1 {
		return []Block{Columns{Of: [][]Block{list[:half], list[half:]}}}
	}
	return list
}

func sideForest(p *record.Plan, c *record.Change) (Drawing, bool) {
	a, b := sideNames(p.Comparison)
	of := chart.Nanoseconds
	if c.Metric == "rps" {
		of = chart.PerSecond
	}
	var rows []chart.Estimated
	for i, side := range []string{"A", "B"} {
		each := blockMeans(p, side, c.Metric)
		if len(each) == 0 {
			return Drawing{}, false
		}
		mid := []float64{c.A, c.B}[i]
		rows = append(rows, chart.Estimated{Name: []string{a, b}[i], Value: changeValue(mid, c.Unit), Mid: mid,
			Low: mid, High: mid, Each: each, Tone: i})
	}
	f, ok := chart.NewForest(report.MetricName(c.Metric)+": "+changeText(c), report.MetricName(c.Metric), of, rows, nil, true)
	f.Says = rowsSay(rows)
	return forestOf("sides-"+strings.ReplaceAll(c.Metric, "_", "-"), f, fmt.Sprintf("%s. Dots: each of %s; line: all of them.",
		upperFirst(c.Decision), unit.Plural(len(rows[0].Each), "block", "blocks"))), ok
}

// blockMeans returns the geometric means of one side's valid runs, block by block.
func blockMeans(p *record.Plan, side, metric string) []float64 {
	sums, counts := map[int]float64{}, map[int]float64{}
	for i := range p.Runs {
		m := &p.Runs[i]
		v := metricOf(m, metric)
		if m.Side != side || m.Noise || m.WarmupRun || m.Outcome == record.Invalid || !(v > 0) {
			continue
		}
		sums[m.Block] += math.Log(v)
		counts[m.Block]++
	}
	var blocks []int
	for block := range counts {
		blocks = append(blocks, block)
	}
	slices.Sort(blocks)
	var list []float64
	for _, block := range blocks {
		list = append(list, math.Exp(sums[block]/counts[block]))
	}
	return list
}

// metricOf returns a run's value of a metric, 0 if it has none.
func metricOf(m *record.Measured, metric string) float64 {
	switch {
	case metric == "rps":
		return m.CompletedPerS
	case metric == "server_cpu":
		return m.ServerCPUNs
	case m.Response.Count == 0:
		return 0
	case metric == "p50":
		return float64(m.Response.P50Ns)
	case metric == "p99":
		return float64(m.Response.P99Ns)
	}
	return 0
}
