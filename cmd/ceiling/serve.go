package main

import (
	"fmt"
	"strings"

	"github.com/spf13/cobra"

	"ceiling/server"
)

func newServe(sh *shell) *cobra.Command {
	cfg := server.Config{Addr: "127.0.0.1:8080"}
	var names []string
	for _, k := range server.Catalogue() {
		names = append(names, k.Name)
	}
	c := &cobra.Command{
		Use:       "serve KIND",
		Short:     "Run one of the servers to measure: " + strings.Join(names, ", "),
		Long:      serveLong(),
		Example:   "  ceiling serve fiber --prefork --workers 4 --addr 127.0.0.1:8080",
		Args:      exactly(1, "one KIND ("+strings.Join(names, ", ")+")"),
		ValidArgs: names,
		RunE: func(c *cobra.Command, args []string) error {
			kind, err := server.Lookup(args[0])
			if err != nil {
				return usage(err)
			}
			if cfg.Prefork && !kind.Prefork {
				return usage(fmt.Errorf("%s has no prefork mode; leave --prefork out", kind.Name))
			}
			cfg.Ready = func(addr string) {
				fmt.Fprintf(sh.stdout, "%s serves on %s\n", kind.Name, addr)
			}
			cfg.PprofReady = func(addr string) {
				fmt.Fprintf(sh.stdout, "profiles at http://%s/debug/pprof/\n", addr)
			}
			return server.Serve(c.Context(), kind.Name, cfg)
		},
	}
	c.Flags().StringVar(&cfg.Addr, "addr", cfg.Addr, "address; port 0 = any, unix:/path a socket")
	c.Flags().StringVar(&cfg.Pprof, "pprof", "", "answer profiles here, of all processes: host:port")
	c.Flags().BoolVar(&cfg.Prefork, "prefork", false, "one process per core, as the framework does it")
	c.Flags().IntVar(&cfg.Workers, "workers", 0, "prefork children, or GOMAXPROCS; 0: one per CPU")
	return c
}

func serveLong() string {
	var b strings.Builder
	b.WriteString("Serves the same routes and the same bytes whatever the kind.\n\nKinds:\n")
	for _, k := range server.Catalogue() {
		fmt.Fprintf(&b, "  %-10s %s\n", k.Name, k.About)
	}
	b.WriteString("\nRoutes:\n")
	for _, r := range server.Routes() {
		fmt.Fprintf(&b, "  %-10s %s\n", r.Path, r.About)
	}
	return strings.TrimRight(b.String(), "\n")
}
