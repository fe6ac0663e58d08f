package main

import (
	"os"

	"github.com/spf13/cobra"

	"ceiling/cmd/internal/command"
	"ceiling/experiment/plan"
	"ceiling/record"
	"ceiling/show/report"
	"ceiling/verdict"
)

func newShow(sh *shell) *cobra.Command {
	var asJSON, verbose bool
	c := &cobra.Command{
		Use:   "show ID",
		Short: "Show a saved run by ID, part of an ID, or file",
		Example: `  ceiling show x7f2
  ceiling show ./x7f2.ndjson.gz --json`,
		Args:              command.Exactly(1, "one ID, file or -"),
		ValidArgsFunction: completeRuns,
		RunE: func(_ *cobra.Command, args []string) error {
			file, err := sh.findRecord(args[0])
			if err != nil {
				return err
			}
			if file.IsPlan() {
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
			return report.Text(sh.Stdout, r, command.Layout(sh.Stdout, verbose))
		},
	}
	c.Flags().BoolVar(&asJSON, "json", false, "print the JSON document")
	c.Flags().BoolVarP(&verbose, "verbose", "v", false, "print all of the text")
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
	return report.Plan(sh.Stdout, p, command.Layout(sh.Stdout, verbose))
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
