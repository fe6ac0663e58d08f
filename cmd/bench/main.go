// Command bench compares the generator with other tools and with known truths, in one run on one
// machine: what each tool's process costs per request against the same server, and whether its
// figures are right where the answer is known. docs/bench.md explains the method and how to read
// the results.
package main

import (
	"context"
	"errors"
	"flag"
	"fmt"
	"io"
	"os"
	"os/signal"
	"slices"
	"strings"
	"syscall"
	"time"
)

func main() {
	ctx, stop := signal.NotifyContext(context.Background(), os.Interrupt, syscall.SIGTERM)
	defer stop()
	os.Exit(command(ctx, os.Args[1:], os.Stdout, os.Stderr))
}

// Tables go to stdout, progress and errors to stderr. A missed target is printed and exits 0; 1
// means that something could not be measured.
const (
	exitDone    = 0
	exitFailure = 1
	exitRefused = 2
)

// options are the flags.
type options struct {
	binary      string
	rounds      int
	duration    time.Duration // of one measurement; whole seconds, which is all that wrk takes
	connections int
	seed        uint64
	ledger      string
	only        string
	pairs       int // of A/A comparisons
	trials      string
	accuracyDoc string
	benchDoc    string
	budget      time.Duration // no trial starts after it; 0: no limit
	comparedRun time.Duration
	// comparedBlocks of A against B in each comparison; 0: as many as it chooses.
	comparedBlocks int
}

// Parts of a run that -only selects.
const (
	onlySpeed = "speed"
	onlyTruth = "truth"
	onlyRace  = "race"
	// onlyPlaces needs root, for the kernel events, and two CPUs.
	onlyPlaces = "places"
	// These take from ten minutes to hours, and are not part of a full run.
	onlyFind    = "find"
	onlyProve   = "prove"
	onlyCompare = "compare"
	// onlyAccuracy runs planted bottlenecks. It and onlyCompare continue the ledger of trials.
	onlyAccuracy = "accuracy"
	// onlyAccuracyDoc measures nothing and only renders the ledger.
	onlyAccuracyDoc = "accuracy-doc"
)

func parts() []string {
	return []string{onlySpeed, onlyTruth, onlyPlaces, onlyRace, onlyFind, onlyProve, onlyCompare, onlyAccuracy, onlyAccuracyDoc}
}

func command(ctx context.Context, args []string, stdout, stderr io.Writer) int {
	o, err := parseOptions(args, stderr)
	switch {
	case errors.Is(err, flag.ErrHelp):
		return exitDone
	case err != nil:
		fmt.Fprintln(stderr, "bench:", err)
		return exitRefused
	}
	if o.only == onlyAccuracyDoc {
		if err := renderAccuracy(o.trials, o.accuracyDoc); err != nil {
			fmt.Fprintln(stderr, "bench:", err)
			return exitFailure
		}
		return exitDone
	}
	b, err := newBench(ctx, o, stderr)
	if err != nil {
		fmt.Fprintln(stderr, "bench:", err)
		return exitFailure
	}
	defer b.close()
	e := b.run(ctx)
	printEntry(stdout, &e)
	if (o.only == onlyAccuracy || o.only == onlyCompare) && o.accuracyDoc != "" {
		if err := renderAccuracy(o.trials, o.accuracyDoc); err != nil {
			e.Failures = append(e.Failures, err.Error())
		}
	}
	if o.benchDoc != "" && ctx.Err() == nil {
		if err := renderPage(o.benchDoc, &e); err != nil {
			e.Failures = append(e.Failures, err.Error())
		}
	}
	if ctx.Err() != nil {
		fmt.Fprintln(stderr, "bench: interrupted; the ledger is left as it was")
		return exitFailure
	}
	for _, failure := range e.Failures {
		fmt.Fprintln(stderr, "bench:", failure)
	}
	if o.ledger != "" && (o.only == "" || o.only == onlySpeed) {
		if err := appendEntry(o.ledger, &e); err != nil {
			fmt.Fprintln(stderr, "bench:", err)
			return exitFailure
		}
	}
	if len(e.Failures) > 0 {
		return exitFailure
	}
	return exitDone
}

func parseOptions(args []string, stderr io.Writer) (options, error) {
	o := options{}
	f := flag.NewFlagSet("bench", flag.ContinueOnError)
	f.SetOutput(stderr)
	f.StringVar(&o.binary, "ceiling", "./ceiling", "the program to measure, as make build leaves it")
	f.IntVar(&o.rounds, "rounds", 7, "rounds; in each, every tool does every work once")
	f.DurationVar(&o.duration, "d", 4*time.Second, "time of one measurement, in whole seconds")
	f.IntVar(&o.connections, "c", 64, "connections of the speed part")
	f.Uint64Var(&o.seed, "seed", 1, "of the order within the rounds")
	f.StringVar(&o.ledger, "ledger", "docs/journal/bench.ndjson", "file that a whole run, or its part "+onlySpeed+", adds one line to; empty: none")
	f.StringVar(&o.only, "only", "", "a part by itself: "+strings.Join(parts(), ", "))
	f.IntVar(&o.pairs, "pairs", 100, "of servers that do not differ, in the part "+onlyCompare+", with those in the ledger of trials")
	f.DurationVar(&o.comparedRun, "compare-run", 250*time.Millisecond, "time of each run of a comparison")
	f.IntVar(&o.comparedBlocks, "compare-blocks", 0,
		"blocks of A against B in each comparison; 0: as many as it chooses, which makes 111 runs")
	f.StringVar(&o.trials, "trials", "docs/journal/accuracy.ndjson",
		"file that the parts "+onlyAccuracy+" and "+onlyCompare+" go on with, a line for each trial")
	f.StringVar(&o.accuracyDoc, "accuracy-doc", "docs/accuracy.md", "page that is rendered from the trials; empty: none")
	f.StringVar(&o.benchDoc, "bench-doc", "docs/bench.md", "page whose tables of the parts "+onlySpeed+" and "+onlyPlaces+" are replaced; empty: none")
	f.DurationVar(&o.budget, "budget", 0, "begin no trial that would end after this; 0: make them all")
	if err := f.Parse(args); err != nil {
		return o, err
	}
	switch {
	case f.NArg() > 0:
		return o, fmt.Errorf("unexpected %q; see -h", strings.Join(f.Args(), " "))
	case o.rounds < 1 || o.rounds > 100:
		return o, fmt.Errorf("-rounds %d: give 1 to 100; 5 or more for a median worth the name", o.rounds)
	case o.duration < time.Second || o.duration > time.Minute || o.duration%time.Second != 0:
		return o, fmt.Errorf("-d %s: give whole seconds, 1s to 1m", o.duration)
	case o.connections < 1 || o.connections > 1000:
		return o, fmt.Errorf("-c %d: give 1 to 1000", o.connections)
	case o.only != "" && !slices.Contains(parts(), o.only):
		return o, fmt.Errorf("-only %s: give one of %s", o.only, strings.Join(parts(), ", "))
	case o.budget < 0 || o.comparedRun < 50*time.Millisecond || o.comparedRun > time.Minute:
		return o, fmt.Errorf("-budget %s, -compare-run %s: give 0 or more, and 50ms to 1m", o.budget, o.comparedRun)
	case o.comparedBlocks < 0 || o.comparedBlocks > 100:
		return o, fmt.Errorf("-compare-blocks %d: give 0 to 100", o.comparedBlocks)
	case o.pairs < 1 || o.pairs > 1000:
		return o, fmt.Errorf("-pairs %d: give 1 to 1000", o.pairs)
	}
	return o, nil
}
