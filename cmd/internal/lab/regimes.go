package lab

import (
	"context"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"time"

	"github.com/spf13/cobra"

	"ceiling/check/regimes"
	"ceiling/cmd/internal/command"
	"ceiling/cmd/internal/headroom"
	"ceiling/cmd/internal/records"
	"ceiling/experiment/spec"
	"ceiling/server"
)

func newRegimes(sh *command.Shell) *cobra.Command {
	var asJSON bool
	var report string
	o := regimes.Config{Server: "fasthttp", Rounds: 5, Duration: 500 * time.Millisecond}
	c := &cobra.Command{
		Use:   "regimes",
		Short: "Measure the cost of kinds of work: memory, compute, databases",
		Long: `Starts a server on separate CPUs and measures different kinds of work: responses
from memory, computation, lookups, scans and writes in SQLite and, if installed,
PostgreSQL, calls to a failing service, and quorum writes to replicas. Prints the
ladder: each regime with its rate, p99 at 70% of that rate, its bottleneck and its
CPU/request. All regimes take under 5 minutes.
docs/regimes.md explains each.`,
		Example: `  ceiling regimes
  ceiling regimes --only memory,sqlite-row,sqlite-insert
  ceiling regimes --server nethttp --report regimes.html --json`,
		Args: command.Exactly(0, "no arguments"),
		RunE: func(c *cobra.Command, _ []string) error {
			return sh.Perform(c.Context(), &ladder{o, report, asJSON}, checkRegimes(&o, report))
		},
	}
	f := c.Flags()
	f.SortFlags = false
	f.StringSliceVar(&o.Only, "only", nil, "regimes, comma-separated; a prefix of a name is enough")
	f.StringVar(&o.Server, "server", o.Server, "server under test: nethttp, fasthttp, fiber")
	f.IntVar(&o.Rounds, "rounds", o.Rounds, "closed-loop runs of each regime (≥ 5 for a useful interval)")
	f.DurationVarP(&o.Duration, "duration", "d", o.Duration, "duration of each run")
	f.StringVarP(&o.Keep, "output", "o", "", "save all records and the ladder (ladder.json) in this directory")
	f.StringVar(&report, "report", "", "also write the ladder as a page: regimes.html or regimes.md")
	f.BoolVar(&asJSON, "json", false, "print the result as one JSON document")
	if err := c.RegisterFlagCompletionFunc("only", cobra.FixedCompletions(regimes.Names(), cobra.ShellCompDirectiveNoFileComp)); err != nil {
		panic(err) // an unknown flag name: a bug in this function
	}
	return c
}

func checkRegimes(o *regimes.Config, report string) error {
	kind, err := server.Lookup(o.Server)
	if err != nil {
		return fmt.Errorf("--server: %w", err)
	}
	if kind.Memory {
		return fmt.Errorf("--server: %s answers from memory alone; use nethttp, fasthttp or fiber", kind.Name)
	}
	if err := errors.Join(records.CheckForm(report), command.NotFormat("-o", o.Keep)); err != nil {
		return err
	}
	switch {
	case o.Rounds < 1 || o.Rounds > 100:
		return fmt.Errorf("--rounds %d: must be 1–100; leave it out for 5", o.Rounds)
	case o.Duration < 50*time.Millisecond || o.Duration > time.Minute:
		return fmt.Errorf("--duration %s: must be 50ms–1m; leave it out for 500ms", o.Duration)
	}
	return nil
}

// ladder is the job that measures the regimes.
type ladder struct {
	regimes.Config
	report string
	json   bool
}

func (o *ladder) Do(ctx context.Context, sh *command.Shell) (err error) {
	o.Version = command.Version()
	if o.Program, err = os.Executable(); err != nil {
		return err
	}
	headroom.Know(ctx, sh, spec.EngineAuto, time.Duration(o.Rounds*len(regimes.Names()))*o.Duration)
	result, ok, err := command.Watched(ctx, sh, regimes.ErrUnknown, func(tell func(string)) (*regimes.Result, error) {
		o.Progress = tell
		return regimes.Measure(ctx, o.Config)
	})
	if !ok {
		return err
	}
	if o.Keep != "" {
		if err := records.WriteWhole(filepath.Join(o.Keep, "ladder.json"), result.WriteJSON); err != nil {
			return fmt.Errorf("write ladder: %w", err)
		}
	}
	return records.Show(sh, result, o.report, o.json)
}
