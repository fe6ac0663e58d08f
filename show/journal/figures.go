package journal

import (
	"errors"
	"fmt"
	"slices"
	"strings"
	"time"

	"ceiling/experiment/plan"
	"ceiling/internal/unit"
	"ceiling/record"
	"ceiling/show/chart"
	"ceiling/show/page"
	"ceiling/verdict/prose"
)

// Entries refer to a record's figures by the names of the methods below. For a record that is
// still to be measured, the methods run on an empty one.

var errNotMeasured = errors.New("was not measured")

// source is the record that figures come from.
type source struct {
	entry *Entry
	of    *Record
	wrong error // why it has no figures; nil if it has
}

// number returns a figure; known is false if the record has none.
func (s source) number(k kind, v float64, known bool) (answer, error) {
	return s.between(k, record.Estimate{Mid: v, Low: v, High: v}, known)
}

// between returns a figure with its interval.
func (s source) between(k kind, v record.Estimate, known bool) (answer, error) {
	a := answer{text: k.format(v.Mid), short: k.format(v.Mid), kind: k, number: v.Mid, low: v.Low, high: v.High, of: []*Record{s.of}}
	switch {
	case s.of.Pending():
		a.pending, a.text, a.short = true, "not measured yet", "not measured yet"
	case s.wrong != nil:
		return a, s.wrong
	case !known:
		return a, s.unmeasured(k)
	case v.High > v.Low:
		a.text += " " + interval(k.format(v.Low), k.format(v.High), v.Confidence)
	}
	return a, nil
}

// unmeasured is the error for a missing figure, with the reason that the run gives, if any.
func (s source) unmeasured(k kind) error {
	if s.of.Run != nil && k == kindNs {
		for _, n := range s.of.Run.NotMeasured {
			if n.What == "process" || n.What == "latency" {
				return fmt.Errorf("%w, because %s", errNotMeasured, n.Why)
			}
		}
	}
	return errNotMeasured
}

// share returns a number from 0 to 1; below 0 means not measured.
func (s source) share(v float64) (answer, error) { return s.number(kindShare, v, v >= 0) }

func (s source) count(v int) (answer, error) { return s.number(kindCount, float64(v), true) }

// says returns a text.
func (s source) says(text string) (answer, error) {
	a := answer{text: page.Shown(text), short: page.Shown(text), of: []*Record{s.of}}
	if s.of.Pending() {
		a.pending, a.text, a.short = true, "not measured yet", "not measured yet"
		return a, nil
	}
	if text == "" && s.wrong == nil {
		s.wrong = errors.New("is empty in the record")
	}
	return a, s.wrong
}

func (s source) when(t time.Time) (answer, error) {
	return s.says(t.UTC().Format("2 January 2006, 15:04 UTC"))
}

func (s source) seconds(v float64) (answer, error) { return s.number(kindNs, v*1e9, true) }

// quantiles are the figures of a distribution.
type quantiles struct {
	source
	q record.Quantiles
}

func (q quantiles) ns(v float64) (answer, error) { return q.number(kindNs, v, q.q.Count > 0) }

// at returns a quantile, which may be a lower bound.
func (q quantiles) at(share float64) (answer, error) {
	ns, _ := q.q.Quantile(share)
	a, err := q.ns(float64(ns))
	if err == nil && !a.pending && q.q.IsBound(share) {
		a.text, a.short = "≥ "+a.text, "≥ "+a.short
	}
	return a, err
}

// Mean, P50, P90, P99, P999, Max and Min are times.
func (q quantiles) Mean() (answer, error) { return q.ns(q.q.MeanNs) }
func (q quantiles) P50() (answer, error)  { return q.at(.5) }
func (q quantiles) P90() (answer, error)  { return q.at(.9) }
func (q quantiles) P99() (answer, error)  { return q.at(.99) }
func (q quantiles) P999() (answer, error) { return q.at(.999) }
func (q quantiles) Max() (answer, error)  { return q.at(1) }
func (q quantiles) Min() (answer, error)  { return q.ns(float64(q.q.MinNs)) }

// machine is the load generator host.
type machine struct {
	source
	env *record.Environment
}

// Cores, CPU, Kernel, Host and Memory describe it.
func (m machine) Cores() (answer, error)  { return m.count(m.env.CoresAllowed) }
func (m machine) CPU() (answer, error)    { return m.says(m.env.CPUModel) }
func (m machine) Kernel() (answer, error) { return m.says(m.env.Kernel) }
func (m machine) Host() (answer, error)   { return m.says(m.env.Host) }
func (m machine) Memory() (answer, error) {
	return m.number(kindBytes, float64(m.env.MemoryBytes), m.env.MemoryBytes > 0)
}

// runFigures are the figures of a run; the quantiles are of its response time.
type runFigures struct {
	quantiles
	machine
	source
	run *chart.Run
}

func (e *Entry) runOf(of *Record) *runFigures {
	run, s := of.Run, source{entry: e, of: of}
	if run == nil {
		run = &chart.Run{Run: new(record.Run)}
	}
	return &runFigures{quantiles{s, run.Latency.Response}, machine{s, &run.Environment}, s, run}
}

// Service and Lag have their own quantiles.
func (r *runFigures) Service() quantiles { return quantiles{r.source, r.run.Latency.Service} }
func (r *runFigures) Lag() quantiles     { return quantiles{r.source, r.run.Latency.Lag} }

// Rate, SentRate and TargetRate are requests per second.
func (r *runFigures) Rate() (answer, error) {
	return r.number(kindPerS, r.run.Rate.CompletedPerS, true)
}
func (r *runFigures) SentRate() (answer, error) { return r.number(kindPerS, r.run.Rate.SentPerS, true) }
func (r *runFigures) TargetRate() (answer, error) {
	return r.number(kindPerS, r.run.Load.TargetPerS, r.run.Load.TargetPerS > 0)
}

// Completed and Failed count requests; Errors counts those that failed or got an unexpected
// status, ErrorShare is their share of all.
func (r *runFigures) Completed() (answer, error) { return r.count(int(r.run.Requests.Completed)) }
func (r *runFigures) Failed() (answer, error)    { return r.count(int(r.run.Requests.Failed)) }
func (r *runFigures) Errors() (answer, error) {
	return r.number(kindCount, float64(r.bad()), r.all() > 0)
}
func (r *runFigures) ErrorShare() (answer, error) {
	return r.number(kindShare, float64(r.bad())/float64(r.all()), r.all() > 0)
}

func (r *runFigures) all() uint64 { return r.run.Requests.Completed + r.run.Requests.Failed }

func (r *runFigures) bad() uint64 {
	n := r.run.Requests.Failed
	for _, e := range r.run.Errors {
		if e.Phase == "status" && !e.BeforeWindow {
			n += e.Count
		}
	}
	return n
}

// Read and Written are bytes above TCP, Transfer is bytes read per second, BytesPerRequest is per
// response: head, framing and body.
func (r *runFigures) Read() (answer, error) {
	return r.number(kindBytes, float64(r.run.Bytes.Read), true)
}
func (r *runFigures) Written() (answer, error) {
	return r.number(kindBytes, float64(r.run.Bytes.Written), true)
}
func (r *runFigures) Transfer() (answer, error) {
	return r.number(kindBytesPS, float64(r.run.Bytes.Read)/r.run.ElapsedS, r.run.ElapsedS > 0)
}
func (r *runFigures) BytesPerRequest() (answer, error) {
	n := r.run.Requests.Completed
	return r.number(kindBytes, float64(r.run.Bytes.Read)/float64(n), n > 0)
}

// Outcome, Bottleneck, Because, Caveats, Next and NextBottleneck are the verdict.
func (r *runFigures) Outcome() (answer, error)    { return r.says(string(r.run.Verdict.Outcome)) }
func (r *runFigures) Bottleneck() (answer, error) { return r.says(string(r.run.Verdict.Bottleneck)) }
func (r *runFigures) Because() (answer, error)    { return r.says(prose.Sentence(r.run.Verdict.Because)) }
func (r *runFigures) Caveats() (answer, error)    { return r.says(prose.Sentence(r.run.Verdict.Caveats)) }
func (r *runFigures) Next() (answer, error)       { return r.says(prose.Sentence(r.run.Verdict.Next)) }
func (r *runFigures) NextBottleneck() (answer, error) {
	if n := r.run.Verdict.NextBottleneck; n != nil {
		return r.says(prose.Text(n.Says))
	}
	return r.number(kindText, 0, false)
}

// Station returns the share of a request's time spent at a station.
func (r *runFigures) Station(name string) (answer, error) {
	var names []string
	for _, s := range r.run.Verdict.Stations {
		if s.Name == name {
			return r.share(s.Share)
		}
		names = append(names, s.Name)
	}
	if r.of.Pending() {
		return r.share(0)
	}
	return answer{}, fmt.Errorf("unknown station %q%s", clip(name), nearTo(name, names))
}

// Headroom, BusiestWorker, RunDelay and GeneratorCPU describe the generator; ServerCPU is the
// server's CPU time per request.
func (r *runFigures) Headroom() (answer, error) {
	return r.number(kindTimes, r.run.Headroom(), r.run.Headroom() > 0)
}
func (r *runFigures) BusiestWorker() (answer, error) { return r.share(r.run.Generator.BusiestWorker) }
func (r *runFigures) RunDelay() (answer, error)      { return r.share(r.run.Generator.RunDelay) }
func (r *runFigures) GeneratorCPU() (answer, error) {
	return r.number(kindNs, r.run.Generator.CPUNsPerRequest, r.run.Generator.CPUNsPerRequest > 0)
}
func (r *runFigures) ServerCPU() (answer, error) {
	if s := r.run.Subject; s != nil {
		return r.number(kindNs, s.CPUNsPerRequest, true)
	}
	return r.number(kindNs, 0, false)
}

// Connections, Pipelining, Threads, Mode and Engine are load settings, Duration and Warmup their
// times; Target, Started and ID identify the run.
func (r *runFigures) Connections() (answer, error) { return r.count(r.run.Load.Connections) }
func (r *runFigures) Pipelining() (answer, error)  { return r.count(r.run.Load.Pipelining) }
func (r *runFigures) Threads() (answer, error)     { return r.count(r.run.Load.Threads) }
func (r *runFigures) Mode() (answer, error)        { return r.says(r.run.Load.Mode) }
func (r *runFigures) Engine() (answer, error)      { return r.says(r.run.Load.Engine) }
func (r *runFigures) Duration() (answer, error)    { return r.seconds(r.run.ElapsedS) }
func (r *runFigures) Warmup() (answer, error)      { return r.seconds(r.run.WarmupS) }
func (r *runFigures) Target() (answer, error)      { return r.says(r.run.Target) }
func (r *runFigures) Started() (answer, error)     { return r.when(r.run.Started) }
func (r *runFigures) ID() (answer, error)          { return r.says(r.run.ID) }

// planFigures are the figures of a plan.
type planFigures struct {
	machine
	source
	plan *record.Plan
}

func (e *Entry) planOf(of *Record) *planFigures {
	p, s := of.Plan, source{entry: e, of: of}
	if p == nil {
		p = new(record.Plan)
	}
	return &planFigures{machine{s, &p.Environment}, s, p}
}

// lacks is the error for an answer that the plan does not have.
func (p *planFigures) lacks(what string) error {
	if p.plan.Ended == "" && !p.of.Pending() {
		return fmt.Errorf("the plan was interrupted after %d runs and has no such answer; %s", len(p.plan.Runs), prose.Text(p.plan.Onward()))
	}
	return fmt.Errorf("a plan of kind %s has no %s", p.plan.Experiment.Kind, what)
}

// Says returns the answer in one sentence, for a sweep with a single curve.
func (p *planFigures) Says() (answer, error) {
	switch s := p.plan.Sweep; {
	case p.of.Pending():
	case s != nil && len(s.Curves) > 1:
		return answer{}, fmt.Errorf("a sweep of %d curves says something of each; take one, as in (curve %q %q).Says", len(s.Curves),
			p.of.Name, s.Curves[0].Server)
	case s == nil && p.plan.Search == nil && p.plan.Proof == nil && p.plan.Comparison == nil && p.plan.Factorial == nil:
		return answer{}, p.lacks("answer")
	}
	return p.says(prose.Text(p.plan.Says()))
}

// Count is the number of runs, Invalid the number of invalid ones.
func (p *planFigures) Count() (answer, error) { return p.count(len(p.plan.Runs)) }
func (p *planFigures) Invalid() (answer, error) {
	n := 0
	for i := range p.plan.Runs {
		if p.plan.Runs[i].Outcome == record.Invalid {
			n++
		}
	}
	return p.count(n)
}

// Kind, Question, SLO, Repeats, Seed, Duration, Connections and Pipelining are the plan's
// definition.
func (p *planFigures) Kind() (answer, error)     { return p.says(p.plan.Experiment.Kind) }
func (p *planFigures) Question() (answer, error) { return p.says(p.plan.Experiment.Question) }
func (p *planFigures) SLO() (answer, error)      { return p.says(p.plan.Experiment.SLO.String()) }
func (p *planFigures) Repeats() (answer, error)  { return p.count(p.plan.Experiment.Repeats) }
func (p *planFigures) Seed() (answer, error)     { return p.count(int(p.plan.Experiment.Seed)) }
func (p *planFigures) Duration() (answer, error) {
	return p.says(time.Duration(p.plan.Experiment.Load.Duration).String())
}
func (p *planFigures) Connections() (answer, error) {
	return counts(p, p.plan.Experiment.Load.Connections)
}
func (p *planFigures) Pipelining() (answer, error) {
	return counts(p, p.plan.Experiment.Load.Pipelining)
}

func counts[N ~int64](p *planFigures, list []N) (answer, error) {
	var texts []string
	between := ", "
	for _, n := range list {
		texts = append(texts, unit.FormatCount(int64(n)))
		if n >= 1000 {
			between = "; "
		}
	}
	return p.says(strings.Join(texts, between))
}

// Ended and Because are how it ended, Took its duration; Started and ID identify it.
func (p *planFigures) Ended() (answer, error)   { return p.says(p.plan.Ended) }
func (p *planFigures) Because() (answer, error) { return p.says(prose.Text(p.plan.Because)) }
func (p *planFigures) Took() (answer, error)    { return p.seconds(p.plan.TookS) }
func (p *planFigures) Started() (answer, error) { return p.when(p.plan.Created) }
func (p *planFigures) ID() (answer, error)      { return p.says(p.plan.ID) }

// answered returns a part of the plan's answer; empty for a plan not yet run.
func answered[T any](p *planFigures, part *T, what string) (*T, error) {
	if part == nil && p.of.Pending() {
		return new(T), nil
	}
	if part == nil {
		return nil, p.lacks(what)
	}
	return part, nil
}

// Capacity, Limit and Bottleneck are the answer of a search.
func (p *planFigures) Capacity() (answer, error) {
	s, err := answered(p, p.plan.Search, "capacity")
	if err != nil {
		return answer{}, err
	}
	return p.between(kindPerS, s.Capacity, true)
}
func (p *planFigures) Limit() (answer, error) {
	s, err := answered(p, p.plan.Search, "limit")
	if err != nil {
		return answer{}, err
	}
	return p.says(s.Limit)
}
func (p *planFigures) Bottleneck() (answer, error) {
	s, err := answered(p, p.plan.Search, "bottleneck of its own")
	if err != nil {
		return answer{}, err
	}
	return p.says(string(s.Bottleneck))
}

// Proved returns the answer of a proof.
func (p *planFigures) Proved() (answer, error) {
	proof, err := answered(p, p.plan.Proof, "proof")
	if err != nil {
		return answer{}, err
	}
	return p.says(proof.Proved)
}

// pointFigures are the figures of one condition: a point of a curve.
type pointFigures struct {
	quantiles
	source
	point *record.CurvePoint
	// name is the curve's name and the load.
	name string
	// linkBits is the rate of the experiment's own link, bits per second; 0: none.
	linkBits float64
}

// Rate, TargetRate, ServerCPU, GeneratorCPU, Errors (a share) and Outcome summarise all its runs.
func (p *pointFigures) Rate() (answer, error) { return p.between(kindPerS, p.point.PerS, true) }
func (p *pointFigures) TargetRate() (answer, error) {
	return p.number(kindPerS, p.point.TargetPerS, p.point.TargetPerS > 0)
}
func (p *pointFigures) ServerCPU() (answer, error) {
	return p.between(kindNs, p.point.ServerCPUNs, p.point.ServerCPUNs.Mid > 0)
}
func (p *pointFigures) GeneratorCPU() (answer, error) {
	return p.between(kindNs, p.point.GeneratorCPUNs, p.point.GeneratorCPUNs.Mid > 0)
}
func (p *pointFigures) Errors() (answer, error)  { return p.share(p.point.BadShare) }
func (p *pointFigures) Outcome() (answer, error) { return p.says(string(p.point.Outcome)) }

// asPoint returns the point itself, also of a curve or a cell.
func (p *pointFigures) asPoint() *pointFigures { return p }

// Run returns the first of its runs.
func (p *pointFigures) Run() (*runFigures, error) {
	if p.of.Pending() {
		return p.entry.runOf(p.of), nil
	}
	if p.wrong != nil {
		return nil, p.wrong
	}
	if len(p.point.RunIDs) == 0 {
		return nil, errors.New("the point names no runs")
	}
	return p.entry.run(p.of.Name + "/" + p.point.RunIDs[0])
}

// curveFigures are the figures of a curve, and of its point if it has one.
type curveFigures struct {
	pointFigures
	source
	curve *record.Curve
}

func (p *planFigures) curve(c *record.Curve) *curveFigures {
	out := &curveFigures{source: p.source, curve: c}
	own, point := p.source, new(record.CurvePoint)
	if len(c.Points) == 1 {
		point = &c.Points[0]
	} else {
		own.wrong = fmt.Errorf("the curve has %d points; say which by its load, as in (C.At 64).Rate: %s", len(c.Points), out.loads())
	}
	out.pointFigures = pointFigures{quantiles{own, point.Response}, own, point, out.name(), 0}
	return out
}

// Says and Bottleneck are the verdict on a curve.
func (c *curveFigures) Says() (answer, error)       { return c.says(prose.Text(c.curve.Says)) }
func (c *curveFigures) Bottleneck() (answer, error) { return c.says(string(c.curve.Bottleneck)) }

// Knee returns the load beyond which more load no longer helps.
func (c *curveFigures) Knee() (answer, error) {
	if k := c.curve.Knee; k != nil {
		return c.number(kindCount, k.High, k.High > 0)
	}
	return c.number(kindCount, 0, false)
}

// At returns the point of a load.
func (c *curveFigures) At(x float64) (*pointFigures, error) {
	point := new(record.CurvePoint)
	if i := slices.IndexFunc(c.curve.Points, func(p record.CurvePoint) bool { return p.X == x }); i >= 0 {
		point = &c.curve.Points[i]
	} else if !c.of.Pending() {
		return nil, fmt.Errorf("the curve has no point at %v; there is %s", x, c.loads())
	}
	return &pointFigures{quantiles{c.source, point.Response}, c.source, point, c.name() + fmt.Sprintf(", %s %v", c.curve.Over, x), 0}, nil
}

// name distinguishes the curve from others: fasthttp /read, 64 connections.
func (c *curveFigures) name() string {
	name := strings.TrimSpace(c.curve.Server + " " + c.curve.Mix)
	if fixed := prose.Fixed(c.curve); fixed != "" {
		name += ", " + fixed
	}
	return name
}

func (c *curveFigures) loads() string {
	var list []string
	for i := range c.curve.Points {
		list = append(list, fmt.Sprint(c.curve.Points[i].X))
	}
	return strings.Join(list, ", ")
}

// curveOf finds a curve by words that distinguish it: its server, its mix, or a fixed factor.
func (e *Entry) curveOf(name string, words ...string) (*curveFigures, error) {
	p, err := e.plan(name)
	if err != nil {
		return nil, err
	}
	sweep, err := answered(p, p.plan.Sweep, "curves")
	if err != nil {
		return nil, err
	}
	var found []*record.Curve
	var known []string
	for i := range sweep.Curves {
		c := &sweep.Curves[i]
		own := []string{c.Server, c.Mix, prose.Fixed(c)}
		if !slices.ContainsFunc(words, func(w string) bool { return !slices.Contains(own, w) }) {
			found = append(found, c)
		}
		known = append(known, own...)
	}
	slices.Sort(known)
	known = slices.Compact(known)
	switch {
	case p.of.Pending():
		return p.curve(new(record.Curve)), nil
	case len(found) == 1:
		return p.curve(found[0]), nil
	case len(found) > 1:
		return nil, fmt.Errorf("%d curves are called so; say which by its server, mix or what was fixed: %s", len(found), strings.Join(known, ", "))
	}
	for _, w := range words {
		if !slices.Contains(known, w) {
			return nil, fmt.Errorf("%s has no curve %q%s", name, clip(w), nearTo(w, known))
		}
	}
	return nil, fmt.Errorf("%s has no curve that is all of these", name)
}

// resourceFigures are the figures of one resource of a proof.
type resourceFigures struct {
	source
	resource record.Elasticity
}

// Elasticity is how strongly throughput follows the resource, Left how much of the resource
// remained.
func (r *resourceFigures) Elasticity() (answer, error) {
	return r.between(kindTwo, r.resource.Elasticity, true)
}
func (r *resourceFigures) Left() (answer, error) { return r.share(r.resource.Left) }

// metricFigures are the figures of one metric of a comparison.
type metricFigures struct {
	source
	change record.Change
}

// A and B are its two values, Change is B relative to A.
func (m *metricFigures) A() (answer, error) { return m.number(m.kind(), m.change.A, true) }
func (m *metricFigures) B() (answer, error) { return m.number(m.kind(), m.change.B, true) }
func (m *metricFigures) Change() (answer, error) {
	return m.between(kindChange, m.change.Relative, true)
}

func (m *metricFigures) kind() kind {
	if m.change.Unit == "ns" {
		return kindNs
	}
	return kindPerS
}

func (e *Entry) resource(name, resource string) (*resourceFigures, error) {
	p, err := e.plan(name)
	if err != nil {
		return nil, err
	}
	proof, err := answered(p, p.plan.Proof, "resources")
	if err != nil {
		return nil, err
	}
	r, err := named(p, proof.Resources, resource, func(r record.Elasticity) string { return r.Resource })
	return &resourceFigures{p.source, r}, err
}

func (e *Entry) metric(name, metric string) (*metricFigures, error) {
	p, err := e.plan(name)
	if err != nil {
		return nil, err
	}
	comparison, err := answered(p, p.plan.Comparison, "metrics")
	if err != nil {
		return nil, err
	}
	c, err := named(p, comparison.Changes, metric, func(c record.Change) string { return c.Metric })
	return &metricFigures{p.source, c}, err
}

// named returns the list element with a given name.
func named[T any](p *planFigures, list []T, name string, nameOf func(T) string) (found T, err error) {
	var names []string
	for _, one := range list {
		if nameOf(one) == name {
			return one, nil
		}
		names = append(names, nameOf(one))
	}
	if p.of.Pending() {
		return found, nil
	}
	return found, fmt.Errorf("%s has no %q%s", p.of.Name, clip(name), nearTo(name, names))
}

// cellFigures are the figures of one combination of levels of a factorial experiment.
type cellFigures struct {
	pointFigures
	cell *record.FactorialCell
	p50  record.Estimate
}

// P50 and P99 are medians over its runs.
func (c *cellFigures) P50() (answer, error) { return c.between(kindNs, c.p50, c.p50.Mid > 0) }
func (c *cellFigures) P99() (answer, error) {
	return c.between(kindNs, c.cell.P99Ns, c.cell.P99Ns.Mid > 0)
}

// Bottleneck is that of most of its runs.
func (c *cellFigures) Bottleneck() (answer, error) { return c.says(string(c.cell.Bottleneck)) }

// cellOf finds a cell by names of its levels.
func cellOf(e *Entry, name string, levels ...string) (*cellFigures, error) {
	p, f, err := factorialOf(e, name)
	if err != nil {
		return nil, err
	}
	out := &cellFigures{cell: new(record.FactorialCell)}
	out.pointFigures = pointFigures{quantiles{source: p.source}, p.source, new(record.CurvePoint), strings.Join(levels, ", "), 0}
	if p.of.Pending() {
		return out, nil
	}
	var found []*record.FactorialCell
	for i := range f.Cells {
		own := labelsOf(f, f.Cells[i].Levels)
		if !slices.ContainsFunc(levels, func(l string) bool { return !slices.Contains(own, l) }) {
			found = append(found, &f.Cells[i])
		}
	}
	if len(found) != 1 {
		return nil, fmt.Errorf("%d cells of %s have these levels; name one level of each factor: %s", len(found), name, levelsOf(f))
	}
	out.cell = found[0]
	*out.point, out.p50 = plan.CellPoint(p.plan.Runs, out.cell.Levels)
	out.point.PerS, out.point.ServerCPUNs = out.cell.PerS, out.cell.ServerCPUNs
	l := p.plan.Experiment.Cell(out.cell.Levels).Link
	rate, err := l.BitsPerS()
	out.linkBits = float64(rate)
	return out, err
}

// effectFigures are the changes by one level of a factor, relative to the factor's first.
type effectFigures struct {
	source
	changes map[string]record.Estimate // by metric
}

// Rate, P99 and ServerCPU are changes of these.
func (f *effectFigures) Rate() (answer, error)      { return f.change("rps") }
func (f *effectFigures) P99() (answer, error)       { return f.change("p99") }
func (f *effectFigures) ServerCPU() (answer, error) { return f.change("server_cpu") }

func (f *effectFigures) change(metric string) (answer, error) {
	v, known := f.changes[metric]
	return f.between(kindChange, v, known)
}

// effectOf finds the effect of a factor's level over all others, or, with a second factor and one of
// its levels, at that level.
func effectOf(e *Entry, name, factor, level string, given ...string) (*effectFigures, error) {
	p, f, err := factorialOf(e, name)
	if err != nil {
		return nil, err
	}
	if len(given) != 0 && len(given) != 2 {
		return nil, fmt.Errorf("an effect takes a factor and its level, and where needed a second factor and the level at which the effect is wanted")
	}
	out := &effectFigures{p.source, map[string]record.Estimate{}}
	if p.of.Pending() {
		return out, nil
	}
	for i := range f.Effects {
		x := &f.Effects[i]
		if x.Factor != factor || levelName(f, factor, x.Level) != level {
			continue
		}
		switch {
		case len(given) == 0 && x.With == "":
			out.changes[x.Metric] = x.Relative
		case len(given) == 0 || x.With != given[0] || len(x.Given) < 2:
		case given[1] == levelName(f, x.With, 0):
			out.changes[x.Metric] = x.Given[0]
		case given[1] == levelName(f, x.With, x.WithLevel):
			out.changes[x.Metric] = x.Given[1]
		}
	}
	if len(out.changes) == 0 {
		return nil, fmt.Errorf("%s has no effect of %s at level %s; its factors, in the order of their effects: %s", name, clip(factor), clip(level), levelsOf(f))
	}
	return out, nil
}

func factorialOf(e *Entry, name string) (*planFigures, *record.Factorial, error) {
	p, err := e.plan(name)
	if err != nil {
		return nil, nil, err
	}
	f, err := answered(p, p.plan.Factorial, "cells")
	return p, f, err
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
