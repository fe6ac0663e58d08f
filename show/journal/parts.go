package journal

import (
	"bytes"
	"cmp"
	"fmt"
	"maps"
	"slices"
	"strings"

	"ceiling/experiment/plan"
	"ceiling/record"
	"ceiling/show/importer"
	"ceiling/show/page"
	"ceiling/verdict/prose"
)

// Figures of the parts of a plan's answer.

// partOf returns a plan of the entry and a part of its answer, both empty if it is still to be run.
func partOf[T any](e *Entry, name, what string, of func(*record.Plan) *T) (source, *T, error) {
	r, err := e.planNamed(name)
	switch {
	case err != nil:
		return source{}, nil, err
	case r.Pending():
		return source{of: r}, new(T), nil
	case of(r.Plan) == nil:
		return source{}, nil, lacks(r.Plan, what)
	}
	return source{of: r}, of(r.Plan), nil
}

// having returns the elements of a list that have all words among their own.
func having[T any](list []T, own func(*T) []string, words []string) (found []*T) {
	for i := range list {
		if !slices.ContainsFunc(words, func(w string) bool { return !slices.Contains(own(&list[i]), w) }) {
			found = append(found, &list[i])
		}
	}
	return found
}

// figures returns those of all its runs; Errors is a share, Run has those of its first run.
func (c condition) figures() figures {
	p := c.point
	by := c.quantiles(p.Held())
	maps.Copy(by, map[string]any{
		"Rate": c.between(kindPerS, p.PerS, true), "TargetRate": c.positive(kindPerS, p.TargetPerS),
		"ServerCPU":    c.between(kindNs, p.ServerCPUNs, p.ServerCPUNs.Mid > 0),
		"GeneratorCPU": c.between(kindNs, p.GeneratorCPUNs, p.GeneratorCPUNs.Mid > 0),
		"Errors":       c.share(p.BadShare), "Outcome": c.says(string(p.Outcome)), "Run": c.firstRun,
	})
	return figures{c, by}
}

func (c condition) firstRun() (figures, error) {
	switch {
	case c.of.Pending():
		return runOf(c.of), nil
	case c.wrong != nil:
		return figures{}, c.wrong
	case len(c.point.RunIDs) == 0:
		return figures{}, errNoRuns
	}
	r, err := c.of.member(c.point.RunIDs[0])
	if err != nil {
		return figures{}, err
	}
	return runOf(r), nil
}

// wordsOf are the parts of a curve's name.
func wordsOf(c *record.Curve) []string { return []string{c.Server, c.Mix, prose.Fixed(c)} }

// curve finds a curve by words that distinguish it: its server, its mix, or a fixed factor.
func (e *Entry) curve(name string, words ...string) (figures, error) {
	s, sweep, err := partOf(e, name, "curves", func(p *record.Plan) *record.Sweep { return p.Sweep })
	if err != nil {
		return figures{}, err
	}
	if s.of.Pending() {
		return curveOf(s, new(record.Curve)), nil
	}
	found := having(sweep.Curves, wordsOf, words)
	var known []string
	for i := range sweep.Curves {
		known = append(known, wordsOf(&sweep.Curves[i])...)
	}
	slices.Sort(known)
	known = slices.Compact(known)
	switch {
	case len(found) == 1:
		return curveOf(s, found[0]), nil
	case len(found) > 1:
		return figures{}, fmt.Errorf("%d curves are called so; say which by its server, mix or what was fixed: %s", len(found), strings.Join(known, ", "))
	}
	for _, w := range words {
		if !slices.Contains(known, w) {
			return figures{}, fmt.Errorf("%s has no curve %q%s", name, clip(w), nearTo(w, known))
		}
	}
	return figures{}, fmt.Errorf("%s has no curve that is all of these", name)
}

// curveOf returns the figures of a curve, and of its point if it has one. Knee is the load beyond
// which more load no longer helps, At returns the point of a load.
func curveOf(s source, c *record.Curve) figures {
	var loads []string
	for i := range c.Points {
		loads = append(loads, fmt.Sprint(c.Points[i].X))
	}
	name := strings.TrimSpace(c.Server + " " + c.Mix)
	if fixed := prose.Fixed(c); fixed != "" {
		name += ", " + fixed
	}
	own := condition{source: s, point: new(record.CurvePoint), name: name}
	if len(c.Points) == 1 {
		own.point = &c.Points[0]
	} else {
		own.wrong = fmt.Errorf("the curve has %d points; say which by its load, as in (C.At 64).Rate: %s", len(c.Points), strings.Join(loads, ", "))
	}
	out, knee := own.figures(), cmp.Or(c.Knee, new(record.Knee))
	out.by["Says"], out.by["Bottleneck"] = s.says(prose.Text(c.Says)), s.says(string(c.Bottleneck))
	out.by["Knee"] = s.positive(kindCount, knee.High)
	out.by["At"] = func(x float64) (figures, error) {
		at := condition{source: s, point: new(record.CurvePoint), name: name + fmt.Sprintf(", %s %v", c.Over, x)}
		if i := slices.IndexFunc(c.Points, func(p record.CurvePoint) bool { return p.X == x }); i >= 0 {
			at.point = &c.Points[i]
		} else if !s.of.Pending() {
			return figures{}, fmt.Errorf("the curve has no point at %v; there is %s", x, strings.Join(loads, ", "))
		}
		return at.figures(), nil
	}
	return out
}

// resource returns the figures of one resource of a proof: how strongly throughput follows it, and
// how much of it remained.
func (e *Entry) resource(name, resource string) (figures, error) {
	s, proof, err := partOf(e, name, "resources", func(p *record.Plan) *record.Proof { return p.Proof })
	if err != nil {
		return figures{}, err
	}
	r, err := named(s, proof.Resources, name+" has no", resource, func(r record.Elasticity) string { return r.Resource })
	return figures{condition{source: s}, map[string]any{"Elasticity": s.between(kindTwo, r.Elasticity, true), "Left": s.share(r.Left)}}, err
}

// metric returns the figures of one metric of a comparison: its two values, and B relative to A.
func (e *Entry) metric(name, metric string) (figures, error) {
	s, comparison, err := partOf(e, name, "metrics", func(p *record.Plan) *record.Comparison { return p.Comparison })
	if err != nil {
		return figures{}, err
	}
	c, err := named(s, comparison.Changes, name+" has no", metric, func(c record.Change) string { return c.Metric })
	k := kindPerS
	if c.Unit == "ns" {
		k = kindNs
	}
	return figures{condition{source: s}, map[string]any{"A": s.number(k, c.A, true), "B": s.number(k, c.B, true),
		"Change": s.between(kindChange, c.Relative, true)}}, err
}

// cell finds a combination of levels of a factorial experiment by their names.
func (e *Entry) cell(name string, levels ...string) (figures, error) {
	s, f, err := partOf(e, name, "cells", func(p *record.Plan) *record.Factorial { return p.Factorial })
	if err != nil {
		return figures{}, err
	}
	found := having(f.Cells, func(c *record.FactorialCell) []string { return labelsOf(f, c.Levels) }, levels)
	at := condition{source: s, point: new(record.CurvePoint), name: strings.Join(levels, ", ")}
	cell, p50 := new(record.FactorialCell), record.Estimate{}
	if len(found) == 1 {
		cell = found[0]
		*at.point, p50 = plan.CellPoint(s.of.Plan.Runs, cell.Levels)
		at.point.PerS, at.point.ServerCPUNs = cell.PerS, cell.ServerCPUNs
		l := s.of.Plan.Experiment.Cell(cell.Levels).Link
		rate, err := l.BitsPerS()
		if err != nil {
			return figures{}, err
		}
		at.linkBits = float64(rate)
	} else if !s.of.Pending() {
		return figures{}, fmt.Errorf("%d cells of %s have these levels; name one level of each factor: %s", len(found), name, levelsOf(f))
	}
	out := at.figures()
	out.by["P50"], out.by["P99"] = s.between(kindNs, p50, p50.Mid > 0), s.between(kindNs, cell.P99Ns, cell.P99Ns.Mid > 0)
	out.by["Bottleneck"] = s.says(string(cell.Bottleneck)) // that of most of its runs
	return out, nil
}

// effect finds the changes by a factor's level, relative to the factor's first, over all others, or,
// with a second factor and one of its levels, at that level.
func (e *Entry) effect(name, factor, level string, given ...string) (figures, error) {
	s, f, err := partOf(e, name, "cells", func(p *record.Plan) *record.Factorial { return p.Factorial })
	if err != nil {
		return figures{}, err
	}
	if len(given) != 0 && len(given) != 2 {
		return figures{}, fmt.Errorf("an effect takes a factor and its level, and where needed a second factor and the level at which the effect is wanted")
	}
	changes := map[string]record.Estimate{} // by metric
	for i := range f.Effects {
		x := &f.Effects[i]
		if x.Factor != factor || levelName(f, factor, x.Level) != level {
			continue
		}
		switch {
		case len(given) == 0 && x.With == "":
			changes[x.Metric] = x.Relative
		case len(given) == 0 || x.With != given[0] || len(x.Given) < 2:
		case given[1] == levelName(f, x.With, 0):
			changes[x.Metric] = x.Given[0]
		case given[1] == levelName(f, x.With, x.WithLevel):
			changes[x.Metric] = x.Given[1]
		}
	}
	if len(changes) == 0 && !s.of.Pending() {
		return figures{}, fmt.Errorf("%s has no effect of %s at level %s; its factors, in the order of their effects: %s", name, clip(factor), clip(level), levelsOf(f))
	}
	by := map[string]any{}
	for figure, metric := range map[string]string{"Rate": "rps", "P99": "p99", "ServerCPU": "server_cpu"} {
		change, known := changes[metric]
		by[figure] = s.between(kindChange, change, known)
	}
	return figures{condition{source: s}, by}, nil
}

func levelName(f *record.Factorial, factor string, level int) string {
	for _, one := range f.Factors {
		if one.Name == factor && level < len(one.Levels) {
			return one.Levels[level]
		}
	}
	return ""
}

// labelsOf names the levels of a cell, each also with its factor: gzip, body=gzip.
func labelsOf(f *record.Factorial, levels []int) (names []string) {
	for i, at := range levels {
		name := levelName(f, f.Factors[i].Name, at)
		names = append(names, name, f.Factors[i].Name+"="+name)
	}
	return names
}

// levelsOf lists the factors with their levels.
func levelsOf(f *record.Factorial) string {
	var list []string
	for _, one := range f.Factors {
		list = append(list, one.Name+" ("+strings.Join(one.Levels, ", ")+")")
	}
	return strings.Join(list, ", ")
}

// reported returns what another tool's output says, a file in the entry's folder. Its figures are
// marked with the tool, and have no record: a tool prints neither what it observed nor how.
func (e *Entry) reported(file string) (figures, error) {
	text, err := e.read(file, e.functions()["reported"].usage)
	if err != nil {
		return figures{}, err
	}
	r, err := importer.Read(bytes.NewReader(text))
	if err != nil {
		return figures{}, fmt.Errorf("%s: %w", clip(file), err)
	}
	number := func(k *form, v float64, known bool) answer {
		if !known {
			return answer{wrong: fmt.Errorf("%s does not report it", r.Tool)}
		}
		return answer{Figure: k.format(v), Interval: "(reported by " + page.Shown(r.Tool) + ")", kind: k, number: v, low: v, high: v}
	}
	by := map[string]any{"Rate": number(kindPerS, r.CompletedPerS, r.CompletedPerS > 0)}
	for name, q := range map[string]float64{"P50": .5, "P75": .75, "P90": .9, "P95": .95, "P99": .99, "P999": .999} {
		ns, known := r.Quantile(q)
		by[name] = number(kindNs, float64(ns), known)
	}
	return figures{by: by}, nil
}
