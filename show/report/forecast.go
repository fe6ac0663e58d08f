package report

import (
	"fmt"
	"io"
	"math"
	"strings"

	"ceiling/internal/unit"
	"ceiling/record"
	"ceiling/show/layout"
	"ceiling/verdict/audit"
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
		"Four of five published results lay in these ranges, on machines of the same type (docs/plan.md)")
	if f.Of(forecast.DiskFlushes) != nil {
		p.fact("", "the disk there flushes as fast as the one measured, one flush at a time; no published result checks this ceiling")
	}
	top := f.Sustained()
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
		list = append(list, "the run's server works on one thread: the ceiling is that of one core, however many there are")
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
	text := fmt.Sprintf("%s: %s", m.Name, unit.Plural(int(m.VCPUs), "CPU", "CPUs"))
	switch {
	case m.BurstGbps > m.BaselineGbps:
		text += fmt.Sprintf(", %s Gbit/s, %s for a while", unit.Digits(m.BaselineGbps, 4), unit.Digits(m.BurstGbps, 4))
	case m.BaselineGbps > 0:
		text += fmt.Sprintf(", %s Gbit/s", unit.Digits(m.BaselineGbps, 4))
	}
	if m.PacketsPerS > 0 {
		text += ", " + unit.FormatSI(m.PacketsPerS) + " packets/s"
	}
	if m.Dollars > 0 {
		text += fmt.Sprintf(", $%.2f/h", m.Dollars)
	}
	return text + " (" + m.Source + ")"
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
	if n.DollarsPerHour > 0 {
		text += fmt.Sprintf("; at most $%.2f/h", n.DollarsPerHour)
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

// ForecastsChecked writes every point's forecast beside what was measured, and the distribution of
// the errors.
func ForecastsChecked(w io.Writer, list []forecast.Checked, v *audit.PointsVerdict, l Layout) error {
	p := &printer{w: w, Layout: l}
	t := layout.Table{Columns: []layout.Column{{Name: "point"}, {Name: "route", Drop: 2}, {Name: "costs of", Drop: 3}, {Name: "forecast", Right: true},
		{Name: "first", Least: 8}, {Name: "measured", Right: true}, {Name: "error", Right: true}, {Name: "why", Least: 12, Drop: 1}}}
	usable := map[*forecast.Checked]bool{}
	for i := range list {
		c, judged := &list[i], &v.Points[i]
		usable[c] = forecast.Usable(&judged.Verdict)
		row := []string{oneLine(judged.Label), oneLine(c.Point.Route), "-", "-", "-", unit.FormatSI(c.Point.RPS.Value), "-", c.Refused}
		if c.Forecast != nil {
			top := c.Forecast.Sustained()
			row[2], row[3], row[4] = oneLine(c.Forecast.Costs.Of), unit.FormatSI(top.PerS), top.Resource
			if row[7] = "the point contradicts itself"; usable[c] {
				row[6], row[7] = fmt.Sprintf("%+.1f%%", 100*c.Error()), c.Why()
			}
		}
		t.Rows = append(t.Rows, row)
	}
	p.table(&t)
	p.line("")
	e, median, n := forecast.Range(list, func(c *forecast.Checked) bool { return usable[c] })
	if n == 0 {
		p.text(0, "No point has a forecast: two of one route and the same machines are needed, one with the CPU of a side.")
		return p.err
	}
	p.text(0, fmt.Sprintf("median error %.1f%% of %s; four of five measured %.0f–%.0f%% of their forecast", 100*median,
		unit.Plural(n, "point", "points"), 100*e.Low, 100*e.High))
	return p.err
}
