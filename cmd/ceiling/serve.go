package main

import (
	"crypto/tls"
	"fmt"
	"net"
	"os"
	"slices"
	"strings"
	"time"

	"github.com/spf13/cobra"

	"ceiling/internal/authority"
	"ceiling/server"
	"ceiling/server/downstream"
	"ceiling/server/store"
)

func newServe(sh *shell) *cobra.Command {
	cfg := server.Config{Addr: "127.0.0.1:8080"}
	var secure serveTLS
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
			if err := checkDatabase(&cfg.Database, kind); err != nil {
				return usage(err)
			}
			if err := checkDownstream(&cfg, kind); err != nil {
				return usage(err)
			}
			cfg.Ready = func(addr string) {
				fmt.Fprintf(sh.stdout, "%s serves on %s\n", kind.Name, addr)
			}
			if secure.on {
				if kind.Plain || cfg.Prefork {
					return usage(fmt.Errorf("--tls: %s has none; leave --tls out, or take nethttp, fasthttp or fiber without --prefork", name(kind, &cfg)))
				}
				remove, err := secure.prepare(sh, kind.Name, &cfg)
				if err != nil {
					return err
				}
				defer remove()
			}
			cfg.PprofReady = func(addr string) {
				fmt.Fprintf(sh.stdout, "profiles at http://%s/debug/pprof/\n", addr)
			}
			return server.Serve(c.Context(), kind.Name, cfg)
		},
	}
	databaseFlags(c, sh, &cfg.Database)
	c.Flags().StringVar(&cfg.Downstream, "downstream", "", "call a service that fails: own, or fail=1%,slow=5%:20ms,…")
	c.Flags().StringVar(&cfg.Addr, "addr", cfg.Addr, "address; port 0 = any, unix:/path a socket")
	c.Flags().StringVar(&cfg.Pprof, "pprof", "", "answer profiles here, of all processes: host:port")
	c.Flags().BoolVar(&cfg.Prefork, "prefork", false, "one process per core, as the framework does it")
	c.Flags().BoolVar(&secure.on, "tls", false, "serve https, by a certificate of an authority of its own")
	c.Flags().StringVar(&secure.ca, "ca", "", "write that authority's certificate here, for --cacert (default: a temporary file)")
	c.Flags().IntVar(&cfg.Workers, "workers", 0, "prefork children, or GOMAXPROCS; 0: one per CPU")
	return c
}

// name is what a server is called that has no TLS.
func name(kind server.Kind, cfg *server.Config) string {
	if cfg.Prefork {
		return kind.Name + " with --prefork"
	}
	return kind.Name
}

// serveTLS is what serve is asked of TLS.
type serveTLS struct {
	on bool
	ca string
}

// prepare makes an authority and a certificate that are gone when the server is, and
// has the server say where the authority's own is. The returned function removes
// that file where its name was not asked for.
func (t *serveTLS) prepare(sh *shell, kind string, cfg *server.Config) (remove func(), err error) {
	ca, err := authority.New("ceiling serve, thrown away when it ends")
	if err != nil {
		return nil, err
	}
	pair, err := ca.Issue(authority.Leaf{Names: ownNames(cfg.Addr)})
	if err != nil {
		return nil, err
	}
	path, remove := t.ca, func() {}
	if path == "" {
		f, err := os.CreateTemp("", "ceiling-ca-*.pem")
		if err == nil {
			path, err = f.Name(), f.Close()
		}
		if err != nil {
			return nil, fmt.Errorf("the authority's certificate: %w", err)
		}
		remove = func() { _ = os.Remove(path) } // it is in the directory of temporary files
	}
	if err := os.WriteFile(path, ca.PEM(), 0o644); err != nil {
		remove()
		return nil, fmt.Errorf("the authority's certificate: %w", err)
	}
	cfg.TLS = &tls.Config{Certificates: []tls.Certificate{pair}, NextProtos: []string{"http/1.1"}}
	cfg.Ready = func(addr string) {
		fmt.Fprintf(sh.stdout, "%s serves on https://%s\n", kind, addr)
		fmt.Fprintf(sh.stdout, "trust it with --cacert %s\n", path)
	}
	return remove, nil
}

// ownNames are what a server of this host may be called by.
func ownNames(addr string) []string {
	names := []string{"localhost", "127.0.0.1", "::1"}
	if name, err := os.Hostname(); err == nil {
		names = append(names, name)
	}
	if host, _, err := net.SplitHostPort(addr); err == nil && host != "" && !slices.Contains(names, host) {
		names = append(names, host)
	}
	return names
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
	b.WriteString("\nRoutes with --db; POST for those that write:\n")
	for _, r := range server.DatabaseRoutes() {
		fmt.Fprintf(&b, "  %-12s %s\n", r.Path, r.About)
	}
	var policies []string
	for _, r := range server.DownstreamRoutes() {
		policies = append(policies, strings.TrimPrefix(r.Path, "/call/"))
	}
	// One for each policy: docs/regimes.md says what they do.
	fmt.Fprintf(&b, "\nRoutes with --downstream, under /call/: %s.\n", strings.Join(policies, ", "))
	f := downstream.Standard()
	fmt.Fprintf(&b, "--downstream own is work=%v,slots=%d,fail=0%%,slow=0%%:%v,stall=0%%:%v,timeout=%v,outage=%v;\nname what shall be otherwise.\n",
		f.Work, f.Slots, f.SlowBy, f.StallFor, f.Timeout, f.Outage)
	return strings.TrimRight(b.String(), "\n")
}

// checkDownstream says what is wrong with --downstream, or nil.
func checkDownstream(cfg *server.Config, kind server.Kind) error {
	if cfg.Downstream == "" {
		return nil
	}
	if kind.Memory || cfg.Prefork {
		return fmt.Errorf("--downstream goes with one process of nethttp, fasthttp or fiber")
	}
	_, err := downstream.Parse(cfg.Downstream)
	return err
}

func databaseFlags(c *cobra.Command, sh *shell, d *server.Database) {
	d.Ready = func(about string) { fmt.Fprintln(sh.stdout, about) }
	f := c.Flags()
	f.StringVar(&d.Source, "db", "", "answer from a database: sqlite, sqlite:PATH, postgres or postgres://…")
	f.IntVar(&d.Pool, "db-pool", 10, "connections to it, of each process")
	f.BoolVar(&d.Unprepared, "db-unprepared", false, "have it parse every statement each time")
	f.BoolVar(&d.Cached, "db-cached", false, "answer a product that was read once from memory")
	f.BoolVar(&d.NoSync, "db-nosync", false, "commit without waiting for the disk")
	f.IntVar(&d.GroupSize, "db-group", 64, "writes that a commit of /db/group waits for")
	f.DurationVar(&d.GroupWait, "db-group-wait", 2*time.Millisecond, "how long it waits for them")
}

// checkDatabase says what is wrong with the flags of a database, or nil.
func checkDatabase(d *server.Database, kind server.Kind) error {
	if d.Source == "" {
		return nil
	}
	if kind.Memory {
		return fmt.Errorf("%s answers from memory alone; leave --db out, or choose another server", kind.Name)
	}
	if err := store.CheckSource(d.Source); err != nil {
		return fmt.Errorf("--db: %w", err)
	}
	return d.Options.Check()
}
