package plan

import (
	"cmp"
	"fmt"
	"math/rand/v2"
	"slices"
	"strings"

	"ceiling/experiment/spec"
	"ceiling/internal/stat"
	"ceiling/internal/unit"
	"ceiling/record"
)

// confidence of every interval of a sweep.
const confidence = 0.95

// The dimensions of a curve.
const (
	OverConnections = "connections"
	OverPipelining  = "pipelining"
	OverRate        = "rate"
	OverThreads     = "threads"
)

// spellSweep is a randomised complete block design: every repeat is one pass over all conditions
// in its own order, so that warming up, or a short disturbance, does not affect a single
// condition.
func spellSweep(e *spec.Experiment) []record.Step {
	rates := e.Load.Rate
	if len(rates) == 0 {
		rates = []unit.Rate{{}}
	}
	threads := spec.ThreadCounts(&e.Load)
	all := []record.Step{{}}
	all = cross(all, len(e.Servers), func(s *record.Step, i int) { s.Server = i })
	all = cross(all, len(e.Requests), func(s *record.Step, i int) { s.Mix = i })
	all = cross(all, len(e.Load.Pipelining), func(s *record.Step, i int) { s.Pipelining = int(e.Load.Pipelining[i]) })
	all = cross(all, len(threads), func(s *record.Step, i int) { s.Threads = int(threads[i]) })
	all = cross(all, len(e.Load.Connections), func(s *record.Step, i int) { s.Connections = int(e.Load.Connections[i]) })
	all = cross(all, len(rates), func(s *record.Step, i int) { s.Rate = rates[i] })
	chance := rand.New(rand.NewPCG(e.Seed, 1))
	steps := make([]record.Step, 0, len(all)*e.Repeats)
	for repeat := range e.Repeats {
		for _, i := range chance.Perm(len(all)) {
			s := all[i]
			s.Repeat = repeat + 1
			steps = append(steps, s)
		}
	}
	return steps
}

// cross returns every step with each of n values, which set puts in.
func cross(steps []record.Step, n int, set func(s *record.Step, i int)) []record.Step {
	var all []record.Step
	for _, s := range steps {
		for i := range n {
			set(&s, i)
			all = append(all, s)
		}
	}
	return all
}

// over returns the dimension of the curves: the first of connections, pipelining, rate and threads
// that has more than one value.
func over(e *spec.Experiment) string {
	switch {
	case len(e.Load.Connections) > 1:
		return OverConnections
	case len(e.Load.Pipelining) > 1:
		return OverPipelining
	case len(e.Load.Rate) > 1:
		return OverRate
	case len(e.Load.Threads) > 1:
		return OverThreads
	}
	return ""
}

// curveKey is everything but the dimension of the curve.
type curveKey struct {
	server, mix, connections, pipelining, threads int
	rate                                          string
}

func keyOf(s *record.Step, over string) curveKey {
	k := curveKey{s.Server, s.Mix, s.Connections, s.Pipelining, s.Threads, s.Rate.String()}
	switch over {
	case OverConnections:
		k.connections = 0
	case OverPipelining:
		k.pipelining = 0
	case OverRate:
		k.rate = ""
	case OverThreads:
		k.threads = 0
	}
	return k
}

// abscissa is a step's position on its curve.
func abscissa(s *record.Step, over string) float64 {
	switch over {
	case OverPipelining:
		return float64(s.Pipelining)
	case OverRate:
		return s.Rate.PerSecond()
	case OverThreads:
		return float64(s.Threads)
	}
	return float64(s.Connections)
}

// concludeSweep groups the runs into points and the points into curves.
func concludeSweep(p *record.Plan) {
	e := &p.Experiment
	over := over(e)
	byCurve := map[curveKey]map[float64][]*record.Measured{}
	for i := range p.Runs {
		m := &p.Runs[i]
		k := keyOf(&m.Step, over)
		if byCurve[k] == nil {
			byCurve[k] = map[float64][]*record.Measured{}
		}
		x := abscissa(&m.Step, over)
		byCurve[k][x] = append(byCurve[k][x], m)
	}
	keys := make([]curveKey, 0, len(byCurve))
	for k := range byCurve {
		keys = append(keys, k)
	}
	slices.SortFunc(keys, func(a, b curveKey) int {
		return cmp.Or(cmp.Compare(a.mix, b.mix), cmp.Compare(a.server, b.server), cmp.Compare(a.pipelining, b.pipelining),
			cmp.Compare(a.connections, b.connections), cmp.Compare(a.rate, b.rate), cmp.Compare(a.threads, b.threads))
	})
	p.Sweep = &record.Sweep{Curves: []record.Curve{}}
	for _, k := range keys {
		c := record.Curve{Server: e.Servers[k.server].Label(), Mix: e.Requests[k.mix].Label(), Over: over, Fixed: fixed(e, k, over)}
		for x, runs := range byCurve[k] {
			c.Points = append(c.Points, curvePoint(x, runs))
		}
		slices.SortFunc(c.Points, func(a, b record.CurvePoint) int { return cmp.Compare(a.X, b.X) })
		concludeCurve(&c, e)
		p.Sweep.Curves = append(p.Sweep.Curves, c)
	}
	// A sweep looks for points that fail the SLO; it is invalid only if no run is valid.
	p.Exit = exitInvalid
	for _, c := range p.Sweep.Curves {
		for _, q := range c.Points {
			switch {
			case q.Outcome == record.Invalid:
			case q.BadShare <= mostly:
				p.Exit = 0
			case p.Exit == exitInvalid: // mostly errors: not a measurement of the requests
				p.Exit = exitFail
			}
		}
	}
}

// fixed returns the dimensions of a sweep that do not change along a curve.
func fixed(e *spec.Experiment, k curveKey, over string) []record.Statement {
	parts := []record.Statement{}
	if over != OverConnections {
		parts = append(parts, say("load.connections", with{"connections": k.connections}))
	}
	if over != OverPipelining && len(e.Load.Pipelining) > 1 || k.pipelining > 1 {
		parts = append(parts, say("load.pipelining", with{"pipelining": k.pipelining}))
	}
	if over != OverRate && len(e.Load.Rate) > 0 {
		rate, _ := unit.ParseRate(k.rate) // formatted by us
		parts = append(parts, say("load.target", with{"per_s": rate.PerSecond()}))
	}
	if k.threads > 0 {
		parts = append(parts, say("load.threads", with{"threads": k.threads}))
	}
	return parts
}

// curvePoint summarises one condition. It excludes invalid runs, unless all are invalid: then it
// shows them, and the point's outcome says so.
func curvePoint(x float64, runs []*record.Measured) record.CurvePoint {
	first := runs[0]
	p := record.CurvePoint{X: x, Connections: first.Connections, Pipelining: first.Pipelining, Threads: first.Threads,
		TargetPerS: first.TargetPerS}
	counted := slices.DeleteFunc(slices.Clone(runs), func(m *record.Measured) bool { return m.Outcome == record.Invalid })
	p.Invalid = len(runs) - len(counted)
	if len(counted) == 0 {
		counted = runs
	}
	p.Runs = len(counted)
	times := new(responseTimes)
	var bad float64
	var completed uint64
	var server, generator, read, inFlight []float64
	outcomes, ceilings := map[record.Outcome]int{}, map[record.Bottleneck]int{}
	for _, m := range counted {
		p.PerRun, p.RunIDs = append(p.PerRun, m.CompletedPerS), append(p.RunIDs, m.Run)
		times.add(m.Histogram, m.Waiting)
		all := float64(m.Completed + m.Failed)
		bad, completed = bad+m.BadShare*all, completed+m.Completed+m.Failed
		if m.ServerCPUNs > 0 {
			server = append(server, m.ServerCPUNs)
		}
		if m.GeneratorCPUNs > 0 {
			generator = append(generator, m.GeneratorCPUNs)
		}
		if m.ReadBytesPerS > 0 {
			read = append(read, m.ReadBytesPerS)
		}
		if n := record.MeanInFlight(m); n > 0 {
			inFlight = append(inFlight, n)
		}
		outcomes[m.Outcome]++
		ceilings[m.Bottleneck]++
	}
	p.Response = times.quantiles()
	p.PerS, p.ServerCPUNs, p.GeneratorCPUNs = median(p.PerRun), median(server), median(generator)
	if len(read) > 0 {
		p.ReadBytesPerS = median(read)
	}
	if len(inFlight) > 0 {
		p.InFlight = median(inFlight)
	}
	if completed > 0 {
		p.BadShare = bad / float64(completed)
	}
	p.Outcome, _ = majority(outcomes)
	p.Bottleneck, p.Split = majority(ceilings)
	return p
}

// majority returns the most frequent name and, if there are others, the counts.
func majority[T ~string](counts map[T]int) (name T, split string) {
	names := make([]T, 0, len(counts))
	for n := range counts {
		names = append(names, n)
	}
	slices.SortFunc(names, func(a, b T) int { return cmp.Or(cmp.Compare(counts[b], counts[a]), cmp.Compare(a, b)) })
	switch len(names) {
	case 0:
		return "", ""
	case 1:
		return names[0], ""
	}
	var parts []string
	for _, n := range names {
		parts = append(parts, fmt.Sprintf("%s %d", n, counts[n]))
	}
	return names[0], strings.Join(parts, ", ")
}

// median of a few runs. Fewer than six give no interval of 95 %, so the minimum and the maximum
// take its place.
func median(values []float64) record.Estimate {
	if len(values) == 0 {
		return record.Estimate{Warnings: []record.Statement{say("measured.no-value", nil)}}
	}
	m, err := stat.Median(values, confidence)
	if err != nil {
		return record.Estimate{Warnings: []record.Statement{say("stat.failed", with{"error": err.Error()})}}
	}
	return estimate(m)
}

func estimate(e stat.Estimate) record.Estimate {
	return record.Estimate{Mid: e.Value, Low: e.Low, High: e.High, Confidence: e.Confidence, Warnings: warned(e.Warnings)}
}
