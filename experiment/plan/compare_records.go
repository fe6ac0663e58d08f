package plan

import (
	"fmt"
	"math"
	"net/url"
	"slices"
	"time"

	"ceiling/internal/hist"
	"ceiling/internal/stat"
	"ceiling/record"
)

// Kept is a saved run.
type Kept struct {
	Run *record.Run
	// Response times of the whole window; if nil, the quantiles of the result are used.
	Response *hist.Hist
	// Series of the run; if nil, only the spread of the rate is known.
	Series *record.Series
}

// Figures are the compared results of one finished measurement, by this program or another. 0 is
// not measured.
type Figures struct {
	// Name for messages: the run's ID, or a file.
	Name        string
	PerS        float64 // requests completed per second
	P50Ns       float64 // response time
	P99Ns       float64
	ServerCPUNs float64 // per request
	// Response times, if kept, and the requests without a response.
	Response *hist.Hist
	Waiting  *record.Waiting
	// Spread of a metric over the seconds of the run, by name: the standard deviation of its
	// logarithm. The spread between runs is larger.
	Spread map[string]float64
	// Open: the rate was a setting.
	Open bool
	// BadShare is the share of requests that failed or got an unexpected status.
	BadShare float64
	// Invalid is why the measurement is invalid; nil if valid. Missing is why a figure is missing.
	Invalid []record.Statement
	Missing record.Statement
	// Bottleneck of the run; "" if unknown.
	Bottleneck record.Bottleneck
	// Started and ElapsedS are its time; zero if unknown.
	Started  time.Time
	ElapsedS float64
}

// Finished is one side of a comparison of existing results.
type Finished struct {
	Label   string
	Figures []Figures
	// Facts of each measurement.
	Facts [][]Fact
	// Caveats of the measurements.
	Caveats []record.Statement
	// Decide is a URL to load this side again; "" if unknown.
	Decide string
	// Profiles of the measurements, if any.
	Profiles []*record.Profiling
}

// CompareRuns compares finished runs, one or more per side under the same condition. It lists the
// differences other than results first.
func CompareRuns(a, b []Kept) record.Comparison {
	return CompareFinished(FinishedRuns(a), FinishedRuns(b))
}

// CompareFinished is CompareRuns for any results.
func CompareFinished(a, b Finished) record.Comparison {
	c := record.Comparison{A: a.Label, B: b.Label, Changes: []record.Change{}}
	c.Differences, c.Incomparable = differ(a.Facts, b.Facts)
	usableA, usableB := usable(&a), usable(&b)
	for _, why := range []record.Statement{usableB.why, usableA.why} {
		if !why.IsZero() {
			c.Incomparable = []record.Statement{why}
		}
	}
	same := atTheSameTime(usableA.list, usableB.list)
	metrics := allMetrics()
	if len(usableA.list)+len(usableB.list) > 0 &&
		slices.ContainsFunc(slices.Concat(usableA.list, usableB.list), func(f Figures) bool { return f.Open }) {
		metrics = slices.DeleteFunc(metrics, func(m compareMetric) bool { return m.name == metricRPS })
	}
	for _, m := range metrics {
		ch := finishedChange(m, usableA.list, usableB.list, len(metrics), same)
		if c.Incomparable != nil {
			ch.Decision, ch.Within, ch.Relative.Confidence = record.CannotTell, 0, 0
			ch.Says = say("change.not-judged", with{"metric": m.name, "why": c.Incomparable})
		}
		c.Changes = append(c.Changes, ch)
	}
	if c.Incomparable == nil {
		c.Profiles = profileDifferences(profilesOfFinished(a.Profiles, same), profilesOfFinished(b.Profiles, same), same)
	}
	c.Caveats = slices.Concat(usableA.left, usableB.left, finishedCaveats(&c, usableA.list, usableB.list, same), a.Caveats, b.Caveats)
	switch {
	case c.Incomparable != nil:
		c.Says = say("comparison.incomparable", with{"why": c.Incomparable})
	case slices.ContainsFunc(c.Changes, func(ch record.Change) bool { return ch.Decision == record.CannotTell }):
		c.Says = saysOf(&c, say("comparison.decisive", with{"command": deciding(&a, &b)}))
	default:
		c.Says = saysOf(&c)
	}
	return c
}

// counted are the valid measurements of a side.
type counted struct {
	list []Figures
	left []record.Statement // one per invalid measurement
	why  record.Statement   // none is left, or the side mostly returns errors
}

func usable(side *Finished) counted {
	var c counted
	failing := 0
	for _, f := range side.Figures {
		if f.BadShare > mostly {
			failing++
		}
		if f.Invalid != nil {
			c.left = append(c.left, say("left.run", with{"run": f.Name, "why": f.Invalid}))
			continue
		}
		c.list = append(c.list, f)
	}
	switch {
	case len(side.Figures) == 0:
		c.why = say("incomparable.no-run", with{"side": side.Label})
	case float64(failing) > mostly*float64(len(side.Figures)):
		c.why = say("incomparable.failed", with{"side": side.Label})
	case len(c.list) == 0:
		c.why = c.left[0]
	}
	return c
}

// valueOf returns one metric of one measurement.
func (f *Figures) valueOf(metric string) float64 {
	switch metric {
	case metricRPS:
		return f.PerS
	case metricP50:
		return f.P50Ns
	case metricP99:
		return f.P99Ns
	}
	return f.ServerCPUNs
}

// together combines one metric of several measurements: quantiles of all response times if they
// are kept, else the median.
func together(m compareMetric, list []Figures) float64 {
	q := map[string]float64{metricP50: .5, metricP99: .99}[m.name]
	if kept := !slices.ContainsFunc(list, func(f Figures) bool { return f.Response == nil || f.valueOf(m.name) == 0 }); kept && q > 0 {
		all := new(responseTimes)
		for i := range list {
			all.add(list[i].Response, list[i].Waiting)
		}
		ns, _ := all.quantile(q)
		return float64(ns)
	}
	var values []float64
	for i := range list {
		values = append(values, list[i].valueOf(m.name))
	}
	slices.Sort(values)
	return (values[len(values)/2] + values[(len(values)-1)/2]) / 2
}

// finishedChange judges one metric. Enough runs of both sides from the same period give an
// interval; otherwise only a difference far beyond that of two sessions counts as a change.
func finishedChange(m compareMetric, a, b []Figures, comparisons int, same bool) record.Change {
	c := record.Change{Metric: m.name, Unit: m.unit, Decision: record.CannotTell, PerBlock: []float64{}}
	for _, list := range [][]Figures{a, b} {
		if len(list) == 0 {
			c.Says = say("change.not-measured", with{"metric": m.name, "why": ""})
			return c
		}
		for i := range list {
			if !(list[i].valueOf(m.name) > 0) {
				why := list[i].Missing
				if why.IsZero() {
					why = say("measured.no-figure", with{"name": list[i].Name})
				}
				c.Says = say("change.not-measured", with{"metric": m.name, "why": why})
				return c
			}
		}
	}
	c.A, c.B = together(m, a), together(m, b)
	x, y := logsOf(m, a), logsOf(m, b)
	if same {
		if d, ok := shiftOf(x, y, (1-compareConfidence)/float64(comparisons)); ok {
			d.Asked, d.Comparisons = compareConfidence, comparisons
			decideShift(&c, m, d)
			return c
		}
	}
	decideFar(&c, m, spreadOf(m, a, x), spreadOf(m, b, y), len(a)+len(b) == 2)
	return c
}

func logsOf(m compareMetric, list []Figures) []float64 {
	var logs []float64
	for i := range list {
		logs = append(logs, math.Log(list[i].valueOf(m.name)))
	}
	return logs
}

// decideShift is decide for unpaired runs: there is no A/A.
func decideShift(c *record.Change, m compareMetric, d stat.Difference) {
	c.Relative = record.Estimate{
		Mid: stat.Relative(d.Value), Low: stat.Relative(d.Low), High: stat.Relative(d.High), Confidence: d.Confidence,
		Warnings: []record.Statement{say("stat.no-noise", nil)},
	}
	reach := stat.Relative(max(math.Abs(d.Low), math.Abs(d.High)))
	switch {
	case !d.Contains(0):
		c.Decision = record.Worse
		if d.Value > 0 == m.more {
			c.Decision = record.Better
		}
		c.Says = moved(c)
	case reach <= m.margin:
		c.Decision, c.Within = record.NoChange, reach
		c.Says = say("change.none", with{"metric": m.name, "within": reach})
	default:
		c.Says = unclear(c, say("change.more-runs", nil))
	}
}

// occasions is the ratio by which two sessions may differ without any change: users of continuous
// benchmarks reported 26 % between two jobs of one service, and 0.3 % within one.
const occasions = 1.30

// spreads is the number of spreads of a side that a difference must also exceed.
const spreads = 3

// decideFar accepts only a change that two sessions cannot explain. The interval is what remains
// of it after subtracting the largest such difference.
func decideFar(c *record.Change, m compareMetric, spreadA, spreadB float64, single bool) {
	ratio := math.Log(c.B / c.A)
	c.Relative = record.Estimate{Mid: stat.Relative(ratio), Low: stat.Relative(ratio), High: stat.Relative(ratio)}
	if math.IsNaN(spreadA) || math.IsNaN(spreadB) {
		c.Says = say("change.no-spread", with{"metric": m.name, "mid": c.Relative.Mid, "single": single})
		return
	}
	allowance := math.Log(occasions) + spreads*math.Hypot(spreadA, spreadB)
	if math.Abs(ratio) <= allowance {
		c.Says = say("change.occasions", with{"metric": m.name, "mid": c.Relative.Mid, "single": single, "apart": stat.Relative(allowance)})
		return
	}
	c.Relative.Low, c.Relative.High = stat.Relative(ratio-allowance), stat.Relative(ratio+allowance)
	c.Decision = record.Worse
	if ratio > 0 == m.more {
		c.Decision = record.Better
	}
	c.Says = say("change.far", with{"metric": m.name, "mid": c.Relative.Mid})
}

// spreadOf is the standard deviation of a metric's logarithm on one side: between its runs, or
// within its only one, whichever is known and larger; NaN if neither is.
func spreadOf(m compareMetric, list []Figures, logs []float64) float64 {
	spread := math.NaN()
	for i := range list {
		if s, ok := list[i].Spread[m.name]; ok {
			spread = larger(spread, s)
		}
	}
	if len(logs) > 1 {
		spread = larger(spread, deviation(logs))
	}
	return spread
}

func larger(a, b float64) float64 {
	if math.IsNaN(a) || b > a {
		return b
	}
	return a
}

// deviation is the standard deviation of a sample (n-1).
func deviation(values []float64) float64 {
	mean, squares := 0.0, 0.0
	for _, v := range values {
		mean += v / float64(len(values))
	}
	for _, v := range values {
		squares += (v - mean) * (v - mean)
	}
	return math.Sqrt(squares / float64(len(values)-1))
}

// atTheSameTime reports whether the runs were made alternately: each side's median run lies
// between the other's first and last.
func atTheSameTime(a, b []Figures) bool {
	if len(a) < 2 || len(b) < 2 {
		return false
	}
	times := func(list []Figures) []time.Time {
		var t []time.Time
		for i := range list {
			if list[i].Started.IsZero() {
				return nil
			}
			t = append(t, list[i].Started)
		}
		slices.SortFunc(t, time.Time.Compare)
		return t
	}
	x, y := times(a), times(b)
	if x == nil || y == nil {
		return false
	}
	within := func(t time.Time, list []time.Time) bool { return t.After(list[0]) && t.Before(list[len(list)-1]) }
	return within(x[len(x)/2], y) && within(y[len(y)/2], x)
}

func finishedCaveats(c *record.Comparison, a, b []Figures, same bool) []record.Statement {
	var caveats []record.Statement
	if !same && c.Incomparable == nil {
		caveats = append(caveats, say("comparison.occasions", nil))
	}
	of := func(list []Figures) record.Bottleneck {
		var runs []*record.Measured
		for i := range list {
			runs = append(runs, &record.Measured{Bottleneck: list[i].Bottleneck})
		}
		return mostOf(runs, func(m *record.Measured) record.Bottleneck { return m.Bottleneck })
	}
	if differ := twoBottlenecks(of(a), of(b)); !differ.IsZero() {
		caveats = append(caveats, differ)
	}
	return caveats
}

// deciding returns the command that would give a decision.
func deciding(a, b *Finished) string {
	if a.Decide == "" || b.Decide == "" {
		return "ceiling compare URL-OF-A URL-OF-B"
	}
	if a.Decide != b.Decide {
		return fmt.Sprintf("ceiling compare %s %s", a.Decide, b.Decide)
	}
	path := "/"
	if u, err := url.Parse(a.Decide); err == nil {
		path = cmpText(u.RequestURI(), path)
	}
	return fmt.Sprintf("ceiling compare --serve 'COMMAND OF A' --serve 'COMMAND OF B' --path '%s'", path)
}
