package main

import (
	"github.com/spf13/cobra"

	"ceiling/cmd/internal/command"
	"ceiling/cmd/internal/hog"
)

// hidden verbs are for this program itself.
func hidden(sh *shell) []*cobra.Command { return []*cobra.Command{hog.New(&sh.Shell)} }

func otherPrograms(sh *command.Shell) []*cobra.Command { return siblings(sh) }
