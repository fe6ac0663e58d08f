package report

import (
	"fmt"
	"io"
	"math"
	"strings"

	"ceiling/internal/unit"
	"ceiling/record"
	"ceiling/show/layout"
	"ceiling/verdict/forecast"
)

// Forecast writes the ceilings of a forecast from a run, what it rests on, and what a target rate
// takes; 0 for none.
func Forecast(w io.Writer, r *record.Run, f *forecast.Forecast, target float64, l Layout) error {
	p := &printer{w: w, Layout: l}
	c := &f.Costs
	p.fact("costs", fmt.Sprintf("of %s, %s at %s: %s", c.Of, targetLine(r), unit.FormatRate(c.PerS), costsText(c)))
	p.fact("server", machineText(&f.Server))
	if f.Generator != f.Server {
		p.fact("generator", machineText(&f.Generator))
	}
	p.line("")
	t := layout.Table{Columns: []layout.Column{{Name: "ceiling"}, {Name: "req/s", Right: true}, {Name: "range", Right: true}}}
	for _, x := range f.Ceilings {
		t.Rows = append(t.Rows, []string{x.Resource, unit.FormatSI(x.PerS), unit.Range(unit.FormatSI(x.Low), "–", unit.FormatSI(x.High))})
		t.Bars = append(t.Bars, x.PerS)
	}
	p.table(&t)
	p.line("")
	for _, m := range f.Missing {
		p.fact("not known", m.Resource+": it needs "+m.Lacks)
	}
	p.facts("caveats", forecastCaveats(r))
	p.fact("assumes", "a request costs the same CPU on every core there, and uses all of them; links carry frames of 9,001 bytes. "+
		"Four of five published results lay in these ranges, on machines of the same type; of the one pair of different types "+
		"the forecast was 1.19M and 2.07M were measured, 74% more (docs/plan.md)")
	if f.Of(forecast.DiskFlushes) != nil {
		p.fact("", "the disk there flushes as fast as the one measured, one flush at a time; no published result checks this ceiling")
	}
	top := &f.Ceilings[0]
	p.fact("first", fmt.Sprintf("%s, at %s (%s) with one server and one generator", top.Resource, unit.FormatRate(top.PerS),
		unit.Range(unit.FormatSI(top.Low), "–", unit.FormatSI(top.High))))
	if target > 0 {
		p.answer(forecastNeed(f, f.For(target)))
	}
	return p.err
}

// forecastCaveats says what of the run weakens its costs.
func forecastCaveats(r *record.Run) (list []string) {
	v := &r.Verdict
	switch v.Bottleneck {
	case record.ServerCPU, record.SharedCPU, record.LoadGenerator, record.Bandwidth, record.TargetRate, record.Concurrency:
	case record.ServerThread:
		list = append(list, "the run's server works on one thread: the ceiling is one core's, however many there are")
	default:
		list = append(list, fmt.Sprintf("the run was limited by %s, which other hardware may not lift", v.Bottleneck))
	}
	if v.Outcome == record.Invalid && v.Bottleneck != record.LoadGenerator || r.BadShare() > 0.01 {
		list = append(list, fmt.Sprintf("the run is %s: what its requests cost may not be what a good one costs", v.Outcome))
	}
	return list
}

func costsText(c *forecast.Costs) string {
	var parts []string
	if c.ServerCPUNs > 0 {
		parts = append(parts, "server "+unit.FormatNsFloat(c.ServerCPUNs))
	}
	if c.GeneratorCPUNs > 0 {
		parts = append(parts, "generator "+unit.FormatNsFloat(c.GeneratorCPUNs))
	}
	text := strings.Join(parts, ", ") + " CPU/request"
	if c.ResponseBytes > 0 {
		text += fmt.Sprintf("; responses of %s, requests of %s", unit.FormatBytesSI(int64(c.ResponseBytes+.5)), unit.FormatBytesSI(int64(c.RequestBytes+.5)))
	}
	if c.Packets > 0 {
		text += "; " + unit.Digits(c.Packets, 2) + " packets each way"
	}
	if c.Flushes > 0 {
		text += "; " + unit.Digits(c.Flushes, 2) + " disk flushes of " + unit.FormatNsFloat(c.FlushNs)
	}
	if c.ResponseNs > 0 {
		text += "; " + unit.FormatNs(int64(c.ResponseNs)) + " unloaded"
	}
	return text
}

func machineText(m *forecast.Machine) string {
	text := unit.Plural(int(m.VCPUs), "CPU", "CPUs")
	if m.Gbps > 0 {
		text += fmt.Sprintf(", %s Gbit/s", unit.Digits(m.Gbps, 4))
	}
	if m.PacketsPerS > 0 {
		text += ", " + unit.FormatSI(m.PacketsPerS) + " packets/s"
	}
	return text
}

// forecastNeed says what a rate takes.
func forecastNeed(f *forecast.Forecast, n forecast.Need) string {
	if n.Servers == 0 || n.Generators == 0 {
		lacks := "a ceiling"
		if len(f.Missing) > 0 {
			lacks = f.Missing[0].Lacks
		}
		return fmt.Sprintf("how many machines %s take cannot be said without %s", unit.FormatRate(n.PerS), lacks)
	}
	text := fmt.Sprintf("%s take %s and %s", unit.FormatRate(n.PerS), machineCount(n.Servers, n.ServersMost, "server", "servers"),
		machineCount(n.Generators, n.GeneratorsMost, "generator", "generators"))
	text += fmt.Sprintf(", %s and %s cores of CPU", unit.Digits(n.CoresServer, 2), unit.Digits(n.CoresGenerator, 2))
	if n.InFlight > 0 {
		text += fmt.Sprintf("; at least %s in flight", unit.FormatCount(int64(math.Ceil(n.InFlight))))
	}
	return text
}

// machineCount is "1 server", or "1 to 2 servers".
func machineCount(n, most int, one, many string) string {
	if n == most {
		return unit.Plural(n, one, many)
	}
	return fmt.Sprintf("%d to %d %s", n, most, many)
}
