package main

import (
	"crypto/tls"
	"errors"
	"fmt"
	"net"
	"os"
	"slices"
	"strings"
	"time"

	"github.com/spf13/cobra"
	"github.com/spf13/pflag"

	"ceiling/internal/authority"
	"ceiling/server"
	"ceiling/server/downstream"
	"ceiling/server/publish"
	"ceiling/server/quorum"
	"ceiling/server/rpc"
	"ceiling/server/store"
)

func newServe(sh *shell) *cobra.Command {
	cfg := server.Config{Addr: "127.0.0.1:8080"}
	var secure serveTLS
	var names []string
	for _, k := range server.Catalogue() {
		names = append(names, k.Name)
	}
	names = append(names, rpc.Name)
	c := &cobra.Command{
		Use:       "serve KIND",
		Short:     "Run one of the servers to measure: " + strings.Join(names, ", "),
		Long:      serveLong(),
		Example:   "  ceiling serve fiber --prefork --workers 4 --addr 127.0.0.1:8080",
		Args:      exactly(1, "one KIND ("+strings.Join(names, ", ")+")"),
		ValidArgs: names,
		RunE: func(c *cobra.Command, args []string) error {
			if args[0] == rpc.Name {
				return sh.serveGRPC(c, cfg.Addr, &secure)
			}
			kind, err := server.Lookup(args[0])
			if err != nil {
				return usage(err)
			}
			if err := serveAlone(c, &cfg, &secure); err != nil {
				return usage(err)
			}
			if err := secure.goesWith(&cfg, kind); err != nil {
				return usage(err)
			}
			cfg.Ready = func(addr string) {
				fmt.Fprintf(sh.stdout, "%s serves on %s\n", kind.Name, addr)
			}
			if secure.on && !server.IsPreforkChild() {
				remove, err := secure.prepare(sh, kind.Name, protocolsOf(kind.Name), &cfg)
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
	c.Flags().StringVar(&cfg.Downstream, "downstream", "", "call a failing service: own, or fail=1%,slow=5%:20ms,…")
	c.Flags().IntVar(&cfg.ListKB, "list-kb", 0, "mean size of a /list response, e.g. 48 or 350 (default 111)")
	c.Flags().StringVar(&cfg.KeyValue, "kv", "", "serve a replicated key-value bucket: own, or replicas=3,delay=1ms,…")
	c.Flags().StringVar(&cfg.Push, "push", "", "publish events: own, or rate=100,size=1000,slow=block,…")
	c.Flags().StringVar(&cfg.Addr, "addr", cfg.Addr, "address; port 0 = any, unix:/path a socket")
	c.Flags().StringVar(&cfg.Pprof, "pprof", "", "serve pprof profiles of all processes at host:port")
	c.Flags().BoolVar(&cfg.Prefork, "prefork", false, "one process per core, by the framework's own prefork")
	c.Flags().BoolVar(&secure.on, "tls", false, "serve https, with a certificate of a temporary CA")
	c.Flags().BoolVar(&cfg.HTTP3, "http3", false, "also serve HTTP/3, on the UDP port with the same number (nethttp)")
	c.Flags().StringVar(&secure.ca, "ca", "", "write the CA certificate here, for --cacert (default: a temporary file)")
	c.Flags().IntVar(&cfg.Workers, "workers", 0, "prefork children, or GOMAXPROCS (0 = one per CPU)")
	return c
}

// serveGRPC runs the gRPC server, which has neither the routes nor the flags of the others.
func (sh *shell) serveGRPC(c *cobra.Command, addr string, secure *serveTLS) error {
	other := ""
	c.Flags().Visit(func(f *pflag.Flag) {
		if !slices.Contains([]string{"addr", "tls", "ca"}, f.Name) {
			other = f.Name
		}
	})
	if other != "" {
		return usage(fmt.Errorf("--%s: %s has none; it takes --addr, --tls and --ca", other, rpc.Name))
	}
	cfg := server.Config{Addr: addr, Ready: func(addr string) { fmt.Fprintf(sh.stdout, "%s serves on %s\n", rpc.Name, addr) }}
	if secure.on {
		remove, err := secure.prepare(sh, rpc.Name, []string{"h2"}, &cfg)
		if err != nil {
			return err
		}
		defer remove()
	}
	return rpc.Serve(c.Context(), rpc.Config{Addr: addr, TLS: cfg.TLS, Ready: cfg.Ready})
}

// serveAlone refuses flags of what is not served.
func serveAlone(c *cobra.Command, cfg *server.Config, secure *serveTLS) error {
	var refused error
	c.Flags().Visit(func(f *pflag.Flag) {
		switch {
		case f.Name == "ca" && !secure.on:
			refused = errors.New("--ca: it is the authority of --tls; give that as well, or leave it out")
		case strings.HasPrefix(f.Name, "db-") && cfg.Database.Source == "":
			refused = fmt.Errorf("--%s: it is for a server with a database; give --db sqlite or postgres as well, or leave it out", f.Name)
		}
	})
	return refused
}

// serveTLS is the TLS flags of serve.
type serveTLS struct {
	on bool
	ca string
}

// goesWith rejects what a kind of server does not support, and incompatible flags.
func (t *serveTLS) goesWith(cfg *server.Config, kind server.Kind) error {
	switch kb := cfg.ListKB; {
	case cfg.Prefork && !kind.Prefork:
		return fmt.Errorf("%s has no prefork mode; leave --prefork out", kind.Name)
	case kb != 0 && (kb < server.MinListKB || kb > server.MaxListKB):
		return fmt.Errorf("--list-kb %d: give %d to %d, or leave it out for lists of 111 KB", kb, server.MinListKB, server.MaxListKB)
	case t.on && kind.Plain:
		return fmt.Errorf("--tls: %s has none; leave --tls out, or take nethttp, fasthttp or fiber", kind.Name)
	case cfg.HTTP3 && (!t.on || kind.Name != "nethttp"):
		return errors.New("--http3: it goes with nethttp and --tls")
	}
	if err := checkDatabase(&cfg.Database, kind); err != nil {
		return err
	}
	if err := checkDownstream(cfg, kind); err != nil {
		return err
	}
	if err := checkKeyValue(cfg, kind); err != nil {
		return err
	}
	return checkPush(cfg, kind)
}

// prepare creates a certificate authority and a certificate that live as long as the server, and
// makes the server print the path of the authority's certificate. The returned function removes
// that file unless the user chose its name.
func (t *serveTLS) prepare(sh *shell, kind string, protocols []string, cfg *server.Config) (remove func(), err error) {
	ca, pair, err := authority.Site("ceiling serve, thrown away when it ends", authority.Leaf{Names: ownNames(cfg.Addr)})
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
		remove = func() { _ = os.Remove(path) } // a temporary file
	}
	if err := os.WriteFile(path, ca.PEM(), 0o644); err != nil {
		remove()
		return nil, fmt.Errorf("the authority's certificate: %w", err)
	}
	cfg.TLS = &tls.Config{Certificates: []tls.Certificate{pair}, NextProtos: protocols}
	cfg.Ready = func(addr string) {
		fmt.Fprintf(sh.stdout, "%s serves on https://%s\n", kind, addr)
		fmt.Fprintf(sh.stdout, "trust it with --cacert %s\n", path)
	}
	return remove, nil
}

// protocolsOf returns the protocols that a kind of server offers (ALPN).
func protocolsOf(kind string) []string {
	if k, err := server.Lookup(kind); err == nil && k.HTTP2 {
		return []string{"h2", "http/1.1"}
	}
	return []string{"http/1.1"}
}

// ownNames returns the names of a server on this host.
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
	b.WriteString("Serves the same routes with the same bytes, whatever the kind.\n\nKinds:\n")
	for _, k := range server.Catalogue() {
		fmt.Fprintf(&b, "  %-10s %s\n", k.Name, k.About)
	}
	fmt.Fprintf(&b, "  %-10s %s\n", rpc.Name, rpc.About)
	b.WriteString("\nRoutes of all kinds except grpc:\n")
	for _, r := range server.Routes() {
		fmt.Fprintf(&b, "  %-10s %s\n", r.Path, r.About)
	}
	// docs/regimes.md describes each.
	b.WriteString("\nRoutes with a database, a key-value bucket or a failing service behind the server:\n")
	fmt.Fprintf(&b, "  --db          /db/: %s\n", below("/db/", server.DatabaseRoutes()))
	fmt.Fprintf(&b, "                POST for insert, update, counter, group and async\n")
	for i, r := range server.KeyValueRoutes() {
		fmt.Fprintf(&b, "  %-13s %s  %s\n", []string{"--kv", ""}[min(i, 1)], r.Path, r.About)
	}
	fmt.Fprintf(&b, "  --downstream  /call/: %s\n", below("/call/", server.DownstreamRoutes()))
	f := downstream.Standard()
	fmt.Fprintf(&b, "--downstream own is work=%v,slots=%d,fail=0%%,slow=0%%:%v,stall=0%%:%v,timeout=%v,outage=%v; set what should differ.\n",
		f.Work, f.Slots, f.SlowBy, f.StallFor, f.Timeout, f.Outage)
	var streams []string
	for _, r := range server.PushRoutes() {
		streams = append(streams, r.Path)
	}
	fmt.Fprintf(&b, "Routes with --push: %s; own is %s.\n", strings.Join(streams, ", "),
		server.PushStandard())
	return strings.TrimRight(b.String(), "\n")
}

// below returns the routes under a path, by backend.
func below(path string, routes []server.Route) string {
	var names []string
	for _, r := range routes {
		names = append(names, strings.TrimPrefix(r.Path, path))
	}
	return strings.Join(names, ", ")
}

// checkPush validates --push.
func checkPush(cfg *server.Config, kind server.Kind) error {
	if cfg.Push == "" {
		return nil
	}
	if kind.Memory || cfg.Prefork {
		return fmt.Errorf("--push goes with one process of nethttp, fasthttp or fiber")
	}
	_, err := publish.Parse(cfg.Push)
	return err
}

// checkDownstream validates --downstream.
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

// checkKeyValue validates --kv.
func checkKeyValue(cfg *server.Config, kind server.Kind) error {
	if cfg.KeyValue == "" {
		return nil
	}
	if kind.Memory || cfg.Prefork {
		return fmt.Errorf("--kv goes with one process of nethttp, fasthttp or fiber")
	}
	if _, err := quorum.Parse(cfg.KeyValue); err != nil {
		return fmt.Errorf("--kv: %w", err)
	}
	return nil
}

func databaseFlags(c *cobra.Command, sh *shell, d *server.Database) {
	d.Ready = func(about string) { fmt.Fprintln(sh.stdout, about) }
	f := c.Flags()
	f.StringVar(&d.Source, "db", "", "serve from a database: sqlite, sqlite:PATH, postgres or postgres://…")
	f.IntVar(&d.Pool, "db-pool", 10, "database connections per process")
	f.BoolVar(&d.Unprepared, "db-unprepared", false, "parse every statement each time")
	f.BoolVar(&d.Cached, "db-cached", false, "cache products in memory")
	f.BoolVar(&d.NoSync, "db-nosync", false, "commit without waiting for the disk")
	f.IntVar(&d.GroupSize, "db-group", 64, "writes per commit of /db/group")
	f.DurationVar(&d.GroupWait, "db-group-wait", 2*time.Millisecond, "maximum wait for them")
}

// checkDatabase validates the flags of a database.
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
