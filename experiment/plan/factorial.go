package plan

import (
	"math"
	"math/rand/v2"
	"slices"
	"strings"

	"ceiling/experiment/spec"
	"ceiling/internal/stat"
	"ceiling/record"
)

// FactorialBlocks returns the number of blocks of a factorial experiment: as in a comparison 2¼
// times the minimum that can exclude "no effect" for all effects jointly, or the configured
// repeats.
func FactorialBlocks(e *spec.Experiment) int {
	if e.Repeats > 0 {
		return e.Repeats
	}
	return stat.LeastBlocks(compareConfidence, factorialComparisons(e)) * 9 / 4
}

// factorialComparisons returns how many effects are judged together, known before measuring.
func factorialComparisons(e *spec.Experiment) int {
	var cells [][]int
	for _, c := range e.Cells() {
		cells = append(cells, c.Levels)
	}
	n := 0
	for _, k := range contrastsOf(levelCounts(e)) {
		if len(k.terms(cells)) > 0 {
			n++
		}
	}
	return max(n*len(factorialMetrics(e)), 1)
}

// factorialMetrics are those of a comparison without p50, which in a closed loop follows the
// rate.
func factorialMetrics(e *spec.Experiment) []compareMetric {
	open := slices.ContainsFunc(e.Cells(), func(c spec.Cell) bool { return !c.Rate.IsZero() })
	list := slices.DeleteFunc(allMetrics(), func(m compareMetric) bool { return m.name == metricP50 || open && m.name == metricRPS })
	if w := e.Factorial.Within; w > 0 {
		for i := range list {
			list[i].margin = w
		}
	}
	return list
}

func levelCounts(e *spec.Experiment) []int {
	var counts []int
	for i := range e.Factorial.Factors {
		counts = append(counts, len(e.Factorial.Factors[i].Levels))
	}
	return counts
}

// spellFactorial runs every cell once per block, in random order. Every run gets a fresh server,
// so that no cell affects the next, and variation between processes is part of a run's noise. The
// first run does not count: the machine was idle before it.
func spellFactorial(e *spec.Experiment) []record.Step {
	cells := e.Cells()
	if len(cells) == 0 {
		return nil
	}
	chance := rand.New(rand.NewPCG(e.Seed, 0xFAC7))
	first := factorialStep(&cells[0])
	first.WarmupRun = true
	steps := []record.Step{first}
	for block := range FactorialBlocks(e) {
		for _, i := range chance.Perm(len(cells)) {
			s := factorialStep(&cells[i])
			s.Block, s.Repeat = block+1, block+1
			steps = append(steps, s)
		}
	}
	return steps
}

func factorialStep(c *spec.Cell) record.Step {
	return record.Step{Server: c.Server, Condition: c.Condition, Cell: c.Levels, Restart: true}
}

// contrast is a comparison: a level of a factor with its first, and for an interaction also a
// level of a second factor with its first.
type contrast struct {
	factor, level int
	with          int // -1: a main effect
	withLevel     int
}

// contrastsOf returns the effects of factors with that many levels: all main effects, then every
// pair of factors.
func contrastsOf(levels []int) []contrast {
	var all []contrast
	for f := range levels {
		for l := 1; l < levels[f]; l++ {
			all = append(all, contrast{f, l, -1, 0})
		}
	}
	for f := range levels {
		for g := f + 1; g < len(levels); g++ {
			for l := 1; l < levels[f]; l++ {
				for m := 1; m < levels[g]; m++ {
					all = append(all, contrast{f, l, g, m})
				}
			}
		}
	}
	return all
}

// term is one estimate of a contrast within a block: a signed sum of the logarithms of some
// cells.
type term struct{ plus, minus []int }

// terms are the ways to estimate a contrast from some cells: for every setting of the other
// factors with all required cells, two for a main effect and four for an interaction. For a full
// grid of two levels each, their mean is the textbook contrast (Box, Hunter, Hunter: Statistics
// for Experimenters, 2005, ch. 5).
func (k contrast) terms(cells [][]int) []term {
	at := func(like []int, level, withLevel int) int {
		want := slices.Clone(like)
		want[k.factor] = level
		if k.with >= 0 {
			want[k.with] = withLevel
		}
		return slices.IndexFunc(cells, func(c []int) bool { return slices.Equal(c, want) })
	}
	var list []term
	for i, c := range cells {
		if c[k.factor] != 0 || k.with >= 0 && c[k.with] != 0 {
			continue
		}
		t := term{plus: []int{at(c, k.level, 0)}, minus: []int{i}}
		if k.with >= 0 {
			t = term{plus: []int{i, at(c, k.level, k.withLevel)}, minus: []int{at(c, k.level, 0), at(c, 0, k.withLevel)}}
		}
		if !slices.Contains(slices.Concat(t.plus, t.minus), -1) {
			list = append(list, t)
		}
	}
	return list
}

// given returns the effects of the contrast's factor at a level of the second one.
func (k contrast) given(withLevel int, cells [][]int) []term {
	main := contrast{k.factor, k.level, -1, 0}
	return slices.DeleteFunc(main.terms(cells), func(t term) bool { return cells[t.minus[0]][k.with] != withLevel })
}

// meanOf returns the mean of the terms in one block, of the cells' logarithms; false if a cell is
// missing.
func meanOf(terms []term, logs []float64) (float64, bool) {
	sum := 0.0
	for _, t := range terms {
		for _, i := range t.plus {
			sum += logs[i]
		}
		for _, i := range t.minus {
			sum -= logs[i]
		}
	}
	return sum / float64(len(terms)), !math.IsNaN(sum) && len(terms) > 0
}

// factorialRuns are the counted runs of an experiment, by block and cell.
type factorialRuns struct {
	cells  [][]int
	blocks [][]*record.Measured // per block, the run of every cell; nil: not made yet
}

// factorialBlocks sorts the runs. A block that lacks a run is still in progress.
func factorialBlocks(e *spec.Experiment, runs []record.Measured) factorialRuns {
	var r factorialRuns
	for _, c := range e.Cells() {
		r.cells = append(r.cells, c.Levels)
	}
	byNumber := map[int][]*record.Measured{}
	for i := range runs {
		m := &runs[i]
		at := slices.IndexFunc(r.cells, func(c []int) bool { return slices.Equal(c, m.Cell) })
		if m.WarmupRun || m.Block == 0 || at < 0 {
			continue
		}
		if byNumber[m.Block] == nil {
			byNumber[m.Block] = make([]*record.Measured, len(r.cells))
		}
		byNumber[m.Block][at] = m
	}
	for n := 1; byNumber[n] != nil; n++ {
		if !slices.Contains(byNumber[n], nil) {
			r.blocks = append(r.blocks, byNumber[n])
		}
	}
	return r
}

// CellPoint summarises the runs of a cell, given by its levels, as a point of a curve; p50 is the
// median of their medians. The runs need no histograms.
func CellPoint(runs []record.Measured, levels []int) (point record.CurvePoint, p50 record.Estimate) {
	var own []*record.Measured
	var medians []float64
	for i := range runs {
		m := &runs[i]
		if m.WarmupRun || m.Block == 0 || !slices.Equal(m.Cell, levels) {
			continue
		}
		own = append(own, m)
		if m.Outcome != record.Invalid && m.Response.Count > 0 {
			medians = append(medians, float64(m.Response.P50Ns))
		}
	}
	if len(own) == 0 {
		return point, p50
	}
	return curvePoint(0, own), median(medians)
}

// setBack returns the setting that another program changed back during a run; nil: none.
func setBack(m *record.Measured) *record.Tuned {
	if i := slices.IndexFunc(m.Tuned, func(s record.Tuned) bool { return s.Effect == record.TuningSetBack }); i >= 0 {
		return &m.Tuned[i]
	}
	return nil
}

// counts reports whether a run counts for a metric, and why not.
func counts(m *record.Measured, metric *compareMetric) (why []record.Statement, is bool) {
	switch {
	case m.Run == "":
		return []record.Statement{record.State("factorial.not-made", record.Values{"why": m.NotRun})}, false
	case m.Completed == 0 || m.BadShare > mostly:
		return []record.Statement{record.State("factorial.errors", record.Values{"share": m.BadShare})}, false
	case setBack(m) != nil:
		s := setBack(m)
		return []record.Statement{record.State("factorial.set-back", record.Values{"setting": s.What, "evidence": s.Evidence})}, false
	case m.Outcome == record.Invalid && !(metric.name == metricCPU && paceOfGenerator(m)):
		return m.Because, false
	}
	if _, missing := metric.of([]*record.Measured{m}); !missing.IsZero() {
		return []record.Statement{missing}, false
	}
	return nil, true
}

// logs of a metric, by block: NaN if a run does not count, and in all blocks for a cell more than
// half of whose runs do not.
func (r *factorialRuns) logs(metric *compareMetric) (logs [][]float64, leftOut []bool) {
	missing := make([]int, len(r.cells))
	for _, b := range r.blocks {
		row := make([]float64, len(r.cells))
		for i, m := range b {
			row[i] = math.NaN()
			if _, is := counts(m, metric); is {
				v, _ := metric.of([]*record.Measured{m})
				row[i] = math.Log(v)
			} else {
				missing[i]++
			}
		}
		logs = append(logs, row)
	}
	leftOut = make([]bool, len(r.cells))
	for i, n := range missing {
		leftOut[i] = 2*n > len(r.blocks)
	}
	return logs, leftOut
}

// estimateTerms estimates some terms from the blocks.
func estimateTerms(terms []term, logs [][]float64, comparisons int) (stat.Difference, []float64, bool) {
	var perBlock []float64
	for _, row := range logs {
		if v, ok := meanOf(terms, row); ok {
			perBlock = append(perBlock, v)
		}
	}
	if len(perBlock) == 0 {
		return stat.Difference{}, nil, false
	}
	d, err := stat.Paired(perBlock, compareConfidence, comparisons)
	return d, perBlock, err == nil
}

// concludeFactorial judges every effect.
func concludeFactorial(p *record.Plan) {
	e := &p.Experiment
	r := factorialBlocks(e, p.Runs)
	f := &record.Factorial{Blocks: len(r.blocks), Confidence: compareConfidence, Comparisons: factorialComparisons(e),
		Cells: []record.FactorialCell{}, Effects: []record.Effect{}}
	p.Factorial, p.Exit = f, exitInvalid
	for i := range e.Factorial.Factors {
		levels := record.FactorLevels{Name: e.Factorial.Factors[i].Name}
		for l := range e.Factorial.Factors[i].Levels {
			levels.Levels = append(levels.Levels, e.Factorial.Factors[i].Label(l))
		}
		f.Factors = append(f.Factors, levels)
	}
	metrics := factorialMetrics(e)
	for i := range r.cells {
		f.Cells = append(f.Cells, r.cell(i, metrics))
	}
	for i := range metrics {
		m := &metrics[i]
		logs, leftOut := r.logs(m)
		counted, at := counting(r.cells, leftOut)
		logs = dropOutliers(columns(logs, at), stat.LeastBlocks(compareConfidence, f.Comparisons))
		if out := len(r.blocks) - len(logs); out > 0 {
			f.Caveats = append(f.Caveats, record.State("factorial.disturbed", record.Values{"metric": m.name, "out": out, "blocks": len(r.blocks)}))
		}
		for _, k := range contrastsOf(levelCounts(e)) {
			if len(k.terms(r.cells)) == 0 {
				continue // the listed cells exclude it
			}
			f.Effects = append(f.Effects, effectOf(f, m, k, counted, logs))
		}
	}
	if slices.ContainsFunc(f.Effects, func(x record.Effect) bool { return x.Blocks > 0 }) {
		p.Exit = 0
	}
	answerFactorial(f)
	f.Caveats = append(factorialCaveats(e, f, &r), f.Caveats...)
}

// counting returns the cells that are not excluded, and their positions.
func counting(cells [][]int, leftOut []bool) (counted [][]int, at []int) {
	for i, c := range cells {
		if !leftOut[i] {
			counted, at = append(counted, c), append(at, i)
		}
	}
	return counted, at
}

// columns selects columns of each row.
func columns(rows [][]float64, at []int) [][]float64 {
	kept := make([][]float64, len(rows))
	for n, row := range rows {
		for _, i := range at {
			kept[n] = append(kept[n], row[i])
		}
	}
	return kept
}

// effectOf judges one contrast in one metric.
func effectOf(f *record.Factorial, m *compareMetric, k contrast, cells [][]int, logs [][]float64) record.Effect {
	x := record.Effect{Metric: m.name, Factor: f.Factors[k.factor].Name, Level: k.level, Decision: record.CannotTell, Within: m.margin,
		PerBlock: []float64{}}
	if k.with >= 0 {
		x.With, x.WithLevel = f.Factors[k.with].Name, k.withLevel
	}
	terms := k.terms(cells)
	x.Pairs = len(terms)
	d, perBlock, ok := estimateTerms(terms, logs, f.Comparisons)
	if ok {
		x.PerBlock, x.Blocks, x.Relative = perBlock, len(perBlock), relativeOf(&d)
		settle(&x, &d)
		// The same share of the additional blocks will not count.
		x.MoreBlocks = (x.MoreBlocks*f.Blocks + x.Blocks - 1) / x.Blocks
		if k.with >= 0 {
			for _, level := range []int{0, k.withLevel} {
				g, _, _ := estimateTerms(k.given(level, cells), logs, f.Comparisons)
				x.Given = append(x.Given, relativeOf(&g))
			}
		}
	}
	x.Says = effectStatement(f, &x, k)
	return x
}

func relativeOf(d *stat.Difference) record.Estimate {
	r := record.Estimate{Mid: stat.Relative(d.Value), Low: stat.Relative(d.Low), High: stat.Relative(d.High), Confidence: d.Confidence,
		Warnings: warned(d.Warnings)}
	if !d.Certain() {
		r.Confidence = 0
	}
	return r
}

// settle decides. A significant effect counts even if it is small; otherwise "no effect" requires
// the whole interval within the margin.
func settle(x *record.Effect, d *stat.Difference) {
	reach := stat.Relative(max(math.Abs(d.Low), math.Abs(d.High)))
	switch {
	case !d.Certain():
	case d.Low > 0:
		x.Decision = record.Higher
		return
	case d.High < 0:
		x.Decision = record.Lower
		return
	case reach <= x.Within:
		x.Decision, x.Within = record.NoChange, reach
		return
	}
	// Half the width at which the interval, centred as now, would exclude 0 or fit the margin.
	half := max(math.Abs(d.Value), math.Log1p(x.Within)-math.Abs(d.Value))
	if n, err := d.BlocksFor(stat.Relative(half)); err == nil {
		x.MoreBlocks = max(n-d.N, 1)
	}
}

// effectStatement states the finding about an effect.
func effectStatement(f *record.Factorial, x *record.Effect, k contrast) record.Statement {
	factor := &f.Factors[k.factor]
	with := record.Values{"metric": x.Metric, "factor": x.Factor, "from": factor.Levels[0], "to": factor.Levels[k.level],
		"mid": x.Relative.Mid, "low": x.Relative.Low, "high": x.Relative.High, "within": x.Within, "blocks": x.MoreBlocks}
	if k.with >= 0 {
		second := &f.Factors[k.with]
		with["with"], with["without"], with["under"] = x.With, second.Levels[0], second.Levels[k.withLevel]
		if len(x.Given) == 2 {
			with["first"], with["second"] = x.Given[0].Mid, x.Given[1].Mid
		}
	}
	settled := map[string]string{record.Higher: "shown", record.Lower: "shown", record.NoChange: "none"}[x.Decision]
	switch {
	case settled != "":
	case x.Blocks == 0:
		settled = "not-measured"
	case x.MoreBlocks == 0:
		settled = "unsettled-noisy"
	default:
		settled = "unsettled"
	}
	if k.with >= 0 {
		return record.State("interaction."+settled, with)
	}
	return record.State("effect."+settled, with)
}

// answerFactorial is the result: a count and one statement per significant effect.
func answerFactorial(f *record.Factorial) {
	count := map[string]int{}
	var shown []record.Statement
	for i := range f.Effects {
		x := &f.Effects[i]
		_, state, _ := strings.Cut(x.Says.Code, ".")
		count[state]++
		if state == "shown" {
			shown = append(shown, x.Says)
		}
	}
	f.Answer = append([]record.Statement{record.State("factorial.answer", record.Values{"effects": len(f.Effects), "shown": count["shown"],
		"none": count["none"], "unsettled": count["unsettled"] + count["unsettled-noisy"], "missing": count["not-measured"]})}, shown...)
}

// cell is one combination with its runs.
func (r *factorialRuns) cell(i int, metrics []compareMetric) record.FactorialCell {
	c := record.FactorialCell{Levels: r.cells[i], Runs: len(r.blocks)}
	first, values := &metrics[0], map[string][]float64{}
	var good []*record.Measured
	for _, b := range r.blocks {
		m := b[i]
		if why, is := counts(m, first); is {
			good = append(good, m)
		} else {
			c.Invalid, c.Because = c.Invalid+1, why
		}
		for n := range metrics {
			if _, is := counts(m, &metrics[n]); is {
				v, _ := metrics[n].of([]*record.Measured{m})
				values[metrics[n].name] = append(values[metrics[n].name], v)
			}
		}
	}
	if first.name != metricRPS { // absent for an open loop
		for _, m := range good {
			values[metricRPS] = append(values[metricRPS], m.CompletedPerS)
		}
	}
	c.LeftOut = 2*c.Invalid > c.Runs
	c.PerS, c.P99Ns, c.ServerCPUNs = median(values[metricRPS]), median(values[metricP99]), median(values[metricCPU])
	c.Bottleneck = mostOf(good, func(m *record.Measured) record.Bottleneck { return m.Bottleneck })
	return c
}
