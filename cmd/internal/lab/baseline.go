package lab

import (
	"errors"
	"fmt"
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
