package main

import (
	"fmt"

	"github.com/spf13/cobra"
	"github.com/spf13/pflag"

	"ceiling/cmd/internal/command"
	"ceiling/experiment/spec"
	"ceiling/internal/unit"
)

func newFind(sh *shell) *cobra.Command {
	var f runFlags
	var start, most string
	var within float64
	c := &cobra.Command{
		Use:   "find URL",
		Short: "Find the highest rate that meets an SLO",
		Long: `Raises the rate of an open loop until the SLO fails, then bisects; each rate is
measured more than once. A run that can no longer pass stops early.`,
		Example: `  ceiling find --slo 'p99<5ms,errors<0.1%' http://127.0.0.1:8080/read
  ceiling find --slo 'p99.9<50ms' --start 2k --max-rate 20k -d 10s localhost:8080/`,
		Args: urlOrTargets(&f),
		RunE: func(c *cobra.Command, args []string) error {
			e, err := f.experiment(c.Context(), spec.KindFind, args, sh)
			if err == nil && !f.changed("connections") {
				e.Load.Connections = nil // chosen by the rate
			}
			if err == nil {
				err = bounds(&e.Find, start, most, within)
			}
			return sh.explore(c.Context(), &f, e, err)
		},
	}
	return sh.declare(c, &f, func(p *pflag.FlagSet) {
		p.StringVar(&start, "start", "", "first rate to test, requests/s (default: auto)")
		p.StringVar(&most, "max-rate", "", "upper bound for the search (default: none)")
		p.Float64Var(&within, "precision", 0.03, "target precision of the answer (0.03 = 3%)")
		hide(c, "rate")
		p.Lookup("duration").DefValue, f.load.duration = "5s", "5s"
	})
}

func bounds(f *spec.Find, start, most string, within float64) error {
	for _, b := range []struct {
		into       *spec.Count
		flag, text string
	}{{&f.Start, "--start", start}, {&f.Most, "--max-rate", most}} {
		if b.text == "" {
			continue
		}
		n, err := unit.ParseCount(b.text)
		if err != nil {
			return fmt.Errorf("%s: %w", b.flag, err)
		}
		*b.into = spec.Count(n)
	}
	f.Within = within
	return nil
}

// urlOrTargets requires one URL, or none with a targets file.
func urlOrTargets(f *runFlags) cobra.PositionalArgs {
	return func(c *cobra.Command, args []string) error {
		if len(args) == 0 && (f.load.from.targets != "" || f.load.from.curl != "") {
			return nil
		}
		return command.Exactly(1, "one URL (or --targets FILE, or --curl 'curl …')")(c, args)
	}
}

// hide hides flags that a verb has no use for from its help.
func hide(c *cobra.Command, names ...string) {
	for _, name := range names {
		c.Flags().Lookup(name).Hidden = true
	}
}
