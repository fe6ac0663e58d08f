// Command bench compares the generator with other tools, in one run on one machine: what each tool's
// process costs per request against the same server. docs/bench.md explains the method and how to read
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
	trials      string
	scenarios   []string // of the selftest, in the part accuracy; nil: all
	benchDoc    string
}

// Parts of a run that -only selects.
const (
	onlySpeed = "speed"
	onlyRace  = "race"
	// onlyAccuracy plays the scenarios of the selftest, which takes an hour, and continues the ledger of
	// trials. It is not part of a full run.
	onlyAccuracy = "accuracy"
)

func parts() []string {
	return []string{onlySpeed, onlyRace, onlyAccuracy}
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
	b, err := newBench(ctx, o, stderr)
	if err != nil {
		fmt.Fprintln(stderr, "bench:", err)
		return exitFailure
	}
	defer b.close()
	e := b.run(ctx)
	printEntry(stdout, &e)
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
		if err := appendLine(o.ledger, &e); err != nil {
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
	f.StringVar(&o.only, "only", "", "a single part: "+strings.Join(parts(), ", "))
	f.Func("scenarios", "of the selftest, with commas between them, in the part "+onlyAccuracy+" (default: all)", func(text string) error {
		o.scenarios = strings.Split(text, ",")
		return nil
	})
	f.StringVar(&o.trials, "trials", "docs/journal/accuracy.ndjson", "file that the part "+onlyAccuracy+" continues with, a line for each trial")
	f.StringVar(&o.benchDoc, "bench-doc", "docs/bench.md", "page in which the table of the part "+onlySpeed+" is replaced; empty: none")
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
	}
	return o, nil
}
