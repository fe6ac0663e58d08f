package main

import (
	"ceiling/cmd/internal/command"
	"ceiling/cmd/internal/faces"
	"ceiling/cmd/internal/forecasting"
	"ceiling/cmd/internal/hog"

	"github.com/spf13/cobra"
)

// addVerbs adds what this program does on Linux: everything.
func addVerbs(sh *shell, root *cobra.Command) {
	addGroup(root, "Measure:", newRun(sh), newFind(sh), newCompare(sh), newCI(sh), newProve(sh), newProfile(sh))
	addGroup(root, "Look:", newList(sh), newShow(sh), newReport(sh), newExport(sh), newJudge(sh), forecasting.New(&sh.Shell, completeRuns))
	addGroup(root, "Prepare:", newDoctor(sh), newTune(sh), newServe(&sh.Shell), newDemo(sh))
	addGroup(root, "Several machines:", newFleet(sh))
	addGroup(root, "Other programs:", siblings(&sh.Shell)...)
	for _, t := range faces.All() {
		if t.Verb() == t.Name {
			root.AddCommand(newFace(sh, t))
		}
	}
	root.AddCommand(command.NewVersion(sh.Stdout), newVegeta(sh), hog.New(&sh.Shell))
}
