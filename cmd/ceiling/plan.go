package main

import (
	"encoding/json"
	"errors"
	"fmt"

	"github.com/spf13/cobra"

	"ceiling/cmd/internal/command"
	"ceiling/cmd/internal/records"
	"ceiling/internal/unit"
	"ceiling/record"
	"ceiling/show/report"
	"ceiling/verdict/forecast"
)

// forecastFlags are those of plan.
type forecastFlags struct {
	from, target, here, generator string
	asJSON                        bool
}

func newPlan(sh *shell) *cobra.Command {
	var f forecastFlags
	c := &cobra.Command{
		Use:   "plan --from RUN --here CORES,LINK",
		Short: "Forecast what a measured server could reach on other hardware",
		Long: `Divides what a machine has by what a request of a run costs: the CPU of server
and generator, the link's bytes and packets, and the disk's flushes. Each ceiling
has the range in which four of five published results lay around such forecasts
(docs/plan.md). With --target, it says how many machines that rate takes.`,
		Example: `  ceiling plan --from x7f2 --here 16cores,10Gbps
  ceiling plan --from x7f2 --target 1M --here 128cores,50Gbps`,
		Args: command.Exactly(0, "no arguments: the run is --from RUN"),
		RunE: func(*cobra.Command, []string) error {
			return sh.plan(&f)
		},
	}
	p := c.Flags()
	p.SortFlags = false
	p.StringVar(&f.from, "from", "", "run to take the costs from: ID or file")
	p.StringVar(&f.target, "target", "", "rate to reach: 1M")
	p.StringVar(&f.here, "here", "", "machine of the server: 64cores,50Gbps or 64cores,50Gbps,2Mpps")
	p.StringVar(&f.generator, "generator", "", "machine of each generator (default: as the server's)")
	p.BoolVar(&f.asJSON, "json", false, "print the result as one JSON document")
	if err := c.RegisterFlagCompletionFunc("from", completeRuns); err != nil {
		panic(err) // an unknown flag name: a bug in this function
	}
	return c
}

// machines returns the server's machine and the generators'.
func (f *forecastFlags) machines() (server, generator *forecast.Machine, err error) {
	if f.here == "" {
		return nil, nil, errors.New("a forecast needs a machine: --here 64cores,50Gbps")
	}
	if server, err = forecast.ParseMachine(f.here); err != nil {
		return nil, nil, fmt.Errorf("--here: %w", err)
	}
	if f.generator == "" {
		return server, server, nil
	}
	if generator, err = forecast.ParseMachine(f.generator); err != nil {
		return nil, nil, fmt.Errorf("--generator: %w", err)
	}
	return server, generator, nil
}

func (sh *shell) plan(f *forecastFlags) error {
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
	file, err := records.Find(&sh.Shell, f.from)
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
	if len(made.Ceilings) == 0 {
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
