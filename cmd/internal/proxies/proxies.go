// Package proxies is the program ceiling-proxy: the reverse proxy and the check of its configuration.
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
		Short: "A reverse proxy and static file server",
		Long: `The reverse proxy of ceiling. "ceiling proxy" runs it where it lies beside
ceiling; its race against other proxies is a verb of ceiling-lab.`,
		Example: `  ceiling-proxy check site.toml
  ceiling-proxy proxy site.toml
  ceiling-proxy race --only nginx,ceiling`,
	}
	root.AddCommand(newProxy(sh), newProxyCheck(sh), sh.Hand("ceiling-lab", "race", "Race the proxy against nginx and other installed proxies"))
	return root
}
