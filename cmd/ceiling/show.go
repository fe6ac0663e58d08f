package main

import (
	"errors"
	"os"

	"github.com/spf13/cobra"

	"ceiling/cmd/internal/command"
	"ceiling/cmd/internal/records"
	"ceiling/experiment/plan"
	"ceiling/record"
	"ceiling/show/report"
	"ceiling/verdict"
)

// liveAddress is the address of --live without one: loopback, on a port that the kernel chooses.
const liveAddress = "127.0.0.1:0"

func newShow(sh *shell) *cobra.Command {
	var asJSON, verbose, inTerminal bool
	var addr string
	c := &cobra.Command{
		Use:   "show ID",
		Short: "Show a saved run by ID, part of an ID, or file",
		Long: `Prints the result of a run or a plan. With --live it follows one that another
process is making, or shows a finished one, as a page on this machine; it only
reads the record's file. Press Ctrl-C to stop.`,
		Example: `  ceiling show x7f2
  ceiling show ./x7f2.ndjson.gz --json
  ceiling show --live x7f2
  ceiling show --terminal x7f2`,
		Args:              command.Exactly(1, "one ID, file or -"),
		ValidArgsFunction: completeRuns,
		RunE: func(c *cobra.Command, args []string) error {
			live := addr != ""
			switch {
			case (live || inTerminal) && (asJSON || verbose):
				return command.Usage(errors.New("--json and --verbose print the result; leave out --live and --terminal"))
			case inTerminal && live && addr != liveAddress:
				return command.Usage(errors.New("--live=ADDR is the address of a page, and --terminal shows none; remove one of them"))
			}
			file, err := records.Find(&sh.Shell, args[0])
			if err != nil {
				return err
			}
			switch {
			case inTerminal:
				return watchInTerminal(sh, c.Context(), file)
			case live:
				return sh.watch(c.Context(), file, addr)
			case file.IsPlan():
				return sh.showPlan(file, asJSON, verbose)
			}
			r, series, err := record.Open(file)
			if err != nil {
				return err
			}
			judgeKilled(r, &series)
			if asJSON {
				return report.JSON(sh.Stdout, r)
			}
			return report.Text(sh.Stdout, r, records.Layout(sh.Stdout, verbose))
		},
	}
	c.Flags().BoolVar(&asJSON, "json", false, "print the JSON document")
	c.Flags().BoolVarP(&verbose, "verbose", "v", false, "print all of the text")
	c.Flags().StringVar(&addr, "live", "", "follow it in a browser (--live=ADDR to choose the page's address)")
	c.Flags().Lookup("live").NoOptDefVal = liveAddress
	c.Flags().BoolVar(&inTerminal, "terminal", false, "follow it in this terminal, until the run has ended")
	return c
}

// judgeKilled judges a run that was killed before its verdict: its record has a series, but no
// verdict on it.
func judgeKilled(r *record.Run, series *record.Series) {
	if r.Unfinished {
		r.Verdict = verdict.Judge(r, series)
	}
}

// showPlan prints a plan's result; for an interrupted plan, the result of the runs so far.
func (sh *shell) showPlan(f record.File, asJSON, verbose bool) error {
	p, err := record.OpenPlan(f)
	if err != nil {
		return err
	}
	if p.Ended == "" && len(p.Runs) > 0 {
		if err := record.ReadHistograms(f, p.Runs); err != nil {
			return err
		}
		plan.Conclude(p)
	}
	if asJSON {
		return report.PlanJSON(sh.Stdout, p)
	}
	return report.Plan(sh.Stdout, p, records.Layout(sh.Stdout, verbose))
}

// completeRuns completes the IDs of the store, newest first.
func completeRuns(*cobra.Command, []string, string) ([]string, cobra.ShellCompDirective) {
	store, err := record.DefaultStore(os.Getenv)
	if err != nil {
		return nil, cobra.ShellCompDirectiveError
	}
	entries, err := store.List()
	if err != nil {
		return nil, cobra.ShellCompDirectiveError
	}
	var ids []string
	for _, e := range entries {
		ids = append(ids, cobra.CompletionWithDesc(e.ID, e.Target))
	}
	return ids, cobra.ShellCompDirectiveNoFileComp | cobra.ShellCompDirectiveKeepOrder
}
