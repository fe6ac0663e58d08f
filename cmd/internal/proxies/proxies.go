// Package proxies is the program ceiling-proxy: the reverse proxy, the check of its configuration, and
// the race against others.
package proxies

import (
	"context"
	"os"
	"os/signal"
	"syscall"

	"github.com/spf13/cobra"

	"ceiling/cmd/internal/command"
)

// Main runs the program and returns its exit code.
func Main() int {
	// SIGHUP is not among them: the proxy reads its file again.
	ctx, stop := signal.NotifyContext(context.Background(), os.Interrupt, syscall.SIGTERM)
	defer stop()
	sh := &command.Shell{Args: os.Args, Stdin: os.Stdin, Stdout: os.Stdout, Stderr: os.Stderr}
	return sh.Execute(ctx, New(sh), os.Args[1:], nil)
}

// New returns the program's verbs.
func New(sh *command.Shell) *cobra.Command {
	root := &cobra.Command{
		Use:   "ceiling-proxy",
		Short: "A reverse proxy and static file server, and a race against others",
		Long: `The reverse proxy of ceiling. "ceiling proxy" and "ceiling race" run it where it
lies beside ceiling.`,
		Example: `  ceiling-proxy proxy site.toml
  ceiling-proxy race --only nginx,ceiling`,
	}
	// A race has its backend from the load tester.
	serve := sh.Hand("ceiling", "serve KIND", "Run one of the servers to measure")
	serve.Hidden = true
	root.AddCommand(newProxy(sh), newRace(sh), newBaseline(sh), serve)
	return root
}
