// Package forecasting is the verb plan: what a measured server could reach on other hardware.
package forecasting

import (
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"math"
	"os"
	"strings"

	"github.com/spf13/cobra"

	"ceiling/cmd/internal/command"
	"ceiling/cmd/internal/records"
	"ceiling/internal/unit"
	"ceiling/record"
	"ceiling/show/layout"
	"ceiling/verdict/audit"
	"ceiling/verdict/forecast"
)

// flags are those of plan.
type flags struct {
	from, target, on, here, generator, check string
	asJSON                                   bool
}

// Completion completes a flag's value.
type Completion = func(*cobra.Command, []string, string) ([]string, cobra.ShellCompDirective)

// New returns the verb; runs completes the names of runs.
func New(sh *command.Shell, runs Completion) *cobra.Command {
	var f flags
	c := &cobra.Command{
		Use:   "plan --from RUN (--on MACHINE | --here CORES,LINK)",
		Short: "Forecast what a measured server could reach on other hardware",
		Long: `Divides what a machine has by what a request of a run costs: the CPU of server
and generator, and the link's bytes. Each ceiling has the range in which four of
five published results lay around such forecasts (docs/plan.md). With --target,
it says how many machines that rate takes.

--check holds such forecasts against a file of published points (docs/points.md):
each one from the costs of another.`,
		Example: `  ceiling plan --from x7f2 --target 1M --on c8i.32xlarge
  ceiling plan --from x7f2 --target 200k --here 16cores,10Gbps`,
		Args: command.Exactly(0, "no arguments: the run is --from RUN"),
		RunE: func(*cobra.Command, []string) error {
			return f.do(sh)
		},
	}
	p := c.Flags()
	p.SortFlags = false
	p.StringVar(&f.from, "from", "", "run whose costs carry the forecast: ID or file")
	p.StringVar(&f.target, "target", "", "rate to reach: 1M")
	p.StringVar(&f.on, "on", "", "machine of the server, as in c8i.32xlarge")
	p.StringVar(&f.here, "here", "", "describe it instead: 64cores,50Gbps or 64cores,12.5Gbps:50Gbps,3.5$/h")
	p.StringVar(&f.generator, "generator", "", "machine of each generator (default: as the server's)")
	p.StringVar(&f.check, "check", "", "instead: forecast every point of this file from another one's costs")
	p.BoolVar(&f.asJSON, "json", false, "print the result as one JSON document")
	for name, complete := range map[string]Completion{"from": runs, "on": completeMachines, "generator": completeMachines} {
		if err := c.RegisterFlagCompletionFunc(name, complete); err != nil {
			panic(err) // an unknown flag name: a bug in this function
		}
	}
	return c
}

func machineNames() string {
	list, err := forecast.Machines()
	if err != nil {
		return err.Error()
	}
	var names []string
	for _, m := range list {
		names = append(names, m.Name)
	}
	return strings.Join(names, ", ")
}

func completeMachines(*cobra.Command, []string, string) ([]string, cobra.ShellCompDirective) {
	return strings.Split(machineNames(), ", "), cobra.ShellCompDirectiveNoFileComp
}

// machines returns the server's machine and the generators'.
func (f *flags) machines() (server, generator *forecast.Machine, err error) {
	switch {
	case f.on == "" && f.here == "":
		return nil, nil, fmt.Errorf("a forecast needs a machine: --on %s, or --here 64cores,50Gbps", strings.SplitN(machineNames(), ",", 2)[0])
	case f.on != "" && f.here != "":
		return nil, nil, errors.New("--on, --here: both describe the server's machine; leave one of them out")
	case f.on != "":
		server, err = forecast.Named(f.on)
	default:
		if server, err = forecast.ParseMachine(f.here); err != nil {
			err = fmt.Errorf("--here: %w", err)
		}
	}
	if err != nil || f.generator == "" {
		return server, server, err
	}
	if generator, err = forecast.Named(f.generator); err != nil {
		if described, failed := forecast.ParseMachine(f.generator); failed == nil {
			return server, described, nil
		}
		err = fmt.Errorf("--generator: %w", err)
	}
	return server, generator, err
}

func (f *flags) do(sh *command.Shell) error {
	if f.check != "" {
		if f.from != "" || f.on != "" || f.here != "" || f.target != "" || f.generator != "" || f.asJSON {
			return command.Usage(errors.New("--check: the file has the machines and the costs; leave the other flags out"))
		}
		return check(sh, f.check)
	}
	if f.from == "" {
		return command.Usage(errors.New("--from: a forecast needs the costs of a run: --from RUN; ceiling list shows them"))
	}
	server, generator, err := f.machines()
	if err != nil {
		return command.Usage(err)
	}
	target := 0.0
	if f.target != "" {
		n, err := unit.ParseCount(f.target)
		if err != nil || n < 1 {
			return command.Usage(fmt.Errorf("--target: %s is not a rate; give --target 1M", f.target))
		}
		target = float64(n)
	}
	file, err := records.Find(sh, f.from)
	if err != nil {
		return err
	}
	if file.IsPlan() {
		return command.Usage(fmt.Errorf("--from: %s has several runs; give one of them: ceiling show %s", f.from, f.from))
	}
	r, _, err := record.Open(file)
	if err != nil {
		return err
	}
	made := forecast.Make(forecast.CostsOf(r), server, generator)
	if made.Sustained() == nil {
		return fmt.Errorf("%s has no costs to forecast from: %s; measure the server again: ceiling run URL", f.from, made.Missing[0].Lacks)
	}
	if f.asJSON {
		out := struct {
			*forecast.Forecast
			Need *forecast.Need `json:"need,omitempty"`
		}{Forecast: made}
		if target > 0 {
			need := made.For(target)
			out.Need = &need
		}
		e := json.NewEncoder(sh.Stdout)
		e.SetIndent("", "  ")
		return e.Encode(out)
	}
	return write(sh.Stdout, r, made, target, records.Layout(sh.Stdout, false).Output)
}

// write writes the ceilings, what the target takes, and what the forecast rests on.
func write(w io.Writer, r *record.Run, f *forecast.Forecast, target float64, l layout.Output) error {
	var b strings.Builder
	fact := func(name, text string) {
		for i, line := range l.Wrap(text, l.Width()-factColumn) {
			fmt.Fprintf(&b, "%-*s%s\n", factColumn, []string{name, ""}[min(i, 1)], line)
		}
	}
	c := &f.Costs
	fact("costs", fmt.Sprintf("of %s, %s at %s: %s", c.Of, r.Target, unit.FormatRate(c.PerS), costsText(c)))
	fact("server", machineText(&f.Server))
	if f.Generator != f.Server {
		fact("generator", machineText(&f.Generator))
	}
	b.WriteString("\n")
	t := layout.Table{Columns: []layout.Column{{Name: "ceiling"}, {Name: "req/s", Right: true}, {Name: "range", Right: true}}}
	for _, x := range f.Ceilings {
		t.Rows = append(t.Rows, []string{x.Resource, unit.FormatSI(x.PerS), unit.FormatSI(x.Low) + "–" + unit.FormatSI(x.High)})
		t.Bars = append(t.Bars, x.PerS)
	}
	for _, line := range t.Lines(l) {
		fmt.Fprintln(&b, line)
	}
	b.WriteString("\n")
	for _, m := range f.Missing {
		fact("not known", m.Resource+": it needs "+m.Lacks)
	}
	for _, text := range caveats(r) {
		fact("caveat", text)
	}
	fact("rests on", "a request costs the same CPU on every core there, and uses all of them; links carry "+
		"frames of 9,001 bytes. Four of five published results lay in these ranges, on machines of the same type (docs/plan.md)")
	top := f.Sustained()
	fact("first", fmt.Sprintf("%s, at %s (%s–%s) with one server and one generator", top.Resource, unit.FormatRate(top.PerS),
		unit.FormatSI(top.Low), unit.FormatSI(top.High)))
	if target > 0 {
		fact("answer", needText(f, f.For(target)))
	}
	_, err := io.WriteString(w, b.String())
	return err
}

// caveats says what of the run weakens its costs.
func caveats(r *record.Run) (list []string) {
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

// factColumn is where the texts of facts begin.
const factColumn = 11

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
	if m.Dollars > 0 {
		text += fmt.Sprintf(", $%.2f/h", m.Dollars)
	}
	return text + " (" + m.Source + ")"
}

// needText says what a rate takes.
func needText(f *forecast.Forecast, n forecast.Need) string {
	if n.Servers == 0 || n.Generators == 0 {
		lacks := "a ceiling"
		if len(f.Missing) > 0 {
			lacks = f.Missing[0].Lacks
		}
		return fmt.Sprintf("how many machines %s take cannot be said without %s", unit.FormatRate(n.PerS), lacks)
	}
	text := fmt.Sprintf("%s take %s and %s", unit.FormatRate(n.PerS), several(n.Servers, n.ServersMost, "server", "servers"),
		several(n.Generators, n.GeneratorsMost, "generator", "generators"))
	text += fmt.Sprintf(", %s and %s cores of CPU", unit.Digits(n.CoresServer, 2), unit.Digits(n.CoresGenerator, 2))
	if n.InFlight > 0 {
		text += fmt.Sprintf("; at least %s in flight", unit.FormatCount(int64(math.Ceil(n.InFlight))))
	}
	if n.DollarsPerHour > 0 {
		text += fmt.Sprintf("; at most $%.2f/h", n.DollarsPerHour)
	}
	return text
}

// several is "1 server", or "1 to 2 servers".
func several(n, most int, one, many string) string {
	if n == most {
		return unit.Plural(n, one, many)
	}
	return fmt.Sprintf("%d to %d %s", n, most, many)
}

// check prints every point's forecast beside what was measured, and the distribution of the errors.
func check(sh *command.Shell, path string) error {
	file, err := os.Open(path)
	if err != nil {
		return command.Usage(fmt.Errorf("--check: %w", err))
	}
	defer file.Close()
	points, err := record.ReadPoints(file)
	if err != nil {
		return command.Usage(fmt.Errorf("--check: %s: %w", path, err))
	}
	list, judged := forecast.Check(points.Points), audit.Judge(points.Points).Points
	t := layout.Table{Columns: []layout.Column{{Name: "point"}, {Name: "route", Drop: 2}, {Name: "costs of", Drop: 3}, {Name: "forecast", Right: true},
		{Name: "first", Least: 8}, {Name: "measured", Right: true}, {Name: "error", Right: true}, {Name: "why", Least: 12, Drop: 1}}}
	usable := map[*forecast.Checked]bool{}
	for i := range list {
		c := &list[i]
		usable[c] = forecast.Usable(&judged[i].Verdict)
		row := []string{judged[i].Label, c.Point.Route, "-", "-", "-", unit.FormatSI(c.Point.RPS.Value), "-", c.Refused}
		if c.Forecast != nil {
			top := c.Forecast.Sustained()
			row[2], row[3], row[4] = c.Forecast.Costs.Of, unit.FormatSI(top.PerS), top.Resource
			if row[7] = "the point contradicts itself"; usable[c] {
				row[6], row[7] = fmt.Sprintf("%+.1f%%", 100*c.Error()), c.Why()
			}
		}
		t.Rows = append(t.Rows, row)
	}
	out := records.Layout(sh.Stdout, false).Output
	for _, line := range t.Lines(out) {
		fmt.Fprintln(sh.Stdout, line)
	}
	e, median, n := forecast.Range(list, func(c *forecast.Checked) bool { return usable[c] })
	if n == 0 {
		fmt.Fprintln(sh.Stdout, "\nNo point has a forecast: two of one route and the same machines are needed, one with the CPU of a side.")
		return nil
	}
	fmt.Fprintf(sh.Stdout, "\nmedian error %.1f%% of %s; four of five measured %.0f–%.0f%% of their forecast\n", 100*median,
		unit.Plural(n, "point", "points"), 100*e.Low, 100*e.High)
	return nil
}
