package report

import (
	"cmp"
	"fmt"
	"maps"
	"math"
	"slices"
	"strconv"
	"strings"

	"ceiling/internal/secret"
	"ceiling/internal/unit"
	"ceiling/record"
	"ceiling/show/layout"
	"ceiling/verdict/prose"
)

// The tables of the answers, for text, pages and Markdown alike. What is hidden in text is a column of a
// page, which has the room.

// missing is the placeholder for a figure that was not measured.
const missing = "-"

// SearchTable has a row for each of a search's rates.
func SearchTable(rates []record.TriedRate) *layout.Table {
	t := &layout.Table{Columns: []layout.Column{{Name: "req/s", Right: true}, {Name: "runs", Right: true, Drop: 3}, {Name: "pass", Right: true},
		{Name: "fail", Right: true}, {Name: "invalid", Right: true, Drop: 4}, {Name: "ended early", Right: true, Drop: layout.Hidden},
		{Name: "p50", Right: true, Drop: 2}, {Name: "p99", Right: true}, {Name: "p99.9", Right: true, Drop: layout.Hidden},
		{Name: "bottleneck", Least: 12}}}
	for i := range rates {
		r := &rates[i]
		outcome := TriedOutcome(r)
		t.Rows = append(t.Rows, []string{amount(r.PerS, ""), strconv.Itoa(r.Runs), strconv.Itoa(r.Pass), strconv.Itoa(r.Fail),
			strconv.Itoa(r.Invalid),
			strconv.Itoa(r.StoppedEarly), tried(r, outcome, .5), triedP99(r, outcome), tried(r, outcome, .999), Limit(outcome, r.Bottleneck)})
	}
	return t
}

// TriedOutcome returns the outcome of a rate by its runs: a rate that half of them failed is not held.
func TriedOutcome(r *record.TriedRate) record.Outcome {
	switch {
	case r.Pass > r.Fail:
		return record.Pass
	case r.Fail > 0:
		return record.Fail
	}
	return record.Invalid
}

// tried uses the same runs as triedP99; it is omitted if they were stopped early, because it would
// mislead.
func tried(r *record.TriedRate, outcome record.Outcome, q float64) string {
	if outcome == record.Fail && r.Pass+r.StoppedEarly > 0 {
		return missing
	}
	return times(&r.Response, q)
}

// triedP99 uses the decisive runs: those that failed if the rate failed.
func triedP99(r *record.TriedRate, outcome record.Outcome) string {
	switch {
	case outcome != record.Fail || r.MissedP99Ns == 0:
		return times(&r.Response, .99)
	case r.MissedAtLeast:
		return "≥ " + unit.FormatNs(r.MissedP99Ns) + ", ended early"
	}
	return unit.FormatNs(r.MissedP99Ns)
}

// times formats a quantile, if there is one.
func times(l *record.Quantiles, q float64) string {
	if !l.Known() {
		return missing
	}
	return l.Text(q)
}

// PointTable is for the points of curves; first are the columns that tell them apart.
func PointTable(first ...layout.Column) *layout.Table {
	return &layout.Table{Columns: append(first, []layout.Column{{Name: "req/s", Right: true}, {Name: "range", Drop: 2}, {Name: "p50", Right: true, Drop: 1},
		{Name: "p99", Right: true}, {Name: "mean", Right: true, Drop: 5}, {Name: "in flight", Right: true, Drop: 7}, {Name: "MB/s", Right: true, Drop: 6},
		{Name: "server", Long: "server CPU", Right: true, Drop: 3}, {Name: "gen.", Long: "generator CPU", Right: true, Drop: 4},
		{Name: "bad", Right: true, Drop: layout.Hidden}, {Name: "runs", Right: true, Drop: layout.Hidden}, {Name: "bottleneck", Least: 12}}...)}
}

// AddPoint adds a point with the cells of the first columns, and its rate as a bar.
func AddPoint(t *layout.Table, p *record.CurvePoint, first ...string) {
	runs := strconv.Itoa(p.Runs)
	if p.Invalid > 0 {
		runs += fmt.Sprintf(" + %d invalid", p.Invalid)
	}
	if p.Outcome == record.Invalid { // the figures are of those
		runs = fmt.Sprintf("%d invalid", p.Invalid)
	}
	q := p.Held()
	mean := missing
	if q.Count > 0 {
		mean = q.MeanText(nil)
	}
	t.Rows = append(t.Rows, append(first, amount(p.PerS.Mid, ""), reach(&p.PerS, unit.FormatSI), times(q, .5), times(q, .99), mean,
		unit.DigitsOr(p.InFlight.Mid, 3, missing), unit.DigitsOr(p.ReadBytesPerS.Mid/1e6, 3, missing), amount(p.ServerCPUNs.Mid, "ns"),
		amount(p.GeneratorCPUNs.Mid, "ns"), unit.Percent(p.BadShare), runs, pointBottleneck(p)))
	t.Bars = append(t.Bars, p.PerS.Mid)
}

// pointBottleneck names the bottleneck of a point's runs: each of them where they differ.
func pointBottleneck(p *record.CurvePoint) string {
	switch {
	case p.Split != "":
		parts := strings.Split(p.Split, ", ")
		for i, part := range parts {
			if at := strings.LastIndexByte(part, ' '); at >= 0 {
				parts[i] = part[:at] + " ×" + part[at+1:]
			}
		}
		return strings.Join(parts, ", ")
	case !p.Outcome.Sound():
		return string(p.Outcome) + ": " + string(p.Bottleneck)
	}
	return string(p.Bottleneck)
}

// ProofTable has a row for each resource that was perturbed.
func ProofTable(p *record.Proof) *layout.Table {
	t := &layout.Table{Columns: []layout.Column{{Name: "resource"}, {Name: "left", Right: true}, {Name: "req/s", Right: true},
		{Name: "range", Drop: layout.Hidden}, {Name: "elasticity", Right: true}, {Name: "95% CI", Drop: 1},
		{Name: "blocks", Right: true, Drop: layout.Hidden}, {Name: "how", Drop: 2, Least: 10}}}
	elasticity := func(e *record.Estimate) (mid, interval string) {
		return fmt.Sprintf("%.2f", e.Mid), fmt.Sprintf("%.2f to %.2f", e.Low, e.High)
	}
	t.Rows = append(t.Rows, []string{"undisturbed", unit.Percent(1), amount(p.PerS.Mid, ""), reach(&p.PerS, unit.FormatSI), "", "", "", ""})
	for i := range p.Resources {
		r := &p.Resources[i]
		mid, interval := elasticity(&r.Elasticity)
		t.Rows = append(t.Rows, []string{r.Resource, unit.Percent(r.Left), amount(r.PerS.Mid, ""), reach(&r.PerS, unit.FormatSI), mid, interval,
			strconv.Itoa(r.Blocks), r.How})
	}
	mid, interval := elasticity(&p.Sum)
	t.Rows = append(t.Rows, []string{"sum of the rates", "", "", "", mid, interval, "", ""})
	return t
}

// ChangeTable has a row for each metric of a comparison.
func ChangeTable(c *record.Comparison) *layout.Table {
	t := &layout.Table{Columns: []layout.Column{{Long: "metric"}, {Name: "A", Right: true}, {Name: "B", Right: true}, {Name: "change", Right: true},
		{Name: "interval", Drop: 1}, {Name: "noise A/A", Drop: 2}, {Name: "decision"}}}
	for i := range c.Changes {
		m := &c.Changes[i]
		name := cmp.Or(map[string]string{"server_cpu": "CPU/req"}[m.Metric], MetricName(m.Metric)) // 60 columns have no room for more
		row := []string{name, amount(m.A, m.Unit), amount(m.B, m.Unit), missing, missing, missing, m.Decision}
		if m.Measured() {
			row[3], row[4] = changed(&m.Relative)
		}
		if m.Floor > 0 {
			row[5] = "±" + unit.Percent(m.Floor)
		}
		t.Rows = append(t.Rows, row)
	}
	return t
}

// changed formats a relative change and its interval, if one is known.
func changed(e *record.Estimate) (mid, interval string) {
	if e.Low == e.High {
		return unit.Change(e.Mid), missing
	}
	return unit.Change(e.Mid), unit.Change(e.Low) + " to " + unit.Change(e.High)
}

// MetricName is the display name of a metric that runs are compared by.
func MetricName(metric string) string {
	if name := map[string]string{"rps": "req/s", "server_cpu": "server CPU/request"}[metric]; name != "" {
		return name
	}
	return metric
}

// CellTable has a row for each cell of a factorial experiment, and a column for each factor.
func CellTable(f *record.Factorial) *layout.Table {
	t := new(layout.Table)
	for _, factor := range f.Factors {
		t.Columns = append(t.Columns, layout.Column{Name: factor.Name, Least: 8})
	}
	t.Columns = append(t.Columns, []layout.Column{{Name: "req/s", Right: true}, {Name: "range", Drop: 3}, {Name: "p99", Right: true},
		{Name: "server", Long: "server CPU", Right: true, Drop: 2}, {Name: "runs", Right: true, Drop: 1}, {Name: "bottleneck", Least: 10}}...)
	for i := range f.Cells {
		c := &f.Cells[i]
		cells := make([]string, len(f.Factors))
		for n := range min(len(cells), len(c.Levels)) {
			cells[n] = levelName(f, n, c.Levels[n])
		}
		runs := strconv.Itoa(c.Runs)
		if c.Invalid > 0 {
			runs = fmt.Sprintf("%d of %d", c.Runs-c.Invalid, c.Runs)
		}
		bottleneck := string(c.Bottleneck)
		if c.LeftOut {
			bottleneck = "left out: " + prose.Sentence(c.Because)
		}
		t.Rows = append(t.Rows, append(cells, amount(c.PerS.Mid, ""), reach(&c.PerS, unit.FormatSI), amount(c.P99Ns.Mid, "ns"),
			amount(c.ServerCPUNs.Mid, "ns"), runs, bottleneck))
	}
	return t
}

// EffectTable has a row for each effect on a metric.
func EffectTable(f *record.Factorial, metric string) *layout.Table {
	t := &layout.Table{Columns: []layout.Column{{Name: MetricName(metric), Least: 16}, {Name: "effect", Right: true}, {Name: "interval"},
		{Name: "pairs of cells", Right: true, Drop: layout.Hidden}, {Name: "blocks", Right: true, Drop: 1}, {Name: "decision", Least: 12},
		{Name: "in words", Drop: layout.Hidden}}}
	for i := range f.Effects {
		x := &f.Effects[i]
		if x.Metric != metric {
			continue
		}
		mid, interval := missing, ""
		if EffectMeasured(x) {
			mid, interval = changed(&x.Relative)
		}
		t.Rows = append(t.Rows, []string{EffectName(f, x), mid, interval, strconv.Itoa(x.Pairs), strconv.Itoa(x.Blocks), EffectDecision(x),
			prose.Text(x.Says)})
	}
	return t
}

// EffectMetrics returns the metrics of the effects, in order.
func EffectMetrics(f *record.Factorial) (list []string) {
	for i := range f.Effects {
		if m := f.Effects[i].Metric; !slices.Contains(list, m) {
			list = append(list, m)
		}
	}
	return list
}

// EffectMeasured tells an effect that has a figure.
func EffectMeasured(x *record.Effect) bool {
	return x.Blocks > 0 && math.Abs(x.Relative.Mid) <= math.MaxFloat64 && x.Relative.Low <= x.Relative.High
}

// levelName is the name of a level of the n-th factor.
func levelName(f *record.Factorial, n, level int) string {
	if n >= len(f.Factors) || level < 0 || level >= len(f.Factors[n].Levels) {
		return strconv.Itoa(level)
	}
	return f.Factors[n].Levels[level]
}

// EffectName names the contrast: "prefork on", if its first level is off, and "prefork on × route
// /compute".
func EffectName(f *record.Factorial, x *record.Effect) string {
	name := func(factor string, level int) string {
		for n := range f.Factors {
			if f.Factors[n].Name == factor {
				return factor + " " + levelName(f, n, level)
			}
		}
		return factor
	}
	parts := []string{name(x.Factor, x.Level)}
	if x.With != "" {
		parts = append(parts, name(x.With, x.WithLevel))
	}
	return strings.Join(parts, " × ")
}

// EffectDecision summarises an effect's decision.
func EffectDecision(x *record.Effect) string {
	switch {
	case x.Blocks == 0:
		return "not measured"
	case x.Decision == record.NoChange:
		return "no effect beyond ±" + unit.Percent(x.Within)
	case x.Decision == record.CannotTell && x.MoreBlocks > 0 && x.Relative.Confidence == 0:
		return fmt.Sprintf("too few blocks: needs about %d more", x.MoreBlocks)
	case x.Decision == record.CannotTell && x.MoreBlocks > 0:
		return fmt.Sprintf("inconclusive: ±%s needs about %s", unit.Percent(x.Within), unit.Plural(x.MoreBlocks, "more block", "more blocks"))
	case x.Decision == record.CannotTell:
		return "inconclusive"
	}
	return x.Decision
}

// TargetTable has a row for each target of a run.
func TargetTable(targets []record.TargetResult) *layout.Table {
	t := &layout.Table{Columns: []layout.Column{{Name: "target", Least: 16}, {Name: "weight", Right: true, Drop: layout.Hidden},
		{Name: "completed", Right: true, Drop: 2}, {Name: "failed", Right: true, Drop: layout.Hidden}, {Name: "p50", Right: true, Drop: 3},
		{Name: "p99", Right: true}, {Name: "max", Right: true, Drop: layout.Hidden}, {Name: "statuses", Drop: 1, Least: 12}}}
	for i := range targets {
		r := &targets[i]
		t.Rows = append(t.Rows, []string{secret.Plain().Shell(r.Target), strconv.Itoa(r.Weight), unit.FormatCount(int64(r.Completed)),
			unit.FormatCount(int64(r.Failed)), times(&r.Response, .5), times(&r.Response, .99), times(&r.Response, 1), statusLine(r.Statuses)})
	}
	return t
}

// reach formats an estimate's interval: 12.1k–12.5k; "" if it has no width.
func reach(e *record.Estimate, format func(float64) string) string {
	if !(e.High > e.Low) {
		return ""
	}
	return format(e.Low) + "–" + format(e.High)
}

// amount formats a figure that is positive where it was measured; of is its unit, "ns" or another.
func amount(v float64, of string) string {
	switch {
	case !(v > 0):
		return missing
	case of == "ns":
		return unit.FormatNs(int64(min(v, math.MaxInt64/2) + .5))
	}
	return unit.FormatCount(int64(min(v, math.MaxInt64/2) + .5))
}

func statusLine(statuses map[string]uint64) string {
	var parts []string
	for _, code := range slices.Sorted(maps.Keys(statuses)) {
		parts = append(parts, fmt.Sprintf("%s × %s", code, unit.FormatCount(int64(statuses[code]))))
	}
	if len(parts) == 0 {
		return "none"
	}
	return strings.Join(parts, " · ")
}

// Limit names the bottleneck of a run, or of a rate. "Target rate reached" does not apply to a run that failed.
func Limit(outcome record.Outcome, of record.Bottleneck) string {
	if outcome == record.Fail && of == record.TargetRate {
		return "none (SLO missed)"
	}
	return string(of)
}
