package forecast

import (
	"cmp"
	"fmt"
	"math"
	"slices"
	"strings"

	"ceiling/record"
)

// Checked is a published result beside its forecast from the costs of another one.
type Checked struct {
	Point, From *record.Point
	Forecast    *Forecast // nil if it is refused
	Refused     string    // what is missing
}

// Error is measured over forecast, less 1: −0.1 where a tenth less was measured.
func (c *Checked) Error() float64 { return c.Point.RPS.Value/c.Forecast.Sustained().PerS - 1 }

// Usable reports whether a point's rate says anything of a forecast: it does not if its figures
// contradict each other. A generator at its limit is a measurement of the generator.
func Usable(v *record.Verdict) bool {
	return v.Outcome != record.Invalid || v.Bottleneck == record.LoadGenerator
}

// Why says what kept the point from its forecast, as far as the figures tell; "" where the error is
// small or nothing does.
func (c *Checked) Why() string {
	e, p := c.Error(), c.Point
	var parts []string
	switch {
	case p.ClientWorkers != c.From.ClientWorkers:
		parts = append(parts, fmt.Sprintf("%s generator workers, the costs are of %s", workers(p), workers(c.From)))
	case p.Connections.Value > 2*c.From.Connections.Value:
		parts = append(parts, fmt.Sprintf("%.1f times as many in flight as where the costs are from", p.Connections.Value/c.From.Connections.Value))
	case e < -.02 && p.Connections.Value < c.From.Connections.Value:
		parts = append(parts, fmt.Sprintf("%.0f connections, the costs are of %.0f: fewer in flight", p.Connections.Value, c.From.Connections.Value))
	}
	if e < -.02 && len(c.Forecast.Missing) > 0 {
		parts = append(parts, "an upper bound: the cost in "+c.Forecast.Missing[0].Resource+" is not stated")
	}
	return strings.Join(parts, "; ")
}

func workers(p *record.Point) string {
	if !p.ClientWorkers.Known {
		return "unstated"
	}
	return fmt.Sprintf("%.0f", p.ClientWorkers.Value)
}

// refusedNoCosts is why a point has no forecast where nothing says what a request costs there.
const refusedNoCosts = "no other point of the route on these machines states the CPU of a side"

// refusedNoWorkers is why a point has none where nothing says how much of its CPUs its generator could
// use.
const refusedNoWorkers = "the number of the generator's workers is not stated"

// Check forecasts every point of a file from the costs of another one of the same route on the same
// machines (nearer): of the higher rate, because a server's cost falls as its load rises.
func Check(points []record.Point) []Checked {
	var list []Checked
	for i := range points {
		p := &points[i]
		c := Checked{Point: p}
		if c.From = source(points, p); c.From == nil {
			c.Refused = refusedNoCosts
			list = append(list, c)
			continue
		}
		if c.From.ClientWorkers.Known && !p.ClientWorkers.Known {
			c.Refused = refusedNoWorkers
			list = append(list, c)
			continue
		}
		server, generator := hosts(p, c.From)
		f := Make(costsOfPoint(c.From), server, generator)
		if f.Sustained() == nil {
			c.Refused = "the machines' numbers of CPUs are not stated"
		} else {
			c.Forecast = f
		}
		list = append(list, c)
	}
	return list
}

// source returns the point whose costs forecast p; nil if there is none.
func source(points []record.Point, p *record.Point) *record.Point {
	var best *record.Point
	for i := range points {
		q := &points[i]
		if q == p || q.Route != p.Route || q.ServerInstance != p.ServerInstance || q.ClientInstance != p.ClientInstance ||
			!q.ServerCPUPct.Known && !q.ClientCPUPct.Known || !(q.RPS.Value > 0) || !(p.RPS.Value > 0) {
			continue
		}
		if best == nil || nearer(q, best, p) {
			best = q
		}
	}
	return best
}

// nearer reports whether q's costs are better for a forecast of p than those of another point: those
// of both sides, then those of as many generator workers, then those of the higher rate.
func nearer(q, than, p *record.Point) bool {
	both := func(x *record.Point) bool { return x.ServerCPUPct.Known && x.ClientCPUPct.Known }
	alike := func(x *record.Point) bool { return x.ClientWorkers == p.ClientWorkers }
	switch {
	case both(q) != both(than):
		return both(q)
	case alike(q) != alike(than):
		return alike(q)
	}
	return q.RPS.Value > than.RPS.Value
}

// costsOfPoint derives costs from a point: used cores over the rate, and bytes from whatever counts
// them. A response's head of 120 bytes is added to a body's size.
func costsOfPoint(p *record.Point) Costs {
	c := Costs{Of: p.ID, PerS: p.RPS.Value, Pipelined: p.Pipelining.Value > 1}
	if p.ServerCPUPct.Known && p.VCPUs.Known {
		c.ServerCPUNs = p.ServerCPUPct.Value / 100 * p.VCPUs.Value / p.RPS.Value * 1e9
	}
	if p.ClientCPUPct.Known && p.ClientVCPUs.Known {
		c.GeneratorCPUNs = p.ClientCPUPct.Value / 100 * p.ClientVCPUs.Value / p.RPS.Value * 1e9
	}
	switch {
	case p.NICMBS.Known:
		c.ResponseBytes = p.NICMBS.Value * 1e6 / p.RPS.Value
	case p.ClientThroughput.Known:
		c.ResponseBytes = p.ClientThroughput.Value * 1e6 / p.RPS.Value
	case p.BodyBytes.Known:
		c.ResponseBytes = p.BodyBytes.Value + headBytes
	}
	return c
}

// headBytes is the head of fasthttp's and fiber's responses: status line, Server, Date, Content-Type
// and Content-Length.
const headBytes = 120

// hosts returns the machines of p. Its generator uses no more CPUs than it has workers, or than those
// of the costs' point used.
func hosts(p, from *record.Point) (server, generator *Machine) {
	vcpus := p.ClientVCPUs.Value
	if p.ClientWorkers.Known {
		vcpus = min(vcpus, max(p.ClientWorkers.Value, from.ClientCPUPct.Value/100*from.ClientVCPUs.Value))
	}
	return &Machine{Name: p.ServerInstance, VCPUs: p.VCPUs.Value, BaselineGbps: cmp.Or(p.NICGbpsSpec.Value, p.NICGbps.Value)},
		&Machine{Name: p.ClientInstance, VCPUs: vcpus, BaselineGbps: p.ClientNICGbpsSpec.Value}
}

// Errors is the range of measured rates over forecasts in which four of five lie.
type Errors struct{ Low, High float64 }

// cpuErrors and linkErrors are the ranges over the published points (docs/plan.md): forecasts whose
// lowest ceiling is a CPU's, and the link's. A test holds them to the check.
func cpuErrors() Errors  { return Errors{0.80, 1.07} }
func linkErrors() Errors { return Errors{0.62, 1.00} }

// Range returns the range in which four of five of the chosen points' rates lie, relative to their
// forecasts, the median of the sizes of the errors, and the number of points.
func Range(list []Checked, keep func(*Checked) bool) (e Errors, median float64, n int) {
	var ratios, sizes []float64
	for i := range list {
		if c := &list[i]; c.Forecast != nil && keep(c) {
			ratios, sizes = append(ratios, 1+c.Error()), append(sizes, math.Abs(c.Error()))
		}
	}
	if len(ratios) == 0 {
		return e, 0, 0
	}
	slices.Sort(ratios)
	slices.Sort(sizes)
	at := func(q float64) float64 { return ratios[int(q*float64(len(ratios)-1)+.5)] }
	return Errors{at(.1), at(.9)}, sizes[len(sizes)/2], len(ratios)
}
