package main

import (
	"encoding/json"
	"errors"
	"fmt"
	"slices"
	"strings"
	"time"

	"github.com/spf13/cobra"

	"ceiling/check/selftest"
	"ceiling/measure/run"
	"ceiling/server/planted"
)

func newSelftest(sh *shell) *cobra.Command {
	var o selftest.Options
	var asJSON bool
	c := &cobra.Command{
		Use:   "selftest",
		Short: "Plant known bottlenecks and check that they are named",
		Long: `Starts servers and conditions whose ceiling is known, because it was planted,
measures each, and sets what the verdict names beside it. The parameters come
from the seed, so another seed is another test. What a scenario needs and this
host lacks (root, namespaces, cgroups, a second core) is told; such a scenario
is not run, and not right. Other programs that use the cores disturb it: it
waits for them a little, tries three times, and tells.

--real plants them in other people's software, as Debian has it, and confirms
each: a client of Go's net/http measures the rate with the planted resource and
with twice as much. Software that is missing is named with the command that
installs it.

Exit code 0: all that ran are right; 3: some are wrong; 1: some could not be
done, or were disturbed.`,
		Example: `  ceiling selftest                              each scenario once
  ceiling selftest --rounds 3 --seed 7
  ceiling selftest --only pool,mutex-sleep --keep records
  ceiling selftest --real --only node-pool,java-lock`,
		Args: exactly(0, "no arguments"),
		RunE: func(c *cobra.Command, _ []string) error {
			return sh.selftest(c, o, asJSON)
		},
	}
	f := c.Flags()
	f.SortFlags = false
	f.Uint64Var(&o.Seed, "seed", 1, "of the parameters")
	f.StringSliceVar(&o.Only, "only", nil, "names of scenarios, between commas")
	f.IntVar(&o.Rounds, "rounds", 1, "how often, each time with other parameters")
	f.BoolVar(&asJSON, "json", false, "print the results as one JSON document")
	f.DurationVar(&o.Patience, "patience", time.Minute, "to wait, in all, for other processes to leave the cores alone")
	f.StringVar(&o.Keep, "keep", "", "keep all records in this directory, not only those of wrong verdicts")
	f.BoolVar(&o.Real, "real", false, "plant them in real software: Python, Node, Java, PHP, Ruby, nginx, databases and others")
	if err := c.RegisterFlagCompletionFunc("only", cobra.FixedCompletions(scenarioNames(), cobra.ShellCompDirectiveNoFileComp)); err != nil {
		panic(err) // a name that is not a flag: a slip in this function
	}
	return c
}

func scenarioNames() []string {
	var names []string
	for _, s := range slices.Concat(selftest.Scenarios(), selftest.RealScenarios()) {
		names = append(names, s.Name)
	}
	return names
}

func (sh *shell) selftest(c *cobra.Command, o selftest.Options, asJSON bool) error {
	if o.Rounds < 1 {
		return usage(fmt.Errorf("--rounds: %d is not 1 or more", o.Rounds))
	}
	o.Version = version()
	o.Note = func(text string) { fmt.Fprintln(sh.stderr, text) }
	var failed error // to write
	if !asJSON {
		o.Told = func(r selftest.Result) { failed = errors.Join(failed, selftest.WriteRow(sh.stdout, r)) }
	}
	started := time.Now()
	results, err := selftest.Run(c.Context(), o)
	if errors.Is(err, selftest.ErrUnknown) {
		return usage(err)
	}
	if c.Context().Err() != nil {
		sh.exit = run.ExitInterrupted
		err = nil
	}
	if err = errors.Join(err, failed); err != nil {
		return err
	}
	if asJSON {
		e := json.NewEncoder(sh.stdout)
		e.SetIndent("", "  ")
		err = e.Encode(results)
	} else {
		err = selftest.WriteSummary(sh.stdout, results)
		fmt.Fprintf(sh.stderr, "seed %d, %s\n", o.Seed, time.Since(started).Round(time.Second))
	}
	if sh.exit == 0 {
		sh.exit = selftestExit(results)
	}
	return err
}

func selftestExit(results []selftest.Result) int {
	n := selftest.Count(results)
	switch {
	case n[selftest.Wrong] > 0:
		return run.ExitFail
	case n[selftest.Failed]+n[selftest.Disturbed]+n[selftest.Unconfirmed] > 0:
		return run.ExitError
	}
	return run.ExitPass
}

// newPlanted serves a planted server; selftest starts it as its child.
func newPlanted(sh *shell) *cobra.Command {
	var p planted.Params
	var names []string
	for _, k := range planted.Catalogue() {
		names = append(names, k.Name)
	}
	c := &cobra.Command{
		Use:       "planted KIND",
		Short:     "Run a server with a known ceiling, as selftest does",
		Long:      plantedLong(),
		Example:   "  ceiling planted pool --n 6 --sleep 10ms",
		Hidden:    true,
		Args:      exactly(1, "one KIND ("+strings.Join(names, ", ")+")"),
		ValidArgs: names,
		RunE: func(c *cobra.Command, args []string) error {
			if _, err := planted.Lookup(args[0]); err != nil {
				return usage(err)
			}
			return planted.Serve(c.Context(), args[0], p, func(addr string) {
				fmt.Fprintf(sh.stdout, "planted %s serves on %s\n", args[0], addr)
			})
		},
	}
	f := c.Flags()
	f.SortFlags = false
	f.StringVar(&p.Addr, "addr", "127.0.0.1:0", "address; port 0 = any")
	f.IntVar(&p.Threads, "threads", 0, "that run Go code at once; 0: one per CPU")
	f.IntSliceVar(&p.CPUs, "cpus", nil, "to be bound to, between commas")
	f.DurationVar(&p.CPU, "cpu", 0, "CPU time of each request")
	f.DurationVar(&p.Sleep, "sleep", 0, "what it waits, or holds")
	f.IntVar(&p.N, "n", 0, "how many of its own thing")
	f.IntVar(&p.Every, "every", 0, "which requests meet the fault: every so many")
	f.StringVar(&p.Fault, "fault", "", "503, reset or silence; database: query, row, commit or work")
	f.DurationVar(&p.Period, "period", 0, "from one pause to the next")
	f.IntVar(&p.Bytes, "bytes", 0, "of the body")
	f.IntVar(&p.Chunks, "chunks", 0, "that the body is cut into")
	f.StringVar(&p.To, "to", "", "address of the server behind it")
	f.BoolVar(&p.Pprof, "pprof", false, "record locks and waits, and answer /debug/pprof/")
	return c
}

func plantedLong() string {
	var b strings.Builder
	b.WriteString("Serves any path with the same answer.\n\nKinds:\n")
	for _, k := range planted.Catalogue() {
		fmt.Fprintf(&b, "  %-10s %s\n", k.Name, k.About)
	}
	return strings.TrimRight(b.String(), "\n")
}
