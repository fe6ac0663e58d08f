//go:build !linux

package main

import (
	"context"
	"errors"
	"fmt"

	"github.com/spf13/cobra"

	"ceiling/cmd/internal/command"
	"ceiling/cmd/internal/forecasting"
	"ceiling/record"
)

// addVerbs adds what needs no Linux: reading, judging and comparing what was measured there.
func addVerbs(sh *shell, root *cobra.Command) {
	root.Long = "ceiling measures on Linux. Here it shows, reports, judges, compares and exports what was measured\n" +
		"there, and the results of other tools."
	root.Example = "  ceiling report --open record.ndjson.gz\n  ceiling judge wrk.txt"
	addGroup(root, "Look:", newList(sh), newShow(sh), newReport(sh), newExport(sh), newJudge(sh), newCompareKept(sh),
		forecasting.New(&sh.Shell, completeRuns))
	root.AddCommand(command.NewVersion(sh.Stdout))
	for _, name := range []string{"run", "find", "prove", "profile", "ci", "demo", "serve", "doctor", "tune", "fleet", "proxy", "race", "journal",
		"regimes", "selftest", "wrk", "vegeta", "autocannon", "go-wrk"} {
		root.AddCommand(&cobra.Command{Use: name, Hidden: true, DisableFlagParsing: true, RunE: func(*cobra.Command, []string) error {
			return command.Usage(fmt.Errorf("ceiling %s needs Linux; on this system ceiling shows, reports, judges, compares and exports records", name))
		}})
	}
}

// newCompareKept compares what was measured before: two records, or results of other tools.
func newCompareKept(sh *shell) *cobra.Command {
	var o comparison
	c := &cobra.Command{
		Use:     "compare A B",
		Short:   "Compare two records, or results of other tools",
		Example: "  ceiling compare x7f2 k3pq",
		Args:    command.Exactly(2, "two records or files"),
		RunE: func(c *cobra.Command, args []string) error {
			for _, name := range args {
				if !isKept(name) {
					return command.Usage(fmt.Errorf("%s is not a record or a file; servers are compared on Linux", name))
				}
			}
			o.a, o.b = args[0], args[1]
			return sh.perform(c.Context(), &o, nil)
		},
	}
	c.Flags().StringVar(&o.failOn, "fail-on", "", "exit 3 if true, 4 if inconclusive: 'rps<-5%,p99>+10%'")
	c.Flags().BoolVarP(&o.verbose, "verbose", "v", false, "print all of the text")
	c.Flags().BoolVar(&o.json, "json", false, "print the result as one JSON document")
	return c
}

var errLinux = errors.New("a run is followed on the machine that makes it, which is Linux; leave --live and --terminal out") // read-only

func (sh *shell) watch(context.Context, record.File, string) error { return command.Usage(errLinux) }

func watchInTerminal(*shell, context.Context, record.File) error { return command.Usage(errLinux) }
