package page

import (
	"cmp"
	"fmt"
	"math"
	"slices"

	"ceiling/record"
	"ceiling/show/chart"
	"ceiling/show/report"
	"ceiling/verdict/prose"
)

// proofSection shows how throughput followed each perturbed resource.
func proofSection(p *record.Proof) Section {
	s := Section{ID: "resources", Title: "Sensitivity of throughput to each resource"}
	t := tableOf("Every resource", report.ProofTable(p))
	if d, ok := ElasticityForest(p); ok {
		d.Table = &t
		s.Blocks = append(s.Blocks, d)
	} else {
		s.Blocks = append(s.Blocks, t)
	}
	if len(p.NotTested) > 0 {
		left := Table{Caption: "Not tested", Columns: []Column{{Name: "resource"}, {Name: "why"}}}
		for _, n := range p.NotTested {
			left.Rows = append(left.Rows, []Cell{{Text: n.Resource}, {Text: prose.Text(n.Why)}})
		}
		s.Blocks = append(s.Blocks, left)
	}
	return s
}

func two(v float64) string { return fmt.Sprintf("%.2f", v) }

// ElasticityForest draws the elasticity of throughput for each resource.
func ElasticityForest(p *record.Proof) (Drawing, bool) {
	var rows []chart.Estimated
	row := func(name string, e *record.Estimate, tone int) {
		rows = append(rows, chart.Estimated{Name: name, Value: around(e, two), Mid: e.Mid, Low: e.Low, High: e.High, Tone: tone})
	}
	sorted := slices.Clone(p.Resources) // a tornado chart: the highest elasticity is on top
	slices.SortStableFunc(sorted, func(a, b record.Elasticity) int {
		return cmp.Compare(math.Abs(b.Elasticity.Mid), math.Abs(a.Elasticity.Mid))
	})
	for i := range sorted {
		r := &sorted[i]
		tone := 0
		if r.Resource == p.Proved {
			tone = 1
		}
		row(r.Resource, &r.Elasticity, tone)
	}
	if len(rows) > 1 {
		row("sum of the rates", &p.Sum, 7)
	}
	f, ok := chart.NewForest("Elasticity of throughput", "elasticity", chart.Plain, rows,
		[]chart.Limit{{Name: "unaffected", At: 0}, {Name: "proportional", At: 1}}, false)
	f.Says = rowsSay(rows)
	return forestOf("elasticities", f, "1: throughput falls by the same share as the resource. 0: no effect. The elasticities of all rates add up to 1; concurrency is not a rate."), ok
}
