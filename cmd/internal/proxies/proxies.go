// Package proxies is the program ceiling-proxy: the reverse proxy and the check of its configuration.
package proxies

import (
	"context"
	"os"
	"os/signal"
	"strings"
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
	return sh.Execute(ctx, New(sh), withVerb(os.Args[1:]), nil)
}

// withVerb adds the verb to a command line that begins with a file or a URI.
func withVerb(args []string) []string {
	if len(args) == 0 || !strings.ContainsAny(args[0], "./:") {
		return args
	}
	return append([]string{"proxy"}, args...)
}

// New returns the program's verbs.
func New(sh *command.Shell) *cobra.Command {
	root := &cobra.Command{
		Use:   "ceiling-proxy",
		Short: "A reverse proxy and static file server",
		Long: `The reverse proxy of ceiling. "ceiling proxy" runs it where it is in its
directory; its race against other proxies is a verb of ceiling-lab.
ceiling-proxy FILE is short for ceiling-proxy proxy FILE.`,
		Example: `  ceiling-proxy check site.toml
  ceiling-proxy site.toml
  ceiling-proxy race --only nginx,ceiling`,
	}
	root.AddCommand(newProxy(sh), newProxyCheck(sh), sh.Hand("ceiling-lab", "race", "Race the proxy against nginx and other installed proxies"))
	return root
}
