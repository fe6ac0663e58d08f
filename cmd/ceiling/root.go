// Command ceiling measures how fast an HTTP service can go, and names its bottleneck.
package main

import (
	"context"
	"io"
	"os"
	"os/signal"
	"slices"
	"strings"

	"github.com/spf13/cobra"

	"ceiling/cmd/internal/command"
	"ceiling/cmd/internal/faces"
	"ceiling/cmd/internal/serving"
)

func main() {
	os.Exit(execute(os.Args, os.Stdin, os.Stdout, os.Stderr))
}

// execute runs one command line and returns the exit code.
func execute(args []string, stdin io.Reader, stdout, stderr io.Writer) int {
	sh := &shell{command.Shell{Args: args, Stdin: stdin, Stdout: stdout, Stderr: stderr}}
	if t := faces.Of(args[0]); t != nil { // a link of its name to this program
		args = slices.Insert(slices.Clone(args), 1, t.Verb())
	}
	ctx, stop := signal.NotifyContext(context.Background(), command.Signals()...)
	defer stop()
	root := newRoot(sh)
	return sh.Execute(ctx, root, withVerb(args[1:]), func(err error) error {
		if unknown := unknownVerb(root, args[1:], err); unknown != nil {
			return unknown
		}
		return err
	})
}

func newRoot(sh *shell) *cobra.Command {
	root := &cobra.Command{
		Use:   "ceiling",
		Short: "How fast can this HTTP service go, and what is the bottleneck?",
		Long: `ceiling loads an HTTP server, observes both ends, and reports the throughput and
the resource that limits it, or explains why the run is invalid.
ceiling URL is short for ceiling run URL.`,
		Example: `  ceiling demo                                 measure the built-in servers
  ceiling run http://127.0.0.1:8080/path       measure yours
  ceiling serve fasthttp --addr :8080          start a built-in server to try it on`,
	}
	cobra.EnableCommandSorting = false // the order is by use
	addVerbs(sh, root)
	return root
}

// addGroup adds verbs in this order under a title of the first screen.
func addGroup(root *cobra.Command, title string, verbs ...*cobra.Command) {
	if !slices.ContainsFunc(verbs, func(c *cobra.Command) bool { return !c.Hidden }) {
		root.AddCommand(verbs...)
		return
	}
	root.AddGroup(&cobra.Group{ID: title, Title: title})
	for _, c := range verbs {
		c.GroupID = title
		root.AddCommand(c)
	}
}

func addVerbs(sh *shell, root *cobra.Command) {
	addGroup(root, "Measure:", newRun(sh), newFind(sh), newCompare(sh), newCI(sh), newProve(sh), newProfile(sh))
	addGroup(root, "Look:", newList(sh), newShow(sh), newReport(sh), newExport(sh), newJudge(sh), newPlan(sh))
	addGroup(root, "Prepare:", newDoctor(sh), newTune(sh), newServe(&sh.Shell), newDemo(sh))
	addGroup(root, "Several machines:", newFleet(sh))
	addGroup(root, "Other programs:", otherPrograms(&sh.Shell)...)
	for _, t := range faces.All() {
		if t.Verb() == t.Name {
			root.AddCommand(newFace(sh, t))
		}
	}
	root.AddCommand(command.NewVersion(sh.Stdout), newVegeta(sh))
	root.AddCommand(hidden(sh)...)
}

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
