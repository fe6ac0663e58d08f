package plan

import (
	"cmp"
	"fmt"
	"math/rand/v2"
	"slices"
	"strings"

	"ceiling/experiment/spec"
	"ceiling/internal/stat"
	"ceiling/record"
)

// confidence of every interval of a sweep.
const confidence = 0.95

// spellSweep is a randomised complete block design: every repeat is one pass over all conditions
// in its own order, so that warming up, or a short disturbance, does not affect a single
// condition.
func spellSweep(e *spec.Experiment) []record.Step {
	var all []record.Step
	for server := range e.Servers {
		for mix := range e.Requests {
			for _, c := range e.Load.Conditions() {
				all = append(all, record.Step{Server: server, Mix: mix, Condition: c})
			}
		}
	}
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

// curveKey is everything but the dimension of the curve.
type curveKey struct {
	server, mix int
	spec.Condition
}

// concludeSweep groups the runs into points and the points into curves.
func concludeSweep(p *record.Plan) {
	e := &p.Experiment
	over := e.Load.Over()
	byCurve := map[curveKey]map[float64][]*record.Measured{}
	for i := range p.Runs {
		m := &p.Runs[i]
		k := curveKey{m.Server, m.Mix, m.Condition.Without(over)}
		if byCurve[k] == nil {
			byCurve[k] = map[float64][]*record.Measured{}
		}
		x := over.Of(&m.Condition)
		byCurve[k][x] = append(byCurve[k][x], m)
	}
	keys := make([]curveKey, 0, len(byCurve))
	for k := range byCurve {
		keys = append(keys, k)
	}
	slices.SortFunc(keys, func(a, b curveKey) int {
		return cmp.Or(cmp.Compare(a.mix, b.mix), cmp.Compare(a.server, b.server), cmp.Compare(a.Pipelining, b.Pipelining),
			cmp.Compare(a.Connections, b.Connections), cmp.Compare(a.Rate.String(), b.Rate.String()), cmp.Compare(a.Threads, b.Threads))
	})
	p.Sweep = &record.Sweep{Curves: []record.Curve{}}
	for _, k := range keys {
		c := record.Curve{Server: e.Servers[k.server].Label(), Mix: e.Requests[k.mix].Label(), Over: over, Fixed: fixed(e, &k.Condition, over)}
		for x, runs := range byCurve[k] {
			c.Points = append(c.Points, curvePoint(x, runs))
		}
		slices.SortFunc(c.Points, func(a, b record.CurvePoint) int { return cmp.Compare(a.X, b.X) })
		concludeCurve(&c, e, byCurve[k])
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
func fixed(e *spec.Experiment, k *spec.Condition, over spec.Dimension) []record.Statement {
	parts := []record.Statement{}
	if over != spec.OverConnections {
		parts = append(parts, say("load.connections", with{"connections": k.Connections}))
	}
	if over != spec.OverPipelining && len(e.Load.Pipelining) > 1 || k.Pipelining > 1 {
		parts = append(parts, say("load.pipelining", with{"pipelining": k.Pipelining}))
	}
	if over != spec.OverRate && len(e.Load.Rate) > 0 {
		parts = append(parts, say("load.target", with{"per_s": k.Rate.PerSecond()}))
	}
	if k.Threads > 0 {
		parts = append(parts, say("load.threads", with{"threads": k.Threads}))
	}
	return parts
}

// curvePoint summarises one condition. It excludes invalid runs, unless all are invalid: then it
// shows them, and the point's outcome says so.
func curvePoint(x float64, runs []*record.Measured) record.CurvePoint {
	first := runs[0]
	p := record.CurvePoint{X: x, Condition: first.Condition, TargetPerS: first.TargetPerS}
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
