package main

import (
	"os"

	"github.com/spf13/cobra"

	"ceiling/record"
	"ceiling/show/report"
)

func newList(sh *shell) *cobra.Command {
	return &cobra.Command{
		Use:     "list",
		Short:   "List the saved runs, newest first",
		Example: "  ceiling list",
		Args:    exactly(0, "no arguments"),
		RunE: func(*cobra.Command, []string) error {
			store, err := record.DefaultStore(os.Getenv)
			if err != nil {
				return err
			}
			entries, err := store.List()
			if err != nil {
				return err
			}
			return report.List(sh.stdout, entries)
		},
	}
}
