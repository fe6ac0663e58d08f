// Package forecasting is the verb plan: what a measured server could reach on other hardware.
package forecasting

import (
	"encoding/json"
	"errors"
	"fmt"
	"os"
	"strings"

	"github.com/spf13/cobra"

	"ceiling/cmd/internal/command"
	"ceiling/cmd/internal/records"
	"ceiling/internal/unit"
	"ceiling/record"
	"ceiling/show/report"
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
and generator, the link's bytes and packets, and the disk's flushes. Each ceiling
has the range in which four of five published results lay around such forecasts
(docs/plan.md). With --target, it says how many machines that rate takes.

--check compares such forecasts with published points (docs/points.md): each is
forecast from the costs of another.`,
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
	p.StringVar(&f.here, "here", "", "describe it instead: 64cores,50Gbps or 64cores,12.5Gbps:50Gbps,2Mpps,3.5$/h")
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
	return report.Forecast(sh.Stdout, r, made, target, records.Layout(sh.Stdout, false))
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
	judged := audit.Judge(points.Points)
	return report.ForecastsChecked(sh.Stdout, forecast.Check(points.Points), &judged, records.Layout(sh.Stdout, false))
}
