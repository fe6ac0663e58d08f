package lab

import (
	"context"
	"errors"
	"fmt"
	"os"
	"time"

	"github.com/spf13/cobra"

	"ceiling/check/race"
	"ceiling/cmd/internal/command"
	"ceiling/cmd/internal/records"
)

func newRace(sh *command.Shell) *cobra.Command {
	var asJSON bool
	var report string
	o := race.Config{Rounds: 7, Duration: 500 * time.Millisecond, Workers: 1, Connections: 60, PerS: 10_000, Seed: 1}
	c := &cobra.Command{
		Use:   "race",
		Short: "Race the proxy against nginx and other installed proxies",
		Long: `Starts nginx, HAProxy, h2o, Envoy, Caddy, RoadSign, two minimal Go proxies and
ceiling proxy, checks that all behave the same, byte for byte, and interleaves
their runs: same request, backend, workers, added header fields and log. It
compares CPU/request in pairs from the same round, and lists the proxies that are
not installed. The last cases take the backend or the site away under load and
count the requests that fail once it is back. proxy/README.md has a race with its
configurations.

Clients speak plain HTTP, TLS 1.3 and HTTP/2. All of them together take a quarter of an
hour. A missed target is printed; the exit code is still 0.`,
		Example: `  ceiling race
  ceiling race --only nginx,ceiling --case 16,file
  ceiling race --workers 2 -o race/              keep configurations and samples
  ceiling race --report race.html                also as a page`,
		Args: command.Exactly(0, "no arguments"),
		RunE: func(c *cobra.Command, _ []string) error {
			return sh.Perform(c.Context(), &contest{o, report, asJSON}, checkRace(&o, report))
		},
	}
	f := c.Flags()
	f.SortFlags = false
	f.IntVar(&o.Rounds, "rounds", o.Rounds, "measured rounds (≥ 7 for a useful interval)")
	f.DurationVarP(&o.Duration, "duration", "d", o.Duration, "duration of each closed and each open loop")
	f.IntVar(&o.Workers, "workers", o.Workers, "workers of each contestant")
	f.StringSliceVar(&o.Only, "only", nil, "contestants, comma-separated")
	f.StringSliceVar(&o.Cases, "case", nil, "cases, comma-separated")
	f.Uint64Var(&o.Seed, "seed", o.Seed, "seed of the order within the rounds")
	f.StringVarP(&o.Keep, "output", "o", "", "save configurations and raw samples in this directory")
	f.StringVar(&report, "report", "", "also write the race as a page: race.html or race.md")
	f.BoolVar(&asJSON, "json", false, "print the result as one JSON document")
	var names, cases []string
	for _, k := range race.Contestants() {
		names = append(names, k.Name)
	}
	for _, k := range race.Cases() {
		cases = append(cases, k.Name)
	}
	for flag, words := range map[string][]string{"only": names, "case": cases} {
		if err := c.RegisterFlagCompletionFunc(flag, cobra.FixedCompletions(words, cobra.ShellCompDirectiveNoFileComp)); err != nil {
			panic(err) // a name that is not a flag: a slip in this function
		}
	}
	return c
}

func checkRace(o *race.Config, report string) error {
	if err := errors.Join(records.CheckForm(report), command.NotFormat("-o", o.Keep)); err != nil {
		return err
	}
	switch {
	case o.Rounds < 1 || o.Rounds > 1000:
		return fmt.Errorf("--rounds %d: must be 1–1,000; the default is 7", o.Rounds)
	case o.Duration < 50*time.Millisecond || o.Duration > 2*time.Minute:
		return fmt.Errorf("--duration %s: must be 50ms–2m; the default is 500ms", o.Duration)
	case o.Workers < 1 || o.Workers > 256:
		return fmt.Errorf("--workers %d: must be 1–256; the default is 1", o.Workers)
	}
	return nil
}

// contest is the job that races proxies.
type contest struct {
	race.Config
	report string
	json   bool
}

func (o *contest) Do(ctx context.Context, sh *command.Shell) (err error) {
	o.Version = command.Version()
	if o.Program, err = os.Executable(); err != nil {
		return err
	}
	result, ok, err := command.Watched(ctx, sh, race.ErrUnknown, func(tell func(string)) (*race.Result, error) {
		o.Progress = tell
		return race.Run(ctx, o.Config)
	})
	if !ok {
		return err
	}
	return records.Show(sh, result, o.report, o.json)
}
