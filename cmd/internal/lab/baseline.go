package lab

import (
	"fmt"
	"slices"
	"strings"

	"github.com/spf13/cobra"

	"ceiling/check/race/baseline"
	"ceiling/cmd/internal/command"
)

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
			if !slices.Contains(baseline.Kinds(), args[0]) {
				return command.Usage(fmt.Errorf("unknown baseline %q; there are %s", args[0], strings.Join(baseline.Kinds(), ", ")))
			}
			o.Ready = func(addr string) { fmt.Fprintf(sh.Stdout, "baseline %s serves on %s\n", args[0], addr) }
			return baseline.Serve(c.Context(), args[0], o)
		},
	}
	f := c.Flags()
	f.SortFlags = false
	f.StringVar(&o.Addr, "addr", "127.0.0.1:0", "address; port 0 = any")
	f.StringVar(&o.Backend, "backend", "", "host:port to forward every request to")
	f.StringVar(&o.Files, "files", "", "serve this directory instead")
	f.IntVar(&o.Workers, "workers", 0, "GOMAXPROCS (0 = one per CPU)")
	f.BoolVar(&o.Forward, "forward", false, "add X-Forwarded-For, -Proto and -Host")
	f.StringVar(&o.Log, "access-log", "", "access log file, combined format")
	return c
}
