// Package lab is the program ceiling-lab: it plants bottlenecks and checks the verdicts, races proxies,
// has the servers that this takes, with databases and replicas
// behind them, and keeps a journal of what was measured.
package lab

import (
	"context"
	"errors"
	"fmt"
	"os"
	"os/signal"
	"strings"

	"github.com/spf13/cobra"

	"ceiling/check/race/baseline"
	"ceiling/cmd/internal/command"
	"ceiling/cmd/internal/hog"
	"ceiling/cmd/internal/serving"
	"ceiling/internal/exit"
	"ceiling/server/quorum"
)

// Main runs the program and returns its exit code.
func Main() int {
	ctx, stop := signal.NotifyContext(context.Background(), command.Signals()...)
	defer stop()
	if replica := os.Getenv(quorum.ReplicaEnv); replica != "" { // started by a server with --kv
		if err := quorum.Serve(ctx, replica, os.Stdout); err != nil {
			fmt.Fprintln(os.Stderr, "ceiling: "+command.OneLine(err))
			return exit.Error
		}
		return 0
	}
	sh := &command.Shell{Args: os.Args, Stdin: os.Stdin, Stdout: os.Stdout, Stderr: os.Stderr}
	return sh.Execute(ctx, New(sh), os.Args[1:], nil)
}

// New returns the program's verbs.
func New(sh *command.Shell) *cobra.Command {
	root := &cobra.Command{
		Use:   "ceiling-lab",
		Short: "Check ceiling's verdicts, race proxies, serve databases and replicas",
		Long: `The laboratory of ceiling: planted bottlenecks and whether the verdicts name them,
a race between proxies, servers with databases and replicas
behind them, and the journal. "ceiling selftest", "ceiling race" and "ceiling journal"
run it if it is in ceiling's directory.`,
		Example: `  ceiling-lab selftest
  ceiling-lab race --only nginx,ceiling
  ceiling-lab serve fasthttp --db sqlite`,
	}
	// A race has our own proxy from its program.
	proxy := sh.Hand("ceiling-proxy", "proxy FILE", "Run the reverse proxy and static file server")
	proxy.Hidden = true
	root.AddCommand(newSelftest(sh), newRace(sh), newJournal(sh), serving.New(sh, behind()), newPlanted(sh), newBaseline(sh),
		proxy, hog.New(sh))
	return root
}

// newBaseline is the verb that runs a minimal proxy; a race starts it as its child.
func newBaseline(sh *command.Shell) *cobra.Command {
	var o baseline.Config
	c := &cobra.Command{
		Use:       "baseline KIND",
		Short:     "Run a minimal proxy, as race does: " + strings.Join(baseline.Kinds(), ", "),
		Example:   "  ceiling baseline fasthttp --backend 127.0.0.1:3000",
		Hidden:    true,
		Args:      command.Exactly(1, "one KIND ("+strings.Join(baseline.Kinds(), ", ")+")"),
		ValidArgs: baseline.Kinds(),
		RunE: func(c *cobra.Command, args []string) error {
			o.Ready = func(addr string) { fmt.Fprintf(sh.Stdout, "baseline %s serves on %s\n", args[0], addr) }
			err := baseline.Serve(c.Context(), args[0], o)
			if errors.Is(err, baseline.ErrUnknown) {
				return command.Usage(err)
			}
			return err
		},
	}
	f := c.Flags()
	f.SortFlags = false
	f.StringVar(&o.Addr, "addr", "127.0.0.1:0", "address; port 0 = any")
	f.StringVar(&o.Backend, "backend", "", "host:port to forward every request to")
	f.StringVar(&o.Files, "files", "", "serve this directory instead")
	f.BoolVar(&o.Forward, "forward", false, "add X-Forwarded-For, -Proto and -Host")
	f.StringVar(&o.Log, "access-log", "", "access log file, combined format")
	return c
}
