package main

import (
	"slices"
	"strings"

	"github.com/spf13/cobra"

	"ceiling/cmd/internal/command"
	"ceiling/cmd/internal/serving"
)

// The other programs, whose verbs what measures a URL does not need.
const (
	proxyProgram      = "ceiling-proxy"
	labProgram        = "ceiling-lab"
	controllerProgram = "ceiling-controller"
)

// labRoutes stands in the help of serve.
const labRoutes = `
ceiling-lab serve also puts a database (--db), a key-value bucket (--kv) or a
failing service (--downstream) behind them. Where it is in the directory of ceiling, ceiling
serve runs it for these.
`

// newServe is the verb of this program, or of the laboratory for what only that can serve.
func newServe(sh *command.Shell) *cobra.Command {
	if slices.ContainsFunc(sh.Args, isOfLab) {
		return sh.Hand(labProgram, "serve KIND", "Run one of the servers to measure")
	}
	return serving.New(sh, serving.Behind{About: labRoutes})
}

func isOfLab(arg string) bool {
	name, _, _ := strings.Cut(arg, "=")
	return name == "--db" || strings.HasPrefix(name, "--db-") || name == "--kv" || name == "--downstream"
}
