package lab

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"strings"
	"time"

	"github.com/spf13/cobra"

	"ceiling/check/selftest"
	"ceiling/cmd/internal/command"
	"ceiling/internal/exit"
	"ceiling/server/planted"
)

func newSelftest(sh *command.Shell) *cobra.Command {
	var o selftest.Options
	var asJSON bool
	c := &cobra.Command{
		Use:   "selftest",
		Short: "Plant known bottlenecks and check the verdicts",
		Long: `Starts servers and conditions with a known, planted bottleneck, measures each,
and compares the verdict with the plant. The seed sets the parameters, so another
seed is another test. If the host lacks what a scenario needs (root, namespaces,
cgroups, a second core), it says so and skips the scenario, which then does not
count as right. Other processes on the cores disturb a scenario: it waits for them
a little, tries three times, and reports it.

--real plants bottlenecks in third-party software from Debian, and confirms
each: Go's net/http client measures the rate with the planted resource and with
twice as much. For missing software, it prints the command to install it. --only
also plays experiments: prove-…, find-…, same-…, more-cpu, longer-p99.

Exit code 0: every verdict is right; 3: some are wrong; 1: some scenarios failed
or were disturbed.`,
		Example: `  ceiling selftest                              each scenario once
  ceiling selftest --rounds 3 --seed 7
  ceiling selftest --only pool,mutex-sleep --keep records
  ceiling selftest --real --only node-pool,java-lock`,
		Args: command.Exactly(0, "no arguments"),
		RunE: func(c *cobra.Command, _ []string) error {
			if o.Rounds < 1 {
				return command.Usage(fmt.Errorf("--rounds: %d is not 1 or more", o.Rounds))
			}
			return sh.Perform(c.Context(), &selfTest{o, asJSON}, command.NotFormat("--keep", o.Keep))
		},
	}
	f := c.Flags()
	f.SortFlags = false
	f.Uint64Var(&o.Seed, "seed", 1, "seed of the parameters")
	f.StringSliceVar(&o.Only, "only", nil, "scenarios, comma-separated")
	f.IntVar(&o.Rounds, "rounds", 1, "rounds, each with other parameters")
	f.BoolVar(&asJSON, "json", false, "print the results as one JSON document")
	f.DurationVar(&o.Patience, "patience", time.Minute, "maximum total wait for other processes to free the cores")
	f.StringVar(&o.Keep, "keep", "", "save all records in this directory, not only wrong verdicts'")
	f.BoolVar(&o.Real, "real", false, "use real software: Python, Node, Java, PHP, Ruby, nginx, databases and others")
	if err := c.RegisterFlagCompletionFunc("only", scenarioNames); err != nil {
		panic(err) // an unknown flag name: a bug in this function
	}
	return c
}

func scenarioNames(*cobra.Command, []string, string) (names []string, _ cobra.ShellCompDirective) {
	for _, s := range selftest.All() {
		names = append(names, s.Name)
	}
	return names, cobra.ShellCompDirectiveNoFileComp
}

// selfTest is the job that checks the verdicts.
type selfTest struct {
	selftest.Options
	json bool
}

func (o *selfTest) Do(ctx context.Context, sh *command.Shell) error {
	o.Version = command.Version()
	o.Note = func(text string) { fmt.Fprintln(sh.Stderr, text) }
	var failed error // of writing
	if !o.json {
		o.Told = func(r selftest.Result) { failed = errors.Join(failed, selftest.WriteRow(sh.Stdout, r)) }
	}
	started := time.Now()
	results, err := selftest.Run(ctx, o.Options)
	if errors.Is(err, selftest.ErrUnknown) {
		return command.Usage(err)
	}
	if ctx.Err() != nil {
		sh.Exit = exit.Interrupted
		err = nil
	}
	if err = errors.Join(err, failed); err != nil {
		return err
	}
	if o.json {
		e := json.NewEncoder(sh.Stdout)
		e.SetIndent("", "  ")
		err = e.Encode(results)
	} else {
		err = selftest.WriteSummary(sh.Stdout, results)
		fmt.Fprintf(sh.Stderr, "seed %d, %s\n", o.Seed, time.Since(started).Round(time.Second))
	}
	if sh.Exit == 0 {
		sh.Exit = selftestExit(results)
	}
	return err
}

func selftestExit(results []selftest.Result) int {
	n := selftest.Count(results)
	switch {
	case n[selftest.Wrong] > 0:
		return exit.Fail
	case n[selftest.Failed]+n[selftest.Disturbed]+n[selftest.Unconfirmed] > 0:
		return exit.Error
	}
	return exit.Pass
}

// newPlanted is the verb that serves a planted server; selftest starts it as its child.
func newPlanted(sh *command.Shell) *cobra.Command {
	var p planted.Params
	var names []string
	for _, k := range planted.Catalogue() {
		names = append(names, k.Name)
	}
	c := &cobra.Command{
		Use:       "planted KIND",
		Short:     "Run a server with a planted bottleneck, as selftest does",
		Long:      plantedLong(),
		Example:   "  ceiling planted pool --n 6 --sleep 10ms",
		Hidden:    true,
		Args:      command.Exactly(1, "one KIND ("+strings.Join(names, ", ")+")"),
		ValidArgs: names,
		RunE: func(c *cobra.Command, args []string) error {
			if _, err := planted.Lookup(args[0]); err != nil {
				return command.Usage(err)
			}
			return planted.Serve(c.Context(), args[0], p, func(addr string) {
				fmt.Fprintf(sh.Stdout, "planted %s serves on %s\n", args[0], addr)
			})
		},
	}
	f := c.Flags()
	f.SortFlags = false
	f.StringVar(&p.Addr, "addr", "127.0.0.1:0", "address; port 0 = any")
	f.IntVar(&p.Threads, "threads", 0, "GOMAXPROCS (0 = one per CPU)")
	f.DurationVar(&p.CPU, "cpu", 0, "CPU time of each request")
	f.DurationVar(&p.Sleep, "sleep", 0, "how long a request waits, or holds the resource")
	f.IntVar(&p.N, "n", 0, "size of its resource (connections, workers, …)")
	f.IntVar(&p.Every, "every", 0, "inject the fault into every Nth request")
	f.StringVar(&p.Fault, "fault", "", "503, reset or silence; database: query, row, commit or work")
	f.DurationVar(&p.Period, "period", 0, "time from one pause to the next")
	f.IntVar(&p.Bytes, "bytes", 0, "bytes of the body")
	f.IntVar(&p.Chunks, "chunks", 0, "chunks of the body")
	f.StringVar(&p.To, "to", "", "address of the server behind it")
	f.BoolVar(&p.Pprof, "pprof", false, "record locks and waits, and serve /debug/pprof/")
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
