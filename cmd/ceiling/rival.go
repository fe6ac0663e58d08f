package main

import (
	"fmt"
	"slices"
	"strings"

	"github.com/spf13/cobra"

	"ceiling/check/race/rival"
)

// newRival runs a minimal proxy; a race starts it as its child.
func newRival(sh *shell) *cobra.Command {
	var o rival.Config
	c := &cobra.Command{
		Use:       "rival KIND",
		Short:     "Run a minimal proxy, as race does: " + strings.Join(rival.Kinds(), ", "),
		Example:   "  ceiling rival fasthttp --backend 127.0.0.1:3000",
		Hidden:    true,
		Args:      exactly(1, "one KIND ("+strings.Join(rival.Kinds(), ", ")+")"),
		ValidArgs: rival.Kinds(),
		RunE: func(c *cobra.Command, args []string) error {
			if !slices.Contains(rival.Kinds(), args[0]) {
				return usage(fmt.Errorf("unknown rival %q; there are %s", args[0], strings.Join(rival.Kinds(), ", ")))
			}
			o.Ready = func(addr string) { fmt.Fprintf(sh.stdout, "rival %s serves on %s\n", args[0], addr) }
			return rival.Serve(c.Context(), args[0], o)
		},
	}
	f := c.Flags()
	f.SortFlags = false
	f.StringVar(&o.Addr, "addr", "127.0.0.1:0", "address; port 0 = any")
	f.StringVar(&o.Backend, "backend", "", "host:port that gets every request")
	f.StringVar(&o.Files, "files", "", "a directory that is served instead")
	f.IntVar(&o.Workers, "workers", 0, "threads that run Go code; 0: one per CPU")
	f.BoolVar(&o.Forward, "forward", false, "add X-Forwarded-For, -Proto and -Host")
	f.StringVar(&o.Log, "access-log", "", "a file for lines in the combined format")
	return c
}
